// The graph IR: a static dataflow graph of one step over T tokens of any mix of sequences.
//
// A graph is a list of ops in an order that is a valid schedule. Values are single-assignment and typed with
// symbolic leading dimensions. Everything that isn't computed in the step is explicit: weights (tensors of the
// file, or tables the compiler makes), states (KV caches, recurrent states), and the row table, which says of
// each token its id, position, sequence, role and whether its output is asked for.
//
//   graph @gemma3.step(rows: row[T], kv0: kv_ring[window 512, heads 1, dim 256]) -> logits: f32[R, 262144] {
//     %x0  = embed(rows.token, table = weight "token_embd.weight": q8_0[262144, 640]) {scale = 25.298}  // f32[T, 640]
//     %qkv = matmul(%n0, rows = [weight "blk.0.attn_q.weight": q5_0[1024, 640], ...])
//
// The graph is a plain value: passes are functions Graph -> Graph. Ids index the vectors of their graph.
// Text form: print.h, parse.h. Invariants: verify.h. Meaning: interpret.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/quant/formats.h"
#include "compiler/quant/rope_table.h"

namespace gc::ir {

enum class OpKind : uint8_t {
#define OP(name, inputs, results, weights, reads, attrs, maths) name,
#include "compiler/ir/ops.def"
#undef OP
};

enum class AttrName : uint8_t {
#define ATTR(name, type, meaning) name,
#include "compiler/ir/attrs.def"
#undef ATTR
};

// Element types of values. Q16 is the 16-bit block-quantized activation of compiler/quant/activation.h.
enum class Elem : uint8_t { F32, F16, BF16, I32, Q16 };

// root_softplus: sqrt(softplus(x)); signed_root: sqrt(max(|x|, 1e-6)) with the sign of x, 0 for 0; elu_excess: elu(x) - x,
// exp(x) - 1 - x below 0, else 0.
enum class Fn : uint8_t {
  gelu_tanh,
  gelu_erf,
  gelu_quick,
  silu,
  relu,
  relu2,
  sigmoid,
  tanh,
  softplus,
  root_softplus,
  signed_root,
  elu_excess,
  exp
};

// A dimension: a constant, or one of the sizes known only at run time.
struct Dim {
  enum class Kind : uint8_t { Const, Tokens /* T */, Outputs /* R */, Positions /* P */ };
  Kind kind = Kind::Const;
  int64_t size = 0;  // of Const
  static Dim of(int64_t n) { return {Kind::Const, n}; }
  static Dim tokens() { return {Kind::Tokens, 0}; }
  static Dim outputs() { return {Kind::Outputs, 0}; }
  bool operator==(const Dim&) const = default;
};

struct Type {
  Elem elem = Elem::F32;
  std::vector<Dim> dims;  // outermost first
  bool operator==(const Type&) const = default;
};

template <class Tag>
struct Id {
  int32_t index = -1;
  bool valid() const { return index >= 0; }
  auto operator<=>(const Id&) const = default;
};
using ValueId = Id<struct ValueTag>;
using WeightId = Id<struct WeightTag>;
using StateId = Id<struct StateTag>;

// A constant operand. `source` says where its bytes come from when the weight image is packed.
struct Weight {
  enum class Source : uint8_t {
    Tensor,     // the file's tensor of this name
    RopeFine,   // f32[n, dims/2, 2]: (cos, sin) of the angles at positions 0..n-1
    RopeCoarse  // f32[m, dims/2, 2]: (cos, sin) at positions 0, n, 2n, ..., (m-1)n
                // of both with long_factors [2, ...]: for short contexts, then for long ones
  };
  struct Rope {
    double base = 0, scale = 1;
    int64_t dims = 0, fine = 0;  // turned dimensions; positions of the fine table (= step of the coarse one)
    std::string factors;         // tensor of frequency divisors, or empty
    std::string long_factors;    // of those in contexts of more than short_context positions, or empty
    int64_t short_context = 0;
    double low = -1, high = -1;  // YaRN's ramp, or -1
    double magnitude = 1;        // factor, in the fine table
    RopeParams params(Source source) const;
    bool operator==(const Rope&) const = default;
  };
  std::string name;  // of the tensor ("blk.0.attn_q.weight"), or of the table ("rope.local.fine")
  Format format = Format::F32;
  std::vector<int64_t> shape;  // outermost first: [rows, cols] (the reverse of GGUF's ne)
  Source source = Source::Tensor;
  Rope rope;  // of the two table sources

  // Of a table: its rows for one kind of context.
  int64_t table_rows() const { return shape[shape.size() - 3]; }
};

// A weight operand of an op. `slot` indexes the op's weight slots in ops.def; the segments of a "*" slot are
// consecutive. `rows` restricts a matrix to a range of its rows.
struct WeightUse {
  uint8_t slot = 0;
  WeightId weight;                      // invalid: an absent segment of an optional "*?" slot
  int64_t row_begin = 0, row_end = -1;  // -1: to the end
  bool operator==(const WeightUse&) const = default;
};

// What a sequence carries from step to step.
struct State {
  enum class Kind : uint8_t { KvFull, KvRing, KvLatent, Conv, Ssm, Encoder };
  std::string name;
  Kind kind = Kind::KvFull;
  // KvRing: positions that an attention can see; Conv: rows kept; KvLatent: positions that one row kept stands for.
  int64_t window = 0;
  int64_t heads = 0;             // kv heads; of Ssm: matrices [k_dim, v_dim]; of Conv: 1
  int64_t k_dim = 0, v_dim = 0;  // size of a key and of a value head; of Conv both: channels

  bool is_recurrent() const { return kind == Kind::Conv || kind == Kind::Ssm; }
  // f32s that a sequence takes in a recurrent state.
  int64_t recurrent_size() const { return kind == Kind::Conv ? window * v_dim : heads * k_dim * v_dim; }
};

struct Attr {
  AttrName name;
  double f = 0;   // f32
  int64_t i = 0;  // i64, flag, and the enums fn and elem by number
  std::vector<int64_t> list;
  bool operator==(const Attr&) const = default;
};

struct Op {
  OpKind kind;
  std::vector<ValueId> inputs;
  std::vector<WeightUse> weights;
  StateId state;            // of ops with "state" in `reads`
  std::vector<Attr> attrs;  // sorted by name, at most one of each
  std::vector<ValueId> results;

  const Attr* find(AttrName name) const;
  bool has(AttrName name) const { return find(name) != nullptr; }
  double f32(AttrName name) const;  // GC_CHECKs that it is there
  double f32_or(AttrName name, double other) const;
  int64_t i64(AttrName name) const;
  int64_t i64_or(AttrName name, int64_t other) const;
  const std::vector<int64_t>& list(AttrName name) const;
  Fn fn() const;
  Elem out() const;  // attribute out, default F32
  void set_f32(AttrName name, double v);
  void set_i64(AttrName name, int64_t v);
  void set_list(AttrName name, std::vector<int64_t> v);
  void erase(AttrName name);
  // The uses of one slot, in order (by number, or by its name in ops.def).
  std::vector<WeightUse> slot(std::string_view name) const;
  std::optional<WeightUse> one(std::string_view name) const;  // a "w" or "w?" slot
};

struct Value {
  std::string name;  // unique, without %
  Type type;
  int32_t def = -1;  // index of the op that makes it
};

struct Graph {
  std::string name;  // "gemma3.step"
  std::vector<Weight> weights;
  std::vector<State> states;
  std::vector<Value> values;
  std::vector<Op> ops;
  std::vector<ValueId> outputs;  // logits first
  bool encoder = false;          // embeddings, or a classifier's scores, in place of logits
  // Ops of layer i are ops[layer_begin[i], layer_begin[i+1]); before the first: embedding, after the last: head.
  // The residual stream entering layer i is the value layer_input[i]. Kept by every pass.
  std::vector<int32_t> layer_begin;  // n_layer + 1 entries
  std::vector<ValueId>
      layer_input;  // n_layer + 1 entries, the last enters the head ([R, n] once select has moved before it)

  const Value& value(ValueId id) const { return values[id.index]; }
  const Weight& weight(WeightId id) const { return weights[id.index]; }
  const State& state(StateId id) const { return states[id.index]; }
};

// Facts of a row of ops.def.
struct OpInfo {
  const char* name;
  int inputs, results;
  const char* weights;
  const char* reads;
  const char* attrs;
  const char* maths;
};
const OpInfo& info(OpKind kind);
// Its result is its operand's memory, seen otherwise: it computes nothing.
bool is_view(OpKind kind);
// It takes single rows of its table, by numbers that the step's rows give.
bool looks_up(OpKind kind);
std::optional<OpKind> op_by_name(std::string_view name);
int op_count();
bool reads(OpKind kind, std::string_view what);  // "state", "rows", "position", ...

enum class AttrType : uint8_t { f32, i64, flag, fn, elem, list };
struct AttrInfo {
  const char* name;
  AttrType type;
  const char* meaning;
};
const AttrInfo& info(AttrName name);
std::optional<AttrName> attr_by_name(std::string_view name);

const char* name(Fn fn);
const char* name(Elem elem);
const char* name(State::Kind kind);
std::optional<Fn> fn_by_name(std::string_view name);
std::optional<Elem> elem_by_name(std::string_view name);
std::optional<State::Kind> state_kind_by_name(std::string_view name);

// A weight slot parsed from a row of ops.def.
struct Slot {
  std::string name;
  bool many = false, optional = false;
};
const std::vector<Slot>& slots(OpKind kind);
uint8_t slot_index(OpKind kind, std::string_view name);

struct AttrSlot {
  AttrName name;
  bool optional;
};
const std::vector<AttrSlot>& attr_slots(OpKind kind);

// ALiBi's slope of a head: for n heads, a power of two, 2^(-largest (h + 1) / n); else those of the largest power of
// two below n, then every other one of twice that many.
double alibi_slope(double largest, int64_t head, int64_t heads);

// T5's ranges of distances (key's position - query's): short distances have one each, longer ones share them in powers, and
// all from 128 on the last; with `both` later positions have the upper half, else they count as distance 0.
constexpr int64_t kBucketReach = 128;
int64_t distance_bucket(int64_t distance, int64_t buckets, bool both);

// Whether an attention's rows have the sums of its softmax behind their values.
bool gives_sums(const Op& op);

// Rows of its matrix that a use takes.
int64_t row_count(const Graph& g, const WeightUse& use);

}  // namespace gc::ir
