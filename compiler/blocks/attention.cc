#include "compiler/blocks/attention.h"

#include <utility>

#include "compiler/base/strings.h"

namespace gc::blocks {
namespace {

// [T, q + k + v rows] of one matrix. Three biases beside it become three row segments.
ir::ValueId fused_product(ir::Builder& b, ir::ValueId x, const QkvWeights& w, const HeadShape& s,
                          const std::string& name) {
  const bool apart = w.q.bias.valid() || w.k.bias.valid() || w.v.bias.valid();
  if (!apart) return linear(b, x, w.fused, name);
  const int64_t q = s.q_rows(), k = s.k_rows(), v = s.v_rows();
  auto rows = [&](int64_t begin, int64_t size) {
    return ir::WeightUse{.weight = w.fused.weight, .row_begin = begin, .row_end = begin + size};
  };
  return b.matmul(x, {rows(0, q), rows(q, k), rows(q + k, v)}, {w.q.bias, w.k.bias, w.v.bias}, name);
}

}  // namespace

ir::StateId kv_state(ir::Builder& b, int64_t layer, const HeadShape& shape, int64_t window) {
  ir::State state{.name = cat("kv", layer),
                  .kind = window > 0 ? ir::State::Kind::KvRing : ir::State::Kind::KvFull,
                  .window = window,
                  .heads = shape.n_head_kv,
                  .k_dim = shape.k_dim,
                  .v_dim = shape.v_dim};
  return b.state(std::move(state));
}

Qkv project_qkv(ir::Builder& b, ir::ValueId x, const QkvWeights& w, const HeadShape& s,
                const std::string& prefix) {
  ir::ValueId q, k, v;
  if (w.fused) {
    const ir::ValueId qkv = fused_product(b, x, w, s, prefix + "qkv");
    q = b.slice(qkv, 0, s.q_rows(), prefix + "q");
    k = b.slice(qkv, s.q_rows(), s.k_rows(), prefix + "k");
    v = b.slice(qkv, s.q_rows() + s.k_rows(), s.v_rows(), prefix + "v");
  } else {
    q = linear(b, x, w.q, prefix + "q");
    k = linear(b, x, w.k, prefix + "k");
    v = linear(b, x, w.v, prefix + "v");
  }
  return {b.heads(q, s.n_head, prefix + "q_heads"), b.heads(k, s.n_head_kv, prefix + "k_heads"),
          b.heads(v, s.n_head_kv, prefix + "v_heads")};
}

ir::ValueId self_attention(ir::Builder& b, ir::ValueId x, const Attention& a, ir::StateId state,
                           const std::string& prefix) {
  auto [q, k, v] = project_qkv(b, x, a.qkv, a.shape, prefix);
  q = norm(b, q, a.q_norm, prefix + "q_norm");
  k = norm(b, k, a.k_norm, prefix + "k_norm");
  const bool scaled = a.query_scale != 1;
  if (a.rope) {
    q = b.rope(q, *a.rope, prefix + (scaled ? "q_rot" : "q_rope"));
    k = b.rope(k, *a.rope, prefix + "k_rope");
  }
  if (scaled) q = b.scale(q, a.query_scale, prefix + "q_rope");
  const ir::AttentionArgs args{.scale = a.scale, .window = a.window, .cap = a.cap, .sinks = a.sinks};
  const ir::ValueId out = b.attention(q, k, v, state, args, prefix + "attn_out");
  return linear(b, b.merge_heads(out, prefix + "attn_merged"), a.out, prefix + "attn_proj");
}

}  // namespace gc::blocks
