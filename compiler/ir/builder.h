// Writes a graph from top to bottom, as an architecture file does:
//
//   Builder b("llama.step");
//   ValueId x = b.embed(b.weight("token_embd.weight", f, {n_vocab, n_embd}), "inp_embd");
//   for (int i = 0; i < n_layer; i++) {
//     b.begin_layer(x);
//     ValueId h = b.rms_norm(x, b.weight(...), eps, "blk.0.attn_norm");
//     ValueId q = b.rope(b.heads(b.matmul(h, wq, "blk.0.q"), n_head, "blk.0.q_heads"), rope, "blk.0.q_rope");
//     ...
//     x = b.add(x, ffn, "blk.0.out");
//   }
//   b.end_layers(x);
//   b.output(b.matmul(b.rms_norm(b.select(x, "rows"), w, eps, "result_norm"), head, "logits"));
//   return b.take();
//
// Only the plain ops are written; joining and fusing is the passes' work. Every method takes the new value's name
// last: unique in the graph, without %; names reach dumps, profiles and symbols. Result types are computed here
// (infer.h). What does not fit is a bug of the caller (GC_CHECK): sizes that a file could get wrong are checked
// before, by who reads the file. A WeightId or StateId that is default-constructed means "none" where the op's
// row in ops.def says optional.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "compiler/ir/ir.h"

namespace gc::ir {

struct RopeArgs {
  double base = 10000;
  double scale = 1;       // factor of the position: 1/8 for linear scaling by 8
  int64_t dims = 0;       // leading dimensions of a head that turn
  bool neox = true;       // pairs (i, i + dims/2), else (2i, 2i + 1)
  WeightId factors;       // [dims/2], divisors of the frequencies, or none
  WeightId long_factors;  // those in contexts of more than short_context positions, or none
  int64_t short_context = 0;
  double low = -1,
         high = -1;  // YaRN: pairs up to low keep their frequency, those from high on are scaled; -1: none
  double magnitude = 1;  // factor of what is turned
  int64_t limit = 0;     // the frequencies hold for positions below it; 0: for all
  bool inverse = false;  // turns back
  int64_t back = 0;      // by the position that many before
};

struct AttentionArgs {
  double scale = 1;    // of q.k
  int64_t window = 0;  // positions seen, itself included; 0: all
  double cap = 0;      // softcap of q.k; 0: none
  double alibi = 0;    // ALiBi: the largest exponent of its slopes; 0: none
  WeightId sinks;      // [heads], or none
  WeightId bias;       // [buckets * heads], of distances, or none
  int64_t buckets = 0;
  bool ahead = false;  // later positions are seen too (`window` of them): the step has the whole sequence
  int64_t reach = 0;   // positions for which this is right; 0: all
};

// Rows of a table by hashes of the last tokens, see op ngram_embed.
struct NgramArgs {
  WeightId table;
  std::vector<int64_t> multipliers;    // one for each token, the last one first; u64 by their bits
  std::vector<int64_t> sizes, begins;  // of each head, as many for each length from two tokens on
  int64_t end_token = 0;
};

struct CompressArgs {
  WeightId ape;  // [every, columns of the operands]
  int64_t every = 0;
  bool overlap = false;
};

struct SsmArgs {
  ValueId x, dt, b, c;     // [T, H, P], [T, H], [T, G, N] twice
  WeightId a, dt_bias, d;  // [H] or [H, N]; [H] or none; [H] or none
};

struct DeltaArgs {
  ValueId q, k, v;     // [T, G, K] twice, [T, H, V]
  ValueId gate, beta;  // [T, H] or [T, H, K], logarithms of decays; [T, H]
  double scale = 1;
  bool in_turn = false;  // heads take groups in turn
};

struct DecayArgs {
  double scale = 1;
  double alibi = 8, by = 1;  // states decay by exp(-by * ALiBi's slope of this largest exponent)
};

struct WkvArgs {
  ValueId q, k, v, gate;  // [T, H, K], [T, G, K], [T, G, V], [T, H, K]: logarithms of decays
  WeightId bonus;         // [H, K], or none
  double scale = 1;
  bool leaky = false;
};

struct Wkv7Args {
  ValueId q, k, v, gate, a, b;  // [T, H, K] but v [T, H, V]; gate: logarithms of decays
};

struct RouteArgs {
  int64_t used = 0;  // experts of a token
  enum class Weights { Softmax, Sigmoid, SoftmaxOfChosen, RootSoftplus } weights = Weights::Softmax;
  WeightId bias;      // [experts], added for the choice alone, or none
  WeightId of_token;  // [tokens, used]: the choice of each token, in place of one by weights
  bool norm = false;  // weights are divided by their sum
  double scale = 1;   // then times this
  int64_t groups = 1, groups_used = 1;  // experts are chosen from the best groups_used of groups
};

struct ExpertsArgs {
  WeightId gate, up;              // [experts, n, k]; gate may be none
  WeightId gate_scale, up_scale;  // [experts], of the products, or none
  WeightId gate_bias, up_bias;    // [experts, n], or none
  bool joined = false;            // up and up_bias have 2 n rows: the gate's, then those of up
  int64_t used = 0;
  Fn fn = Fn::silu;
  bool weigh = false;            // routing weights count here, before fn
  double limit = 0, up_add = 0;  // see ops.def; 0: none
  bool limit_out = false;
  double gate_cap = 0, up_cap = 0;  // 0: none
};

class Builder {
 public:
  explicit Builder(std::string graph_name);

  // The weight of this name, made at its first mention; shape is outermost first ([rows, cols]).
  WeightId weight(std::string name, Format format, std::vector<int64_t> shape);
  StateId state(State state);

  ValueId embed(WeightId table, std::string name);           // f32[T, D] of the row table's tokens
  ValueId embed_position(WeightId table, std::string name);  // f32[T, D] of the row table's positions
  // f32[T, heads * D]; the state keeps the tokens before the last.
  ValueId ngram_embed(const NgramArgs& args, StateId state, std::string name);
  ValueId rms_norm(ValueId x, WeightId weight, double eps, std::string name);
  ValueId layer_norm(ValueId x, WeightId weight, WeightId bias, double eps, std::string name);
  ValueId matmul(ValueId x, WeightId rows, std::string name);
  ValueId matmul(ValueId x, WeightId rows, WeightId bias, std::string name);
  // Several row segments, each with an optional bias (`biases` empty, or one for each segment); `slot` is set here.
  ValueId matmul(ValueId x, std::vector<WeightUse> rows, std::vector<WeightId> biases, std::string name);
  ValueId slice(ValueId x, int64_t begin, int64_t size, std::string name);
  ValueId heads(ValueId x, int64_t heads, std::string name);  // [T, heads * d] -> [T, heads, d]
  ValueId merge_heads(ValueId x, std::string name);           // and back
  ValueId rope(ValueId x, const RopeArgs& args, std::string name);
  ValueId scale(ValueId x, double by, std::string name);
  ValueId weigh(ValueId x, WeightId weight, std::string name);          // x * weight over the last dimension
  ValueId weigh_inverse(ValueId x, WeightId weight, std::string name);  // x / weight
  ValueId shift(ValueId x, WeightId weight, std::string name);          // x + weight over the last dimension
  ValueId clamp(ValueId x, double limit, std::string name);
  ValueId clamp_above(ValueId x, double limit, std::string name);  // min(x, limit)
  ValueId temper(ValueId x, double by, int64_t period, int64_t offset, std::string name);
  ValueId add(ValueId a, ValueId b, std::string name);
  ValueId mul(ValueId a, ValueId b, std::string name);
  ValueId mul_heads(ValueId x, ValueId by, std::string name);  // [T, heads, d] * [T, heads]
  ValueId dot_heads(ValueId a, ValueId b, std::string name);   // [T, heads, d] twice -> [T, heads]
  ValueId act(ValueId x, Fn fn, std::string name);
  ValueId softcap(ValueId x, double cap, std::string name);
  // q [T, heads, d], k [T, kv_heads, d], v [T, kv_heads, dv] -> [T, heads, dv].
  ValueId attention(ValueId q, ValueId k, ValueId v, StateId state, const AttentionArgs& args,
                    std::string name);
  // Over what an earlier op of the step has appended to the state.
  ValueId attention_again(ValueId q, StateId state, const AttentionArgs& args, std::string name);
  // [T, H, d], [T, 1, d], [T, H] -> f32[T, used]: the positions that attention_chosen sees.
  ValueId choose_positions(ValueId q, ValueId k, ValueId weights, StateId state, int64_t used,
                           std::string name);
  ValueId attention_chosen(ValueId q, ValueId k, ValueId v, ValueId positions, StateId state,
                           const AttentionArgs& args, bool sums, std::string name);
  // [T, heads * dv + heads]: attention, then each head's logarithm of the sum.
  ValueId attention_sums(ValueId q, ValueId k, ValueId v, StateId state, const AttentionArgs& args,
                         std::string name);
  ValueId mix(ValueId x, ValueId factors, double plus,
              std::string name);                               // [T, A, d], [T, J * A] -> [T, J, d]
  ValueId rescale(ValueId like, ValueId x, std::string name);  // [T, d], [T, H, d] -> [T, H, d]
  ValueId add_heads(ValueId x, ValueId y, int64_t begin,
                    std::string name);  // [T, H, d] + [T, d] from head begin on
  ValueId sinkhorn(ValueId x, int64_t heads, double eps, int64_t rounds, std::string name);
  ValueId sparsify(ValueId x, double by, std::string name);
  // Recurrences, see ops.def. fn: none, or what the convolution's sums go through.
  ValueId conv(ValueId x, WeightId taps, WeightId bias, std::optional<Fn> fn, StateId state, std::string name,
               int64_t dilation = 1);
  ValueId compress(ValueId x, ValueId scores, const CompressArgs& args, StateId state, std::string name);
  ValueId ssm_scan(const SsmArgs& args, StateId state, std::string name);      // [T, H, P]
  ValueId delta_rule(const DeltaArgs& args, StateId state, std::string name);  // [T, H, V]
  ValueId decay_attention(ValueId q, ValueId k, ValueId v, const DecayArgs& args, StateId state,
                          std::string name);  // [T, H, V]
  // x [T, D] -> [T, J, D], without mix [T, D].
  ValueId token_shift(ValueId x, WeightId mix, StateId state, std::string name);
  ValueId wkv(const WkvArgs& args, StateId state, std::string name);    // [T, H, V]
  ValueId wkv7(const Wkv7Args& args, StateId state, std::string name);  // [T, H, V]
  ValueId concat(ValueId a, ValueId b, std::string name);
  ValueId matmul_heads(ValueId x, WeightId matrices, std::string name);  // [T, H, k] x [H, n, k] -> [T, H, n]
  ValueId slice_heads(ValueId x, int64_t begin, int64_t size, std::string name);  // of each head of [T, H, d]
  // [T, H, a] and [T, H, b], either with one head for all -> [T, H, a + b].
  ValueId concat_heads(ValueId a, ValueId b, int64_t heads, std::string name);
  ValueId select(ValueId x, std::string name);  // [T, ...] -> [R, ...], the rows whose output is asked for

  ValueId route(ValueId logits, const RouteArgs& args, std::string name);  // [T, experts] -> the same
  ValueId experts_in(ValueId x, ValueId routing, const ExpertsArgs& args, std::string name);  // [T, used, n]
  ValueId experts_out(ValueId x, ValueId routing, WeightId down, WeightId bias, bool weigh, std::string name);

  // Any op, its `results` empty: checks it, types its results and names them.
  std::vector<ValueId> emit(Op op, std::vector<std::string> names);

  // The residual stream enters the next layer; after the last layer it enters the head.
  void begin_layer(ValueId residual);
  void end_layers(ValueId residual);
  void output(ValueId value);
  void embedding(ValueId value);  // an encoder's output

  const Graph& graph() const { return graph_; }
  const Type& type(ValueId value) const { return graph_.value(value).type; }
  const Weight& weight(WeightId id) const { return graph_.weight(id); }

  // The finished graph, verified. The builder is empty afterwards.
  Graph take();

 private:
  ValueId emit1(Op op, std::string name);
  void use(Op& op, std::string_view slot, WeightId weight) const;

  Graph graph_;
  bool ended_ = false;
  std::unordered_map<std::string, int32_t> weights_, names_, states_;
};

}  // namespace gc::ir
