#include "compiler/ir/infer.h"

#include <cmath>

#include "compiler/base/strings.h"

namespace gc::ir {
namespace {

// Thrown inside this file alone: it unwinds from the rule that fails to infer().
struct Misfit {
  std::string text;
};

template <class... Parts>
[[noreturn]] void misfit(const Parts&... parts) {
  throw Misfit{cat(parts...)};
}

template <class... Parts>
void expect(bool ok, const Parts&... parts) {
  if (!ok) misfit(parts...);
}

// 2^40 values: sums and products of a few such sizes stay in 64 bits.
constexpr int64_t kMaxSize = int64_t(1) << 40;

int64_t attr_size(const Op& op, AttrName name) {
  int64_t v = op.i64(name);
  expect(v > 0 && v < (1 << 24), "attribute ", info(name).name, " is ", v);
  return v;
}

class Rules {
 public:
  Rules(const Graph& g, const Op& op) : g_(g), op_(op) {}

  std::vector<Type> types() {
    check_lists();
    switch (op_.kind) {
      case OpKind::embed:
        return embed();
      case OpKind::embed_position:
        return embed();
      case OpKind::rms_norm:
        f32_in(0);
        vector_of("weight", last(0));
        return {with_out(in(0))};
      case OpKind::layer_norm:
        f32_in(0);
        vector_of("weight", last(0));
        vector_of("bias", last(0));
        return {with_out(in(0))};
      case OpKind::matmul:
        return matmul();
      case OpKind::slice:
        return slice();
      case OpKind::heads:
        return heads();
      case OpKind::merge_heads:
        return merge_heads();
      case OpKind::rope:
        return rope();
      case OpKind::scale:
      case OpKind::clamp:
      case OpKind::act:
      case OpKind::softcap:
        f32_in(0);
        return {in(0)};
      case OpKind::weigh:
        return weigh();
      case OpKind::shift:
        f32_in(0);
        vector_of("weight", last(0));
        return {in(0)};
      case OpKind::temper:
        f32_in(0);
        expect(in(0).dims[0] == Dim::tokens(), "needs all tokens' rows, operand is ", to_string(in(0)));
        attr_size(op_, AttrName::period);
        return {in(0)};
      case OpKind::mul_heads:
        return mul_heads();
      case OpKind::add:
      case OpKind::mul:
        same_f32();
        return {in(0)};
      case OpKind::matmul_heads:
        return matmul_heads();
      case OpKind::slice_heads:
        per_head(0);
        return slice();
      case OpKind::concat_heads:
        return concat_heads();
      case OpKind::attention:
        return attention();
      case OpKind::attention_again:
        return attention_again();
      case OpKind::mix:
        return mix();
      case OpKind::rescale:
        per_head(1);
        row_of_head(0, 1);
        return {in(1)};
      case OpKind::add_heads:
        per_head(0);
        row_of_head(1, 0);
        expect(op_.i64(AttrName::begin) >= 0 && op_.i64(AttrName::begin) <= in(0).dims[1].size, "begin ",
               op_.i64(AttrName::begin), " of ", to_string(in(0)));
        return {in(0)};
      case OpKind::sparsify:
        f32_in(0);
        expect(last(0) > 1, "needs several values, operand is ", to_string(in(0)));
        return {in(0)};
      case OpKind::conv:
        return conv();
      case OpKind::ssm_scan:
        return ssm_scan();
      case OpKind::delta_rule:
        return delta_rule();
      case OpKind::decay_attention:
        return decay_attention();
      case OpKind::concat:
        return concat();
      case OpKind::select:
        return select();
      case OpKind::route:
        return route();
      case OpKind::experts_in:
        return experts_in();
      case OpKind::experts_out:
        return experts_out();
      case OpKind::quantize:
        f32_in(0);
        return {q16(in(0))};
      case OpKind::glu:
        same_f32();
        return {with_out(in(0))};
      case OpKind::residual_norm:
        same_f32();
        vector_of("post", last(0));
        vector_of("pre", last(0));
        return {in(0), with_out(in(0))};
      case OpKind::matmul_glu:
        return matmul_glu();
      case OpKind::attn_block:
        return attn_block();
    }
    misfit("op number ", int(op_.kind));
  }

 private:
  const Type& in(int i) const { return g_.value(op_.inputs[i]).type; }

  int64_t last(int i) const {
    int64_t n = last_dim(in(i));
    expect(n > 0, "operand ", i, " has no constant last dimension: ", to_string(in(i)));
    return n;
  }

  void f32_in(int i) const {
    expect(in(i).elem == Elem::F32, "operand ", i, " must be f32, is ", to_string(in(i)));
    last(i);
  }

  void same_f32() const {
    f32_in(0);
    expect(in(0) == in(1), "operands differ in type: ", to_string(in(0)), " and ", to_string(in(1)));
  }

  static Type q16(Type t) {
    expect(last_dim(t) % 32 == 0, "q16 needs a last dimension that is a multiple of 32: ", to_string(t));
    t.elem = Elem::Q16;
    return t;
  }

  Type with_out(const Type& t) const {
    expect(op_.out() == Elem::F32 || op_.out() == Elem::Q16, "out must be f32 or q16");
    return op_.out() == Elem::Q16 ? q16(t) : t;
  }

  // A [tokens or rows, heads, dim] value.
  void per_head(int i) const {
    f32_in(i);
    expect(in(i).dims.size() == 3, "operand ", i, " must be [T, heads, dim], is ", to_string(in(i)));
    expect(in(i).dims[1].kind == Dim::Kind::Const, "operand ", i, " has no constant number of heads");
  }

  // Operands, weights and attributes as the row of ops.def lists them.
  void check_lists() const {
    const OpInfo& row = info(op_.kind);
    expect(int(op_.inputs.size()) == row.inputs, "takes ", row.inputs, " operands, has ", op_.inputs.size());
    for (ValueId v : op_.inputs)
      expect(v.valid() && v.index < int(g_.values.size()), "operand is no value of the graph");
    expect(op_.state.valid() == reads(op_.kind, "state"),
           op_.state.valid() ? "takes no state" : "needs a state");
    check_slots();
    check_attrs();
  }

  void check_slots() const {
    const auto& table = slots(op_.kind);
    std::vector<int64_t> count(table.size());
    int before = 0;
    for (const WeightUse& use : op_.weights) {
      expect(use.slot < table.size(), "has no weight slot ", int(use.slot));
      expect(use.slot >= before, "weights are not in the order of their slots");
      before = use.slot;
      count[use.slot]++;
      const Slot& slot = table[use.slot];
      if (!use.weight.valid()) {
        expect(slot.many && slot.optional, "weight '", slot.name, "' is absent");
        continue;
      }
      check_use(slot, use);
    }
    for (size_t i = 0; i < table.size(); i++) {
      expect(count[i] > 0 || table[i].optional, "weight '", table[i].name, "' is missing");
      expect(count[i] <= 1 || table[i].many, "weight '", table[i].name, "' is given twice");
    }
  }

  void check_use(const Slot& slot, const WeightUse& use) const {
    const Weight& w = g_.weight(use.weight);
    expect(!w.shape.empty(), "weight '", w.name, "' has no dimensions");
    for (int64_t d : w.shape) expect(d > 0 && d < kMaxSize, "weight '", w.name, "' has a dimension of ", d);
    expect(slot.many || (use.row_begin == 0 && use.row_end < 0), "weight '", w.name, "' takes no row range");
    int64_t end = use.row_end < 0 ? w.shape[0] : use.row_end;
    expect(use.row_begin >= 0 && use.row_begin < end && end <= w.shape[0], "rows ", use.row_begin, " to ",
           end, " of weight '", w.name, "', which has ", w.shape[0]);
  }

  void check_attrs() const {
    const auto& table = attr_slots(op_.kind);
    for (const Attr& a : op_.attrs) {
      bool known = false;
      for (const AttrSlot& slot : table) known |= slot.name == a.name;
      expect(known, "has no attribute ", info(a.name).name);
    }
    for (const Attr& a : op_.attrs)
      expect(std::isfinite(a.f), "attribute ", info(a.name).name, " is not finite");
    for (size_t i = 1; i < op_.attrs.size(); i++)
      expect(op_.attrs[i - 1].name < op_.attrs[i].name, "attributes are not sorted or not unique");
    for (const AttrSlot& slot : table)
      expect(slot.optional || op_.has(slot.name), "attribute ", info(slot.name).name, " is missing");
  }

  const Weight* weight(std::string_view slot) const {
    auto use = op_.one(slot);
    return use ? &g_.weight(use->weight) : nullptr;
  }

  void vector_of(std::string_view slot, int64_t size) const {
    const Weight* w = weight(slot);
    if (w) fits(*w, {size});
  }

  static void fits(const Weight& w, const std::vector<int64_t>& shape) {
    expect(w.shape == shape, "weight '", w.name, "' is ", to_string(w.format, w.shape), ", needed is ",
           to_string(w.format, shape));
  }

  std::vector<Type> embed() const {
    const Weight& table = *weight("table");
    expect(table.shape.size() == 2, "the table must be a matrix: '", table.name, "'");
    return {{Elem::F32, {Dim::tokens(), Dim::of(table.shape[1])}}};
  }

  std::vector<Type> weigh() const {
    f32_in(0);
    const Weight& w = *weight("weight");
    expect(w.shape.size() == 1 && last(0) % w.shape[0] == 0, "weight '", w.name, "' is ",
           to_string(w.format, w.shape), ", rows are of ", last(0));
    return {in(0)};
  }

  std::vector<Type> mul_heads() const {
    per_head(0);
    f32_in(1);
    expect(in(1).dims.size() == 2 && in(1).dims[0] == in(0).dims[0] && in(1).dims[1] == in(0).dims[1],
           "operands do not fit: ", to_string(in(0)), " and ", to_string(in(1)));
    return {in(0)};
  }

  // The number of rows of a matrix made of segments, each of the operand's length.
  int64_t rows_of(std::string_view slot) const {
    bool packed = in(0).elem == Elem::Q16;
    expect(packed || in(0).elem == Elem::F32, "operand 0 must be f32 or q16, is ", to_string(in(0)));
    int64_t rows = 0;
    for (const WeightUse& use : op_.slot(slot)) {
      const Weight& w = g_.weight(use.weight);
      expect(w.shape.size() == 2 && w.shape[1] == last(0), "weight '", w.name, "' is ",
             to_string(w.format, w.shape), ", needed are rows of ", last(0));
      expect(!packed || gc::info(w.format).kind == FormatKind::kBlock, "a q16 operand meets weight '", w.name,
             "' of format ", gc::info(w.format).text_name);
      rows += row_count(g_, use);
      expect(rows < kMaxSize, "too many rows");
    }
    return rows;
  }

  std::vector<Type> matmul() const {
    Type t = in(0);
    t.elem = Elem::F32;
    t.dims.back() = Dim::of(rows_of("rows"));
    auto rows = op_.slot("rows"), bias = op_.slot("bias");
    expect(bias.empty() || bias.size() == rows.size(), "has ", rows.size(), " row segments and ", bias.size(),
           " biases");
    for (size_t i = 0; i < bias.size(); i++) {
      if (!bias[i].weight.valid()) continue;
      const Weight& w = g_.weight(bias[i].weight);
      expect(w.shape.size() == 1 && row_count(g_, bias[i]) == row_count(g_, rows[i]), "bias '", w.name,
             "' is ", to_string(w.format, w.shape), ", its segment has ", row_count(g_, rows[i]), " rows");
    }
    return {t};
  }

  std::vector<Type> matmul_glu() const {
    Type t = in(0);
    t.elem = Elem::F32;
    int64_t gate = rows_of("gate"), up = rows_of("up");
    expect(gate == up, "gate has ", gate, " rows, up has ", up);
    t.dims.back() = Dim::of(gate);
    return {with_out(t)};
  }

  std::vector<Type> slice() const {
    f32_in(0);
    int64_t begin = op_.i64(AttrName::begin), size = op_.i64(AttrName::size), n = last(0);
    expect(begin >= 0 && begin < n && size > 0 && size <= n - begin, "slice ", begin, " + ", size, " of ", n);
    Type t = in(0);
    t.dims.back() = Dim::of(size);
    return {t};
  }

  std::vector<Type> heads() const {
    f32_in(0);
    int64_t n = attr_size(op_, AttrName::heads);
    expect(in(0).dims.size() == 2 && last(0) % n == 0, "cannot divide ", to_string(in(0)), " into ", n,
           " heads");
    return {{Elem::F32, {in(0).dims[0], Dim::of(n), Dim::of(last(0) / n)}}};
  }

  std::vector<Type> merge_heads() const {
    per_head(0);
    const auto& d = in(0).dims;
    expect(d[1].size < kMaxSize / d[2].size, "too long");
    return {{Elem::F32, {d[0], Dim::of(d[1].size * d[2].size)}}};
  }

  void rope_tables(int64_t dims, int64_t head_dim) const {
    expect(dims > 0 && dims % 2 == 0 && dims <= head_dim, "rope_dims ", dims, " of a head of ", head_dim);
    const Weight *fine = weight("rope_fine"), *coarse = weight("rope_coarse");
    expect(!fine == !coarse, "needs both RoPE tables or none");
    if (!fine) return;
    expect(fine->source == Weight::Source::RopeFine && coarse->source == Weight::Source::RopeCoarse,
           "RoPE tables '", fine->name, "' and '", coarse->name, "' are not of their kinds");
    for (const Weight* table : {fine, coarse}) {
      const bool choice = !table->rope.long_factors.empty();
      expect(table->shape.size() == (choice ? 4 : 3), "RoPE table '", table->name, "' has ",
             table->shape.size(), " dimensions");
      expect(choice == (table->rope.short_context > 0),
             "RoPE's long factors go with the length of short contexts");
      std::vector<int64_t> shape = {table->table_rows(), dims / 2, 2};
      if (choice) shape.insert(shape.begin(), 2);
      fits(*table, shape);
    }
    expect(fine->rope == coarse->rope && fine->rope.dims == dims && fine->rope.fine == fine->table_rows(),
           "RoPE tables '", fine->name, "' and '", coarse->name, "' do not belong together");
  }

  std::vector<Type> rope() const {
    per_head(0);
    int64_t dims = op_.i64(AttrName::rope_dims);
    rope_tables(dims, last(0));
    vector_of("factors", dims / 2);
    vector_of("long_factors", dims / 2);
    const Weight* fine = weight("rope_fine");
    const bool choice = op_.one("long_factors") || (fine && fine->rope.short_context > 0);
    expect(choice == op_.has(AttrName::rope_short), "rope_short goes with long_factors");
    expect(op_.i64_or(AttrName::rope_short, 1) > 0, "rope_short must be positive");
    expect(op_.has(AttrName::rope_low) == op_.has(AttrName::rope_high), "rope_low goes with rope_high");
    return {in(0)};
  }

  void check_state(int64_t kv_heads, int64_t k_dim, int64_t v_dim) const {
    const State& s = g_.state(op_.state);
    int64_t window = op_.i64(AttrName::window);
    expect(s.kind == State::Kind::KvFull || s.kind == State::Kind::KvRing, "state ", s.name, " is a ",
           name(s.kind));
    expect(s.heads == kv_heads && s.k_dim == k_dim && s.v_dim == v_dim, "state ", s.name, " holds ", s.heads,
           " heads of ", s.k_dim, " and ", s.v_dim, ", attention has ", kv_heads, " of ", k_dim, " and ",
           v_dim);
    expect(window >= 0, "window is ", window);
    expect(!op_.i64_or(AttrName::ahead, 0) || window == 0, "attention ahead has no window");
    expect(s.kind == State::Kind::KvFull || (window > 0 && window <= s.window), "window ", window,
           " does not fit the ring ", s.name, " of ", s.window);
  }

  std::vector<Type> attention() const {
    for (int i = 0; i < 3; i++) per_head(i);
    const auto &q = in(0).dims, &k = in(1).dims, &v = in(2).dims;
    expect(q[0] == Dim::tokens() && q[0] == k[0] && k[0] == v[0], "q, k and v must have all tokens' rows");
    expect(q[2] == k[2] && k[1] == v[1] && q[1].size % k[1].size == 0, "q ", to_string(in(0)), ", k ",
           to_string(in(1)), " and v ", to_string(in(2)), " do not fit");
    check_state(k[1].size, k[2].size, v[2].size);
    vector_of("sinks", q[1].size);
    return {{Elem::F32, {q[0], q[1], v[2]}}};
  }

  std::vector<Type> attention_again() const {
    per_head(0);
    const auto& q = in(0).dims;
    const State& s = g_.state(op_.state);
    expect(q[0] == Dim::tokens(), "q must have all tokens' rows");
    expect(s.heads > 0 && q[1].size % s.heads == 0 && q[2].size == s.k_dim, "q ", to_string(in(0)),
           " does not fit state ", s.name);
    check_state(s.heads, s.k_dim, s.v_dim);
    vector_of("sinks", q[1].size);
    return {{Elem::F32, {q[0], q[1], Dim::of(s.v_dim)}}};
  }

  // Operand `row` is [T, d] where operand `heads` is [T, H, d].
  void row_of_head(int row, int heads) const {
    const auto& d = in(heads).dims;
    f32_in(row);
    expect(in(row).dims.size() == 2 && in(row).dims[0] == d[0] && in(row).dims[1] == d[2],
           "operands do not fit: ", to_string(in(row)), " and ", to_string(in(heads)));
  }

  std::vector<Type> mix() const {
    per_head(0);
    f32_in(1);
    const auto &x = in(0).dims, &by = in(1).dims;
    expect(by.size() == 2 && by[0] == x[0] && by[1].size % x[1].size == 0,
           "operands do not fit: ", to_string(in(0)), " and ", to_string(in(1)));
    return {{Elem::F32, {x[0], Dim::of(by[1].size / x[1].size), x[2]}}};
  }

  std::vector<Type> attn_block() const {
    f32_in(0);
    int64_t heads = attr_size(op_, AttrName::heads), kv = attr_size(op_, AttrName::kv_heads),
            d = attr_size(op_, AttrName::head_dim), dv = attr_size(op_, AttrName::v_dim);
    expect(heads % kv == 0, heads, " heads over ", kv, " kv heads");
    expect(in(0).dims.size() == 2 && in(0).dims[0] == Dim::tokens(), "operand must be [T, n], is ",
           to_string(in(0)));
    expect(last(0) == (heads + kv) * d + kv * dv, "operand is ", to_string(in(0)), ", q, k and v need ",
           (heads + kv) * d + kv * dv);
    vector_of("q_norm", d);
    vector_of("k_norm", d);
    vector_of("sinks", heads);
    bool norms = op_.one("q_norm") || op_.one("k_norm"), rope = op_.one("rope_fine").has_value();
    expect(norms == op_.has(AttrName::eps), "eps goes with norms of q and k");
    expect(rope == op_.has(AttrName::rope_dims) && rope == op_.has(AttrName::rope_neox),
           "rope_dims and rope_neox go with RoPE tables");
    if (rope || op_.one("rope_coarse")) rope_tables(op_.i64_or(AttrName::rope_dims, 0), d);
    check_state(kv, d, dv);
    return {with_out({Elem::F32, {in(0).dims[0], Dim::of(heads * dv)}})};
  }

  // ---- Recurrences ----

  void check_recurrent(State::Kind kind, int64_t heads, int64_t k_dim, int64_t v_dim) const {
    const State& s = g_.state(op_.state);
    expect(s.kind == kind && s.heads == heads && s.k_dim == k_dim && s.v_dim == v_dim, "state ", s.name,
           " is a ", name(s.kind), " of ", s.heads, " heads of ", s.k_dim, " and ", s.v_dim, ", needed is a ",
           name(kind), " of ", heads, " of ", k_dim, " and ", v_dim);
  }

  // Operand i is f32[T, dims...].
  void of_tokens(int i, std::vector<int64_t> sizes) const {
    Type t{Elem::F32, {Dim::tokens()}};
    for (int64_t n : sizes) t.dims.push_back(Dim::of(n));
    expect(in(i) == t, "operand ", i, " is ", to_string(in(i)), ", needed is ", to_string(t));
  }

  std::vector<Type> conv() const {
    const Weight& taps = *weight("taps");
    const int64_t channels = last(0), kept = g_.state(op_.state).window;
    of_tokens(0, {channels});
    fits(taps, {channels, kept + 1});
    vector_of("bias", channels);
    check_recurrent(State::Kind::Conv, 1, channels, channels);
    return {in(0)};
  }

  std::vector<Type> ssm_scan() const {
    per_head(0), per_head(2);
    const int64_t heads = in(0).dims[1].size, p = last(0), groups = in(2).dims[1].size, n = last(2);
    of_tokens(0, {heads, p}), of_tokens(1, {heads}), of_tokens(2, {groups, n}), of_tokens(3, {groups, n});
    expect(groups > 0 && heads % groups == 0, heads, " heads of ", groups, " groups");
    const Weight& a = *weight("a");
    if (a.shape.size() == 2) {
      fits(a, {heads, n});
      expect(p == 1 && groups == 1, "a of each state goes with heads of 1 and one group");
    } else {
      fits(a, {heads});
    }
    vector_of("dt_bias", heads);
    vector_of("d", heads);
    check_recurrent(State::Kind::Ssm, heads, n, p);
    return {in(0)};
  }

  // q, k [T, G, K] and v [T, H, V] as operands 0 to 2, their state.
  void check_linear_attention() const {
    per_head(0), per_head(2);
    const int64_t groups = in(0).dims[1].size, heads = in(2).dims[1].size;
    of_tokens(0, {groups, last(0)}), of_tokens(1, {groups, last(0)}), of_tokens(2, {heads, last(2)});
    expect(groups > 0 && heads % groups == 0, heads, " heads of ", groups, " groups");
    check_recurrent(State::Kind::Ssm, heads, last(0), last(2));
  }

  std::vector<Type> delta_rule() const {
    check_linear_attention();
    const int64_t heads = in(2).dims[1].size;
    if (in(3).dims.size() == 3) {
      of_tokens(3, {heads, last(0)});
    } else {
      of_tokens(3, {heads});
    }
    of_tokens(4, {heads});
    return {in(2)};
  }

  std::vector<Type> decay_attention() const {
    check_linear_attention();
    return {in(2)};
  }

  std::vector<Type> concat() const {
    f32_in(0), f32_in(1);
    Type t = in(0), other = in(1);
    t.dims.back() = other.dims.back();
    expect(t == other, "cannot join ", to_string(in(0)), " and ", to_string(other));
    t.dims.back() = Dim::of(last(0) + last(1));
    expect(t.dims.back().size < kMaxSize, "too long");
    return {t};
  }

  std::vector<Type> matmul_heads() const {
    const Type& x = in(0);
    expect(x.elem == Elem::F32 || x.elem == Elem::Q16, "operand 0 must be f32 or q16, is ", to_string(x));
    expect(x.dims.size() == 3 && x.dims[1].kind == Dim::Kind::Const, "operand 0 must be [T, heads, dim], is ",
           to_string(x));
    Type t = x;
    t.elem = Elem::F32;
    t.dims[2] = Dim::of(experts_of("matrices", x.dims[1].size, last(0)));
    expect(t.dims[2].size < kMaxSize / t.dims[1].size, "too long");
    return {t};
  }

  std::vector<Type> concat_heads() const {
    per_head(0), per_head(1);
    const auto &a = in(0).dims, &b = in(1).dims;
    const int64_t n = attr_size(op_, AttrName::heads);
    expect(a[0] == b[0] && (a[1].size == n || a[1].size == 1) && (b[1].size == n || b[1].size == 1),
           "cannot join ", to_string(in(0)), " and ", to_string(in(1)), " as ", n, " heads");
    Type t = in(0);
    t.dims[1] = Dim::of(n);
    t.dims[2] = Dim::of(last(0) + last(1));
    expect(t.dims[2].size < kMaxSize / n, "too long");
    return {t};
  }

  std::vector<Type> select() const {
    f32_in(0);
    expect(in(0).dims[0] == Dim::tokens(), "selects among tokens, operand is ", to_string(in(0)));
    Type t = in(0);
    t.dims[0] = Dim::outputs();
    return {t};
  }

  // ---- Mixtures of experts ----

  std::vector<Type> route() const {
    f32_in(0);
    const int64_t n = last(0), used = attr_size(op_, AttrName::used);
    const int64_t groups = op_.i64_or(AttrName::groups, 1),
                  picked = op_.i64_or(AttrName::groups_used, groups);
    expect(in(0).dims.size() == 2, "operand must be [T, experts], is ", to_string(in(0)));
    expect(used <= n, used, " of ", n, " experts");
    expect(op_.has(AttrName::groups) == op_.has(AttrName::groups_used), "groups goes with groups_used");
    expect(groups > 0 && n % groups == 0 && picked > 0 && picked <= groups, picked, " of ", groups,
           " groups of ", n, " experts");
    expect(groups == 1 || (n / groups >= 2 && used <= picked * (n / groups)), used, " experts of ", picked,
           " groups of ", n / groups);
    expect(!op_.i64_or(AttrName::chosen, 0) || !op_.has(AttrName::fn), "chosen is a softmax, and has no fn");
    vector_of("bias", n);
    return {in(0)};
  }

  // Operands of an op of experts: values of tokens, routing weights beside them. The number of experts.
  int64_t routed() const {
    const Type& routing = in(1);
    expect(routing.elem == Elem::F32 && routing.dims.size() == 2, "operand 1 must be f32[T, experts], is ",
           to_string(routing));
    expect(!in(0).dims.empty() && in(0).dims[0] == routing.dims[0],
           "operands have not the same rows: ", to_string(in(0)), " and ", to_string(routing));
    return last(1);
  }

  // Rows of each expert's matrix.
  int64_t experts_of(std::string_view slot, int64_t experts, int64_t columns) const {
    const Weight& w = *weight(slot);
    expect(w.shape.size() == 3 && w.shape[0] == experts && w.shape[2] == columns, "weight '", w.name, "' is ",
           to_string(w.format, w.shape), ", needed are ", experts, " matrices of rows of ", columns);
    const bool packed = in(0).elem == Elem::Q16;
    expect(packed || in(0).elem == Elem::F32, "operand must be f32 or q16, is ", to_string(in(0)));
    expect(!packed || info(w.format).kind == FormatKind::kBlock, "a q16 operand meets weight '", w.name,
           "' of format ", info(w.format).text_name);
    return w.shape[1];
  }

  void biases_of(std::string_view slot, int64_t experts, int64_t rows) const {
    if (const Weight* w = weight(slot)) fits(*w, {experts, rows});
  }

  std::vector<Type> experts_in() const {
    const int64_t experts = routed(), used = attr_size(op_, AttrName::used);
    expect(in(0).dims.size() == 2, "operand 0 must be [T, n], is ", to_string(in(0)));
    expect(used <= experts, used, " of ", experts, " experts");
    const int64_t rows = experts_of("up", experts, last(0));
    const bool joined = op_.i64_or(AttrName::joined, 0) != 0, gated = joined || weight("gate");
    expect(!joined || (!weight("gate") && rows % 2 == 0),
           "joined is a matrix of gate and up, of an even number of rows");
    if (weight("gate")) expect(experts_of("gate", experts, last(0)) == rows, "gate and up differ in rows");
    expect(weight("gate") || !weight("gate_bias"), "gate_bias goes with gate");
    expect(gated || (!op_.has(AttrName::limit) && !op_.has(AttrName::up_add)),
           "limit and up_add go with gate");
    biases_of("gate_bias", experts, rows);
    biases_of("up_bias", experts, rows);
    return {with_out({Elem::F32, {in(0).dims[0], Dim::of(used), Dim::of(joined ? rows / 2 : rows)}})};
  }

  std::vector<Type> experts_out() const {
    const int64_t experts = routed();
    expect(in(0).dims.size() == 3, "operand 0 must be [T, used, n], is ", to_string(in(0)));
    const int64_t rows = experts_of("down", experts, last(0));
    biases_of("bias", experts, rows);
    return {{Elem::F32, {in(0).dims[0], Dim::of(rows)}}};
  }

  const Graph& g_;
  const Op& op_;
};

}  // namespace

std::string infer(const Graph& g, const Op& op, std::vector<Type>& types) {
  try {
    types = Rules(g, op).types();
    return "";
  } catch (const Misfit& m) {
    return std::string(info(op.kind).name) + ": " + m.text;
  }
}

std::string to_string(const Dim& dim) {
  switch (dim.kind) {
    case Dim::Kind::Const:
      return std::to_string(dim.size);
    case Dim::Kind::Tokens:
      return "T";
    case Dim::Kind::Outputs:
      return "R";
    case Dim::Kind::Positions:
      return "P";
  }
  return "?";
}

std::string to_string(const Type& type) {
  std::string s = std::string(name(type.elem)) + "[";
  for (size_t i = 0; i < type.dims.size(); i++) s += (i ? ", " : "") + to_string(type.dims[i]);
  return s + "]";
}

std::string to_string(Format format, const std::vector<int64_t>& shape) {
  std::string s = std::string(info(format).text_name) + "[";
  for (size_t i = 0; i < shape.size(); i++) s += (i ? ", " : "") + std::to_string(shape[i]);
  return s + "]";
}

int64_t last_dim(const Type& type) {
  if (type.dims.empty() || type.dims.back().kind != Dim::Kind::Const) return 0;
  return type.dims.back().size;
}

}  // namespace gc::ir
