// Types of ops with states: attention and recurrences. RoPE, since attention turns what it appends.
#include "compiler/base/error.h"
#include "compiler/ir/infer_rules.h"

namespace gc::ir {
namespace {

class StateRules : Rules {
 public:
  using Rules::Rules;

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
    expect(op_.i64_or(AttrName::back, 0) >= 0, "back must not be negative");
    return {in(0)};
  }

  std::vector<Type> attention() const {
    for (int i = 0; i < 3; i++) per_head(i);
    const auto &q = in(0).dims, &k = in(1).dims, &v = in(2).dims;
    expect(q[0] == Dim::tokens() && q[0] == k[0] && k[0] == v[0], "q, k and v must have all tokens' rows");
    expect(q[2] == k[2] && k[1] == v[1] && q[1].size % k[1].size == 0, "q ", to_string(in(0)), ", k ",
           to_string(in(1)), " and v ", to_string(in(2)), " do not fit");
    check_state(k[1].size, k[2].size, v[2].size);
    vector_of("sinks", q[1].size);
    if (op_.kind == OpKind::attention) check_bias(q[1].size);
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

  std::vector<Type> attention_sums() const { return {sums_of(attention()[0])}; }

  std::vector<Type> choose_positions() const {
    per_head(0), per_head(1);
    const int64_t heads = in(0).dims[1].size, d = last(0), used = attr_size(AttrName::used);
    of_tokens(0, {heads, d}), of_tokens(1, {1, d}), of_tokens(2, {heads});
    const State& s = g_.state(op_.state);
    const bool positions = s.kind == State::Kind::KvFull || s.kind == State::Kind::KvLatent;
    expect(positions && s.heads == 1 && s.k_dim == d && s.v_dim == 0, "state ", s.name, " is a ",
           name(s.kind), " of ", s.heads, " heads of ", s.k_dim, " and ", s.v_dim,
           ", needed is a kv_full or kv_latent of one head of ", d, " and 0");
    return {{Elem::F32, {Dim::tokens(), Dim::of(used)}}};
  }

  std::vector<Type> attention_chosen() const {
    const std::vector<Type> y = attention();
    expect(op_.i64(AttrName::window) == 0, "chosen positions have no window");
    expect(in(3).dims.size() == 2 && g_.ops[g_.value(op_.inputs[3]).def].kind == OpKind::choose_positions,
           "operand 3 must be of choose_positions");
    const State& index = g_.state(g_.ops[g_.value(op_.inputs[3]).def].state);
    const State& s = g_.state(op_.state);
    expect(index.kind == s.kind && index.window == s.window, "positions of state ", index.name, " in state ",
           s.name);
    return gives_sums(op_) ? std::vector<Type>{sums_of(y[0])} : y;
  }

  std::vector<Type> attn_block() const {
    f32_in(0);
    int64_t heads = attr_size(AttrName::heads), kv = attr_size(AttrName::kv_heads),
            d = attr_size(AttrName::head_dim), dv = attr_size(AttrName::v_dim);
    expect(heads % kv == 0, heads, " heads over ", kv, " kv heads");
    expect(in(0).dims.size() == 2 && in(0).dims[0] == Dim::tokens(), "operand must be [T, n], is ",
           to_string(in(0)));
    expect(last(0) == (heads + kv) * d + kv * dv, "operand is ", to_string(in(0)), ", q, k and v need ",
           (heads + kv) * d + kv * dv);
    vector_of("q_norm", d);
    vector_of("k_norm", d);
    vector_of("sinks", heads);
    check_bias(heads);
    bool norms = op_.one("q_norm") || op_.one("k_norm"), rope = op_.one("rope_fine").has_value();
    expect(norms == op_.has(AttrName::eps), "eps goes with norms of q and k");
    expect(rope == op_.has(AttrName::rope_dims) && rope == op_.has(AttrName::rope_neox),
           "rope_dims and rope_neox go with RoPE tables");
    if (rope || op_.one("rope_coarse")) rope_tables(op_.i64_or(AttrName::rope_dims, 0), d);
    check_state(kv, d, dv);
    return {with_out({Elem::F32, {in(0).dims[0], Dim::of(heads * dv)}})};
  }

  std::vector<Type> conv() const {
    const Weight& taps = *weight("taps");
    const int64_t channels = last(0), kept = g_.state(op_.state).window;
    const int64_t dilation = op_.i64_or(AttrName::dilation, 1);
    of_tokens(0, {channels});
    expect(dilation > 0 && kept % dilation == 0, "a dilation of ", dilation, " with ", kept, " rows kept");
    fits(taps, {channels, kept / dilation + 1});
    vector_of("bias", channels);
    check_recurrent(State::Kind::Conv, 1, channels, channels);
    return {in(0)};
  }

  std::vector<Type> compress() const {
    const int64_t every = attr_size(AttrName::every), halves = op_.i64_or(AttrName::overlap, 0) ? 2 : 1;
    const int64_t columns = last(0);
    of_tokens(0, {columns}), of_tokens(1, {columns});
    expect(columns % halves == 0, columns, " columns of two halves");
    fits(*weight("ape"), {every, columns});
    check_recurrent(State::Kind::Conv, 1, 2 * columns, 2 * columns);
    const int64_t kept = g_.state(op_.state).window;
    expect(kept == halves * every, "a state of ", kept, " rows, needed are ", halves * every);
    return {{Elem::F32, {in(0).dims[0], Dim::of(columns / halves)}}};
  }

  std::vector<Type> ngram_embed() const {
    const auto &multipliers = op_.list(AttrName::multipliers), &sizes = op_.list(AttrName::sizes),
               &begins = op_.list(AttrName::begins);
    const Weight& table = *weight("table");
    expect(table.shape.size() == 2, "the table must be a matrix: '", table.name, "'");
    const auto tokens = int64_t(multipliers.size()), heads = int64_t(sizes.size());
    expect(tokens > 1 && heads > 0 && heads % (tokens - 1) == 0 && sizes.size() == begins.size(), heads,
           " heads and ", begins.size(), " beginnings for ", tokens, " tokens");
    for (size_t h = 0; h < sizes.size(); h++)
      expect(sizes[h] > 0 && begins[h] >= 0 && sizes[h] <= table.shape[0] &&
                 begins[h] <= table.shape[0] - sizes[h],
             "rows ", begins[h], " + ", sizes[h], " of the ", table.shape[0], " of '", table.name, "'");
    check_recurrent(State::Kind::Conv, 1, 1, 1);
    expect(g_.state(op_.state).window == tokens - 1, "a state of ", g_.state(op_.state).window, " tokens");
    expect(table.shape[1] < kMaxSize / heads, "too long");
    return {{Elem::F32, {Dim::tokens(), Dim::of(heads * table.shape[1])}}};
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

  std::vector<Type> token_shift() const {
    const int64_t columns = last(0);
    of_tokens(0, {columns});
    check_recurrent(State::Kind::Conv, 1, columns, columns);
    expect(g_.state(op_.state).window == 1, "a state of ", g_.state(op_.state).window, " rows");
    const Weight* mix = weight("mix");
    if (!mix) return {in(0)};
    expect(mix->shape.size() == 2, "mix must be a matrix: '", mix->name, "'");
    fits(*mix, {mix->shape[0], columns});
    expect(columns < kMaxSize / mix->shape[0], "too long");
    return {{Elem::F32, {Dim::tokens(), Dim::of(mix->shape[0]), Dim::of(columns)}}};
  }

  std::vector<Type> wkv() const {
    per_head(0), per_head(2);
    const int64_t heads = in(0).dims[1].size, keys = last(0), groups = in(2).dims[1].size, values = last(2);
    of_tokens(0, {heads, keys}), of_tokens(1, {groups, keys}), of_tokens(2, {groups, values});
    of_tokens(3, {heads, keys});
    expect(groups > 0 && heads % groups == 0, heads, " heads of ", groups, " groups");
    if (const Weight* bonus = weight("bonus")) fits(*bonus, {heads, keys});
    expect(!(weight("bonus") && op_.i64_or(AttrName::leaky, 0)), "a bonus does not go with leaky");
    check_recurrent(State::Kind::Ssm, heads, keys, values);
    return {{Elem::F32, {Dim::tokens(), Dim::of(heads), Dim::of(values)}}};
  }

  std::vector<Type> wkv7() const {
    check_linear_attention();
    const int64_t heads = in(2).dims[1].size;
    for (const int i : {0, 3, 4, 5}) of_tokens(i, {heads, last(0)});
    return {in(2)};
  }

 private:
  // Of attention's result with the sums behind it.
  static Type sums_of(const Type& y) {
    return {Elem::F32, {y.dims[0], Dim::of(y.dims[1].size * (y.dims[2].size + 1))}};
  }

  void check_bias(int64_t heads) const {
    const int64_t buckets = op_.i64_or(AttrName::buckets, 0);
    expect(op_.one("bias").has_value() == op_.has(AttrName::buckets), "buckets go with bias");
    if (!op_.has(AttrName::buckets)) return;
    expect(buckets >= 4 && buckets % 4 == 0 && buckets <= kBucketReach, buckets, " buckets of distances");
    vector_of("bias", buckets * heads);
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

  void check_state(int64_t kv_heads, int64_t k_dim, int64_t v_dim) const {
    const State& s = g_.state(op_.state);
    int64_t window = op_.i64(AttrName::window);
    const bool latent = gives_sums(op_) && s.kind == State::Kind::KvLatent;
    expect(latent || s.kind == State::Kind::KvFull || s.kind == State::Kind::KvRing, "state ", s.name,
           " is a ", name(s.kind));
    expect(!latent || window == 0, "windows of compressed rows");
    expect(s.heads == kv_heads && s.k_dim == k_dim && s.v_dim == v_dim, "state ", s.name, " holds ", s.heads,
           " heads of ", s.k_dim, " and ", s.v_dim, ", attention has ", kv_heads, " of ", k_dim, " and ",
           v_dim);
    expect(window >= 0, "window is ", window);
    expect(!op_.i64_or(AttrName::ahead, 0) || s.kind == State::Kind::KvFull,
           "attention ahead needs all keys");
    expect(latent || s.kind == State::Kind::KvFull || (window > 0 && window <= s.window), "window ", window,
           " does not fit the ring ", s.name, " of ", s.window);
  }

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

  // q, k [T, G, K] and v [T, H, V] as operands 0 to 2, their state.
  void check_linear_attention() const {
    per_head(0), per_head(2);
    const int64_t groups = in(0).dims[1].size, heads = in(2).dims[1].size;
    of_tokens(0, {groups, last(0)}), of_tokens(1, {groups, last(0)}), of_tokens(2, {heads, last(2)});
    expect(groups > 0 && heads % groups == 0, heads, " heads of ", groups, " groups");
    check_recurrent(State::Kind::Ssm, heads, last(0), last(2));
  }
};

}  // namespace

std::vector<Type> infer_state(const Graph& g, const Op& op) {
  const StateRules rules(g, op);
  if (op.kind == OpKind::rope) return rules.rope();
  if (op.kind == OpKind::attention) return rules.attention();
  if (op.kind == OpKind::attention_again) return rules.attention_again();
  if (op.kind == OpKind::attention_sums) return rules.attention_sums();
  if (op.kind == OpKind::choose_positions) return rules.choose_positions();
  if (op.kind == OpKind::attention_chosen) return rules.attention_chosen();
  if (op.kind == OpKind::attn_block) return rules.attn_block();
  if (op.kind == OpKind::ngram_embed) return rules.ngram_embed();
  if (op.kind == OpKind::compress) return rules.compress();
  if (op.kind == OpKind::conv) return rules.conv();
  if (op.kind == OpKind::ssm_scan) return rules.ssm_scan();
  if (op.kind == OpKind::delta_rule) return rules.delta_rule();
  if (op.kind == OpKind::token_shift) return rules.token_shift();
  if (op.kind == OpKind::wkv) return rules.wkv();
  if (op.kind == OpKind::wkv7) return rules.wkv7();
  GC_CHECK(op.kind == OpKind::decay_attention, "no op with a state: ", info(op.kind).name);
  return rules.decay_attention();
}

}  // namespace gc::ir
