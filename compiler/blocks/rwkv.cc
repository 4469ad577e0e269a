#include "compiler/blocks/rwkv.h"

#include <cmath>

#include "compiler/base/strings.h"
#include "compiler/blocks/delta.h"
#include "compiler/blocks/recurrent.h"

namespace gc::blocks {
namespace {

using ir::Fn;
using ir::ValueId;

// The row before less x.
ValueId shifted(ir::Builder& b, ValueId x, std::int64_t layer, const std::string& part, std::string name) {
  const std::int64_t n = b.type(x).dims[1].size;
  return b.token_shift(x, {}, conv_state(b, layer, part, 1, n), std::move(name));
}

// x + by * difference
ValueId blended(ir::Builder& b, ValueId x, ValueId difference, ir::WeightId by, const std::string& name) {
  return b.add(x, b.weigh(difference, by, name + "_part"), name);
}

// up fn(down x), fn none: up down x.
ValueId low_rank(ir::Builder& b, ValueId x, const Linear& down, std::optional<Fn> fn, const Linear& up,
                 const std::string& name) {
  ValueId low = linear(b, x, down, name + "_down");
  if (fn) low = b.act(low, *fn, name + "_act");
  return linear(b, low, up, name + "_up");
}

// [T, heads, dim] -> [T, heads * dim].
ValueId heads_norm(ir::Builder& b, ValueId y, const HeadsNorm& n, const std::string& prefix) {
  if (!n.weight.valid()) return b.merge_heads(y, prefix + "wkv_merged");
  const ValueId normed =
      b.merge_heads(b.layer_norm(y, {}, {}, n.eps, prefix + "wkv_unit"), prefix + "wkv_merged");
  return b.shift(b.weigh(normed, n.weight, prefix + "wkv_weighed"), n.bias, prefix + "wkv_norm");
}

// What w, k, v, r and g read: blends whose weights come from a first one.
std::array<ValueId, 5> blends(ir::Builder& b, ValueId x, const TimeMix6& m, std::int64_t layer,
                              const std::string& prefix) {
  static constexpr std::array kNames = {"mix_w", "mix_k", "mix_v", "mix_r", "mix_g"};
  const std::int64_t n = b.type(x).dims[1].size;
  const ValueId difference = shifted(b, x, layer, "time", prefix + "shift");
  const ValueId first = blended(b, x, difference, m.lerp_x, prefix + "mix_x");
  const ValueId low = b.act(linear(b, first, m.blend, prefix + "blend"), Fn::tanh, prefix + "blend_act");
  ValueId all =
      b.merge_heads(b.matmul_heads(b.heads(low, 5, prefix + "blend_low"), m.blend_up, prefix + "blend_up"),
                    prefix + "blends");
  if (m.lerps.valid()) all = b.shift(all, m.lerps, prefix + "blends_at");
  std::array<ValueId, 5> out;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::string name = prefix + kNames[i];
    ValueId by = b.slice(all, static_cast<std::int64_t>(i) * n, n, name + "_by");
    if (!m.lerps.valid()) by = b.shift(by, m.lerp[i], name + "_at");
    out[i] = b.add(x, b.mul(difference, by, name + "_part"), name);
  }
  return out;
}

}  // namespace

ValueId time_mix(ir::Builder& b, ValueId x, const TimeMix6& m, std::int64_t layer,
                 const std::string& prefix) {
  const auto [w, k, v, r, g] = blends(b, x, m, layer, prefix);
  const auto in_heads = [&](ValueId y, std::int64_t heads, const char* name) {
    return b.heads(y, heads, prefix + name);
  };
  // decay = exp(-exp(w))
  ValueId decay = b.shift(low_rank(b, w, m.decay_down, Fn::tanh, m.decay_up, prefix + "decay"), m.decay,
                          prefix + "decay_at");
  decay = b.scale(b.act(decay, Fn::exp, prefix + "decay_rate"), -1, prefix + "decay");
  const bool leaky = !m.bonus.valid();
  const ValueId y = b.wkv({.q = in_heads(linear(b, r, m.r, prefix + "r"), m.heads, "r_heads"),
                           .k = in_heads(linear(b, k, m.k, prefix + "k"), m.groups, "k_heads"),
                           .v = in_heads(linear(b, v, m.v, prefix + "v"), m.groups, "v_heads"),
                           .gate = in_heads(decay, m.heads, "decay_heads"),
                           .bonus = m.bonus,
                           .scale = leaky ? 1 / std::sqrt(static_cast<double>(m.dim)) : 1,
                           .leaky = leaky},
                          ssm_state(b, layer, m.heads, m.dim, m.dim), prefix + "wkv");
  const ValueId gate =
      b.act(linear(b, g, m.g, prefix + "g"), leaky ? Fn::sigmoid : Fn::silu, prefix + "g_act");
  const ValueId gated = b.mul(heads_norm(b, y, m.norm, prefix), gate, prefix + "wkv_gated");
  return linear(b, gated, m.out, prefix + "time_out");
}

ValueId time_mix(ir::Builder& b, ValueId x, const TimeMix7& m, std::int64_t layer, const std::string& prefix,
                 ValueId& first) {
  const std::int64_t n = b.type(x).dims[1].size;
  const auto in_heads = [&](ValueId y, const char* name) { return b.heads(y, m.heads, prefix + name); };
  const ValueId all = b.merge_heads(
      b.token_shift(x, m.lerps, conv_state(b, layer, "time", 1, n), prefix + "shift"), prefix + "mixes");
  const auto mix = [&](std::int64_t i, const char* name) { return b.slice(all, i * n, n, prefix + name); };

  const ValueId r = linear(b, mix(0, "mix_r"), m.r, prefix + "r");
  // decay = exp(-exp(-1/2) sigmoid(w))
  ValueId decay = b.shift(low_rank(b, mix(1, "mix_w"), m.w_down, Fn::tanh, m.w_up, prefix + "decay"), m.w,
                          prefix + "decay_at");
  decay = b.scale(b.act(decay, Fn::sigmoid, prefix + "decay_rate"), -0.606531, prefix + "decay");
  ValueId k = linear(b, mix(2, "mix_k"), m.k, prefix + "k");
  const ValueId v_in = mix(3, "mix_v");
  ValueId v = linear(b, v_in, m.v, prefix + "v");
  if (!first.valid()) {
    first = v;
  } else {
    const ValueId by = b.shift(low_rank(b, v_in, m.v_down, {}, m.v_up, prefix + "v_blend"), m.v_blend,
                               prefix + "v_blend_at");
    const ValueId missing = b.add(first, b.scale(v, -1, prefix + "v_less"), prefix + "v_missing");
    v = b.add(v, b.mul(missing, b.act(by, Fn::sigmoid, prefix + "v_by"), prefix + "v_part"),
              prefix + "v_blended");
  }
  const ValueId a =
      b.act(b.shift(low_rank(b, mix(4, "mix_a"), m.a_down, {}, m.a_up, prefix + "a"), m.a, prefix + "a_at"),
            Fn::sigmoid, prefix + "a_act");
  const ValueId unit =
      unit_heads(b, b.weigh(k, m.key_unit, prefix + "k_unit_in"), m.heads, m.dim, 1e-24, prefix + "k_unit");
  const ValueId part = b.weigh(k, m.key_blend, prefix + "k_part");
  const ValueId more = b.add(b.mul(a, part, prefix + "k_part_a"), b.scale(part, -1, prefix + "k_part_less"),
                             prefix + "k_more");
  k = b.add(k, more, prefix + "k_blended");

  const ValueId k_heads = in_heads(k, "k_heads"), v_heads = in_heads(v, "v_heads");
  const ValueId y = b.wkv7({.q = in_heads(r, "r_heads"),
                            .k = k_heads,
                            .v = v_heads,
                            .gate = in_heads(decay, "decay_heads"),
                            .a = b.scale(unit, -1, prefix + "k_away"),
                            .b = b.mul(unit, in_heads(a, "a_heads"), prefix + "k_back")},
                           ssm_state(b, layer, m.heads, m.dim, m.dim), prefix + "wkv");
  const ValueId seen =
      b.dot_heads(k_heads, in_heads(b.weigh(r, m.own, prefix + "r_own"), "r_own_heads"), prefix + "own");
  const ValueId own = b.merge_heads(b.mul_heads(v_heads, seen, prefix + "own_v_heads"), prefix + "own_v");
  ValueId out = b.add(heads_norm(b, y, m.norm, prefix), own, prefix + "wkv_and_own");
  if (m.g_down)
    out = b.mul(out, low_rank(b, mix(5, "mix_g"), m.g_down, Fn::sigmoid, m.g_up, prefix + "g"),
                prefix + "wkv_gated");
  return linear(b, out, m.out, prefix + "time_out");
}

ValueId channel_mix(ir::Builder& b, ValueId x, const ChannelMix& m, std::int64_t layer,
                    const std::string& prefix) {
  const ValueId difference = shifted(b, x, layer, "channel", prefix + "channel_shift");
  const ValueId k =
      linear(b, blended(b, x, difference, m.lerp_k, prefix + "channel_mix_k"), m.k, prefix + "channel_k");
  const ValueId v = linear(b, b.act(k, Fn::relu2, prefix + "channel_act"), m.v, prefix + "channel_v");
  if (!m.r) return v;
  const ValueId r =
      linear(b, blended(b, x, difference, m.lerp_r, prefix + "channel_mix_r"), m.r, prefix + "channel_r");
  return b.mul(b.act(r, Fn::sigmoid, prefix + "channel_gate"), v, prefix + "channel_out");
}

}  // namespace gc::blocks
