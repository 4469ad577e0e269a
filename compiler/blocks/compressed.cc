#include "compiler/blocks/compressed.h"

#include "compiler/base/strings.h"
#include "compiler/blocks/attention.h"

namespace gc::blocks {
namespace {

using ir::ValueId;

class Compressed {
 public:
  Compressed(ir::Builder& b, const CompressedAttention& a, std::int64_t layer, const std::string& prefix)
      : b_(b), a_(a), layer_(layer), prefix_(prefix) {}

  ValueId run(ValueId x) {
    const ValueId low = norm(b_, linear(b_, x, a_.q_a, name("q_a")), a_.q_a_norm, name("q_a_norm"));
    ValueId q = b_.heads(linear(b_, low, a_.q_b, name("q")), a_.n_head, name("q_heads"));
    q = turned(norm(b_, q, a_.q_norm, name("q_norm")), a_.rope, "q");
    const ValueId kv =
        key(norm(b_, linear(b_, x, a_.kv, name("kv")), a_.kv_norm, name("kv_norm")), a_.rope, "kv");
    const ValueId y = a_.every > 0 ? both(q, kv, far(x, low, q)) : near(q, kv);
    ir::RopeArgs back = a_.rope;
    back.inverse = true;
    return project(turned(y, back, "attn_back"));
  }

 private:
  std::string name(const char* part) const { return prefix_ + part; }
  std::string name(const char* part, const char* more) const { return cat(prefix_, part, more); }

  // x [T, heads, dim]: the last dimensions of each head turned.
  ValueId turned(ValueId x, const ir::RopeArgs& rope, const char* part) {
    const auto& dims = b_.type(x).dims;
    const std::int64_t heads = dims[1].size, still = dims[2].size - rope.dims;
    if (still == 0) return b_.rope(x, rope, name(part, "_turned"));
    const ValueId tail = b_.slice_heads(x, still, rope.dims, name(part, "_tail"));
    return b_.concat_heads(b_.slice_heads(x, 0, still, name(part, "_still")),
                           b_.rope(tail, rope, name(part, "_rope")), heads, name(part, "_turned"));
  }
  ValueId key(ValueId x, const ir::RopeArgs& rope, const char* part) {
    return turned(b_.heads(x, 1, name(part, "_head")), rope, part);
  }

  // [T, 1, dim]: of the tokens up to a row's own, where they are as many as make a row. part: "comp", "index_comp".
  ValueId compressed(ValueId x, const Compressor& by, const char* part) {
    const std::int64_t rows = (a_.overlap ? 2 : 1) * a_.every, columns = (a_.overlap ? 2 : 1) * by.dim;
    const ir::StateId state = b_.state({.name = cat(part, layer_),
                                        .kind = ir::State::Kind::Conv,
                                        .window = rows,
                                        .heads = 1,
                                        .k_dim = 2 * columns,
                                        .v_dim = 2 * columns});
    const ValueId c = b_.compress(
        linear(b_, x, by.values, name(part, "_values")), linear(b_, x, by.scores, name(part, "_scores")),
        {.ape = by.ape, .every = a_.every, .overlap = a_.overlap}, state, name(part));
    ir::RopeArgs rope = a_.rope;
    rope.back = a_.every - 1;
    return key(norm(b_, c, by.norm, name(part, "_norm")), rope, part);
  }

  ir::StateId window_state() {
    return kv_state(b_, layer_, {.n_head = a_.n_head, .n_head_kv = 1, .k_dim = a_.dim, .v_dim = a_.dim},
                    a_.window);
  }
  ir::AttentionArgs window_args() const {
    return {.scale = a_.scale, .window = a_.window, .sinks = a_.sinks};
  }

  ValueId near(ValueId q, ValueId kv) {
    return b_.attention(q, kv, kv, window_state(), window_args(), name("attn_out"));
  }

  ir::StateId rows_state(const char* part, std::int64_t k_dim, std::int64_t v_dim) {
    return b_.state({.name = cat(part, layer_),
                     .kind = ir::State::Kind::KvLatent,
                     .window = a_.every,
                     .heads = 1,
                     .k_dim = k_dim,
                     .v_dim = v_dim});
  }

  // Attention to compressed rows, with its sums. low: the query's latent.
  ValueId far(ValueId x, ValueId low, ValueId q) {
    const ValueId c = compressed(x, a_.comp, "comp");
    const ir::AttentionArgs args{.scale = a_.scale};
    const CompressedAttention::Index& index = a_.index;
    if (!index) return b_.attention_sums(q, c, c, rows_state("far", a_.dim, a_.dim), args, name("attn_far"));
    const ValueId heads =
        b_.heads(linear(b_, low, index.q, name("index_q")), index.n_head, name("index_q_heads"));
    const ValueId chosen =
        b_.choose_positions(turned(heads, a_.rope, "index_q"), compressed(x, index.comp, "index_comp"),
                            linear(b_, x, index.weights, name("index_weights")),
                            rows_state("index", index.comp.dim, 0), index.used, name("chosen"));
    return b_.attention_chosen(q, c, c, chosen, rows_state("far", a_.dim, a_.dim), args, /*sums=*/true,
                               name("attn_far"));
  }

  ValueId both(ValueId q, ValueId kv, ValueId far) {
    const ValueId near = b_.attention_sums(q, kv, kv, window_state(), window_args(), name("attn_window"));
    const ValueId near_sum = sums(near, "attn_near"), far_sum = sums(far, "attn_far");
    return b_.add(share(near, near_sum, far_sum, "attn_near"), share(far, far_sum, near_sum, "attn_far"),
                  name("attn_out"));
  }
  ValueId sums(ValueId x, const char* part) {
    return b_.slice(x, a_.n_head * a_.dim, a_.n_head, name(part, "_sum"));
  }
  // The values of one times its part of both sums.
  ValueId share(ValueId x, ValueId own, ValueId other, const char* part) {
    const ValueId more = b_.add(own, b_.scale(other, -1, name(part, "_minus")), name(part, "_more"));
    const ValueId by = b_.act(more, ir::Fn::sigmoid, name(part, "_share"));
    const ValueId values = b_.slice(x, 0, a_.n_head * a_.dim, name(part, "_values"));
    return b_.mul_heads(b_.heads(values, a_.n_head, name(part, "_heads")), by, name(part, "_part"));
  }

  ValueId project(ValueId y) {
    const std::int64_t groups = b_.weight(a_.out_a).shape[0];
    const ValueId in = b_.heads(b_.merge_heads(y, name("attn_merged")), groups, name("attn_of_groups"));
    const ValueId low = b_.matmul_heads(in, a_.out_a, name("attn_groups"));
    return linear(b_, b_.merge_heads(low, name("attn_low")), a_.out_b, name("attn_proj"));
  }

  ir::Builder& b_;
  const CompressedAttention& a_;
  const std::int64_t layer_;
  const std::string& prefix_;
};

}  // namespace

ValueId compressed_attention(ir::Builder& b, ValueId x, const CompressedAttention& a, std::int64_t layer,
                             const std::string& prefix) {
  return Compressed(b, a, layer, prefix).run(x);
}

}  // namespace gc::blocks
