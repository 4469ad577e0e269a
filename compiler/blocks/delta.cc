#include "compiler/blocks/delta.h"

#include <cmath>
#include <utility>

#include "compiler/base/strings.h"

namespace gc::blocks {
namespace {

using ir::ValueId;

// The logarithms of decays: a softplus(x + dt_bias).
ValueId decay_gate(ir::Builder& b, ValueId x, ir::WeightId dt_bias, ir::WeightId a,
                   const std::string& prefix) {
  const ValueId biased = b.shift(x, dt_bias, prefix + "delta_dt");
  return b.weigh(b.act(biased, ir::Fn::softplus, prefix + "delta_step"), a, prefix + "delta_gate");
}

// Bounded from below: least sigmoid(a (x + dt_bias)).
ValueId bounded_gate(ir::Builder& b, ValueId x, const Kda& m, const std::string& prefix) {
  ValueId biased = b.weigh(b.shift(x, m.dt_bias, prefix + "delta_dt"), m.a, prefix + "delta_rated");
  if (m.mirrored) biased = b.scale(biased, -1, prefix + "delta_mirrored");
  return b.scale(b.act(biased, ir::Fn::sigmoid, prefix + "delta_step"), m.least, prefix + "delta_gate");
}

struct Parts {
  ValueId qkv, z;
};

Parts project(ir::Builder& b, ValueId x, const DeltaNet& m, const std::string& prefix) {
  if (!m.qkvz) return {linear(b, x, m.qkv, prefix + "delta_qkv"), linear(b, x, m.z, prefix + "delta_z")};
  const std::int64_t values = m.heads / m.key_heads * m.v_dim;
  const ValueId all = b.heads(linear(b, x, m.qkvz, prefix + "delta_qkvz"), m.key_heads, prefix + "delta_all");
  const auto part = [&](std::int64_t begin, std::int64_t size, const char* name) {
    return b.merge_heads(b.slice_heads(all, begin, size, prefix + name), cat(prefix, name, "_merged"));
  };
  const ValueId q = part(0, m.k_dim, "delta_q_in"), k = part(m.k_dim, m.k_dim, "delta_k_in");
  const ValueId v = part(2 * m.k_dim, values, "delta_v_in");
  return {b.concat(b.concat(q, k, prefix + "delta_qk"), v, prefix + "delta_qkv"),
          part(2 * m.k_dim + values, values, "delta_z")};
}

// beta and alpha [T, heads].
std::pair<ValueId, ValueId> beta_alpha(ir::Builder& b, ValueId x, const DeltaNet& m,
                                       const std::string& prefix) {
  if (!m.beta_alpha)
    return {linear(b, x, m.beta, prefix + "delta_b"), linear(b, x, m.alpha, prefix + "delta_a")};
  const std::int64_t each = m.heads / m.key_heads;
  const ValueId both =
      b.heads(linear(b, x, m.beta_alpha, prefix + "delta_ba"), m.key_heads, prefix + "delta_ba_heads");
  const auto part = [&](std::int64_t begin, const char* name) {
    return b.merge_heads(b.slice_heads(both, begin, each, prefix + name), cat(prefix, name, "_merged"));
  };
  return {part(0, "delta_b"), part(each, "delta_a")};
}

}  // namespace

ValueId unit_heads(ir::Builder& b, ValueId x, std::int64_t heads, std::int64_t dim, double eps,
                   const std::string& name) {
  const auto n = static_cast<double>(dim);
  const ValueId normed = b.rms_norm(b.heads(x, heads, name + "_heads"), {}, eps / n, name + "_normed");
  return b.scale(normed, 1 / std::sqrt(n), name);
}

ValueId delta_net(ir::Builder& b, ValueId x, const DeltaNet& m, std::int64_t layer,
                  const std::string& prefix) {
  const std::int64_t keys = m.key_heads * m.k_dim, values = m.heads * m.v_dim;
  const auto [qkv_in, z] = project(b, x, m, prefix);
  const auto [beta, alpha] = beta_alpha(b, x, m, prefix);
  const ValueId qkv = convolve(b, qkv_in, m.conv, ir::Fn::silu, layer, "", prefix + "delta_conv");
  const auto unit = [&](std::int64_t begin, const char* name) {
    return unit_heads(b, b.slice(qkv, begin, keys, cat(prefix, name, "_conv")), m.key_heads, m.k_dim, m.eps,
                      prefix + name);
  };
  const ValueId v = b.slice(qkv, 2 * keys, values, prefix + "delta_v_conv");
  const ValueId y = b.delta_rule({.q = unit(0, "delta_q"),
                                  .k = unit(keys, "delta_k"),
                                  .v = b.heads(v, m.heads, prefix + "delta_v"),
                                  .gate = decay_gate(b, alpha, m.dt_bias, m.a, prefix),
                                  .beta = b.act(beta, ir::Fn::sigmoid, prefix + "delta_beta"),
                                  .scale = 1 / std::sqrt(static_cast<double>(m.v_dim)),
                                  .in_turn = m.in_turn},
                                 ssm_state(b, layer, m.heads, m.k_dim, m.v_dim), prefix + "delta_out");
  const ValueId normed =
      b.merge_heads(b.rms_norm(y, m.norm, m.eps, prefix + "delta_norm"), prefix + "delta_merged");
  const ValueId gated = b.mul(b.act(z, m.z_fn, prefix + "delta_z_act"), normed, prefix + "delta_gated");
  return linear(b, gated, m.out, prefix + "delta_proj");
}

ValueId kda(ir::Builder& b, ValueId x, const Kda& m, std::int64_t layer, const std::string& prefix) {
  const auto convolved = [&](const Linear& w, const Conv& c, const char* name) {
    const ValueId in = linear(b, x, w, cat(prefix, "delta_", name, "_in"));
    return convolve(b, in, c, ir::Fn::silu, layer, name, cat(prefix, "delta_", name, "_conv"));
  };
  const auto low_rank = [&](const Linear& first, const Linear& second, const char* name) {
    const ValueId inner = linear(b, x, first, cat(prefix, name, "_a"));
    return second ? linear(b, inner, second, cat(prefix, name, "_b")) : inner;
  };
  const ValueId q = convolved(m.q, m.q_conv, "q"), k = convolved(m.k, m.k_conv, "k");
  const ValueId v = convolved(m.v, m.v_conv, "v");
  const ValueId f = low_rank(m.f_a, m.f_b, "delta_f");
  const ValueId gate = m.least < 0 ? bounded_gate(b, f, m, prefix) : decay_gate(b, f, m.dt_bias, m.a, prefix);
  const ValueId beta =
      b.act(linear(b, x, m.beta, prefix + "delta_b"), ir::Fn::sigmoid, prefix + "delta_beta");
  const ValueId y = b.delta_rule({.q = unit_heads(b, q, m.heads, m.dim, m.unit_eps, prefix + "delta_q"),
                                  .k = unit_heads(b, k, m.heads, m.dim, m.unit_eps, prefix + "delta_k"),
                                  .v = b.heads(v, m.heads, prefix + "delta_v"),
                                  .gate = b.heads(gate, m.heads, prefix + "delta_gates"),
                                  .beta = beta,
                                  .scale = 1 / std::sqrt(static_cast<double>(m.dim))},
                                 ssm_state(b, layer, m.heads, m.dim, m.dim), prefix + "delta_out");
  const ValueId normed =
      b.merge_heads(b.rms_norm(y, m.norm, m.eps, prefix + "delta_norm"), prefix + "delta_merged");
  const ValueId open = b.act(low_rank(m.g_a, m.g_b, "delta_g"), ir::Fn::sigmoid, prefix + "delta_g_act");
  return linear(b, b.mul(open, normed, prefix + "delta_gated"), m.out, prefix + "delta_proj");
}

ValueId lightning(ir::Builder& b, ValueId x, const Lightning& m, std::int64_t layer,
                  const std::string& prefix) {
  const ValueId raw =
      b.act(linear(b, x, m.qkv, prefix + "delta_qkv"), ir::Fn::silu, prefix + "delta_qkv_act");
  const ValueId all = b.heads(raw, m.heads, prefix + "delta_all");
  const auto part = [&](std::int64_t i, const char* name) {
    return b.slice_heads(all, i * m.dim, m.dim, prefix + name);
  };
  const ValueId q = part(0, "delta_q"), k = part(1, "delta_k"), v = part(2, "delta_v");
  const ValueId y = b.decay_attention(q, k, v, {.scale = 1, .alibi = 8, .by = m.by},
                                      ssm_state(b, layer, m.heads, m.dim, m.dim), prefix + "delta_out");
  const ValueId normed = norm(b, b.merge_heads(y, prefix + "delta_merged"), m.norm, prefix + "delta_norm");
  const ValueId open =
      b.act(linear(b, x, m.gate, prefix + "delta_g"), ir::Fn::sigmoid, prefix + "delta_g_act");
  return linear(b, b.mul(open, normed, prefix + "delta_gated"), m.out, prefix + "delta_proj");
}

}  // namespace gc::blocks
