#include "compiler/blocks/attention.h"

#include <utility>

#include "compiler/base/strings.h"

namespace gc::blocks {
namespace {

// [T, q + k + v rows] of one matrix. Three biases beside it become three row segments, or are left where it has a factor.
ir::ValueId fused_product(ir::Builder& b, ir::ValueId x, const QkvWeights& w, const HeadShape& s,
                          const std::string& name) {
  const bool apart = w.q.bias.valid() || w.k.bias.valid() || w.v.bias.valid();
  if (!apart || w.fused.scale != 1) return linear(b, x, w.fused, name);
  const int64_t q = s.q_rows(), k = s.k_rows(), v = s.v_rows();
  auto rows = [&](int64_t begin, int64_t size) {
    return ir::WeightUse{.weight = w.fused.weight, .row_begin = begin, .row_end = begin + size};
  };
  return b.matmul(x, {rows(0, q), rows(q, k), rows(q + k, v)}, {w.q.bias, w.k.bias, w.v.bias}, name);
}

// x [T, heads, d], or [T, heads * d], whose last dimension is then weighed as it is.
ir::ValueId with_gain(ir::Builder& b, ir::ValueId x, ir::WeightId gain, int64_t heads,
                      const std::string& name) {
  if (!gain.valid()) return x;
  if (b.type(x).dims.size() == 2) return b.weigh(x, gain, name);
  const ir::ValueId merged = b.merge_heads(x, name + "_merged");
  return b.heads(b.weigh(merged, gain, name), heads, name + "_heads");
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
  if (!w.fused) {
    const ir::ValueId q = linear(b, x, w.q, prefix + "q");
    const ir::ValueId k = linear(b, x, w.k, prefix + "k");
    return {q, k, w.v ? linear(b, x, w.v, prefix + "v") : k};
  }
  const ir::ValueId qkv = fused_product(b, x, w, s, prefix + "qkv");
  // Biases that the product could not add.
  const auto part = [&](int64_t begin, int64_t size, const Linear& own, const char* name) {
    if (w.fused.scale == 1 || !own.bias.valid()) return b.slice(qkv, begin, size, prefix + name);
    return b.shift(b.slice(qkv, begin, size, prefix + name + "_unshifted"), own.bias, prefix + name);
  };
  const ir::ValueId q = part(0, s.q_rows(), w.q, "q"), k = part(s.q_rows(), s.k_rows(), w.k, "k");
  return {q, k, part(s.q_rows() + s.k_rows(), s.v_rows(), w.v, "v")};
}

ir::ValueId self_attention(ir::Builder& b, ir::ValueId x, const Attention& a, ir::StateId state,
                           const std::string& prefix) {
  const HeadShape& s = a.shape;
  auto [q, k, v] = project_qkv(b, x, a.qkv, s, prefix);
  if (a.clamp > 0) {
    q = b.clamp(q, a.clamp, prefix + "q_clamped");
    k = b.clamp(k, a.clamp, prefix + "k_clamped");
    v = b.clamp(v, a.clamp, prefix + "v_clamped");
  }
  const auto norms = [&](Attention::NormAt here) {
    if (a.norm_at != here) return;
    q = norm(b, q, a.q_norm, prefix + "q_norm");
    k = norm(b, k, a.k_norm, prefix + "k_norm");
    q = with_gain(b, q, a.q_gain, s.n_head, prefix + "q_gain");
    k = with_gain(b, k, a.k_gain, s.n_head_kv, prefix + "k_gain");
  };
  norms(Attention::NormAt::Whole);
  q = b.heads(q, s.n_head, prefix + "q_heads");
  ir::ValueId gate_rows;
  if (a.gate_in_q) {
    gate_rows = b.slice_heads(q, s.k_dim, s.v_dim, prefix + "q_gate");
    gate_rows = b.merge_heads(gate_rows, prefix + "attn_gate");
    q = b.slice_heads(q, 0, s.k_dim, prefix + "q_query");
  }
  k = b.heads(k, s.n_head_kv, prefix + "k_heads");
  v = b.heads(v, s.n_head_kv, prefix + "v_heads");
  norms(Attention::NormAt::Heads);
  v = norm(b, v, a.v_norm, prefix + "v_norm");
  const bool scaled = a.query_scale != 1;
  if (a.rope) {
    q = b.rope(q, *a.rope, prefix + (scaled ? "q_rot" : "q_rope"));
    k = b.rope(k, *a.rope, prefix + "k_rope");
  }
  norms(Attention::NormAt::TurnedHeads);
  if (a.temper) q = b.temper(q, a.temper->by, a.temper->period, a.temper->offset, prefix + "q_tempered");
  if (scaled) q = b.scale(q, a.query_scale, prefix + "q_rope");
  const ir::AttentionArgs args{.scale = a.scale,
                               .window = a.window,
                               .cap = a.cap,
                               .alibi = a.alibi,
                               .sinks = a.sinks,
                               .bias = a.bias,
                               .buckets = a.buckets,
                               .ahead = a.ahead};
  ir::ValueId out = b.attention(q, k, v, state, args, prefix + "attn_out");
  const auto project = [&](ir::ValueId merged) {
    merged = norm(b, merged, a.out_norm, prefix + "attn_sub_norm");
    if (a.out_scale == 1) return linear(b, merged, a.out, prefix + "attn_proj");
    return b.scale(linear(b, merged, a.out, prefix + "attn_unscaled"), a.out_scale, prefix + "attn_proj");
  };
  if (a.gate_in_q) {
    const ir::ValueId gate = b.act(gate_rows, a.gate_fn, prefix + "attn_gate_act");
    return project(b.mul(b.merge_heads(out, prefix + "attn_merged"), gate, prefix + "attn_gated"));
  }
  if (!a.gate) return project(b.merge_heads(out, prefix + "attn_merged"));
  const ir::ValueId gate =
      b.act(linear(b, x, a.gate, prefix + "attn_gate"), a.gate_fn, prefix + "attn_gate_act");
  const bool of_heads = b.weight(a.gate.weight).shape[0] == s.n_head;
  if (of_heads) out = b.mul_heads(out, gate, prefix + "attn_gated");
  out = b.merge_heads(out, prefix + "attn_merged");
  if (!of_heads) out = b.mul(out, gate, prefix + "attn_gated");
  return project(out);
}

ir::ValueId shared_attention(ir::Builder& b, ir::ValueId x, const Attention& a, ir::StateId state,
                             const std::string& prefix) {
  ir::ValueId q = b.heads(linear(b, x, a.qkv.q, prefix + "q"), a.shape.n_head, prefix + "q_heads");
  q = norm(b, q, a.q_norm, prefix + "q_norm");
  if (a.rope) q = b.rope(q, *a.rope, prefix + "q_rope");
  const ir::AttentionArgs args{.scale = a.scale, .window = a.window, .cap = a.cap, .sinks = a.sinks};
  const ir::ValueId out = b.attention_again(q, state, args, prefix + "attn_out");
  return linear(b, b.merge_heads(out, prefix + "attn_merged"), a.out, prefix + "attn_proj");
}

}  // namespace gc::blocks
