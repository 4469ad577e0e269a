#include "frontends/gguf/arch/recurrent.h"

#include <algorithm>
#include <limits>

#include "compiler/base/error.h"
#include "compiler/blocks/delta.h"

namespace gc::gguf {
namespace {

using blocks::Norm;

constexpr std::uint32_t kMaxTaps = 64;

// Norms of dt, B and C: with weights where the file has them, without where ssm.dt_b_c_rms asks for them.
void mamba_norms(const Keys& keys, Tensors& tensors, double eps, const std::string& prefix,
                 blocks::Mamba& m) {
  const bool weights = tensors.has(prefix + "ssm_dt_norm.weight");
  if (!weights && !keys.file().get_bool(keys.full("ssm.dt_b_c_rms"), false)) return;
  const auto norm_of = [&](const char* stem, std::int64_t size) {
    return weights ? tensors.rms_norm(prefix + stem, size, eps) : Norm{.kind = Norm::Kind::Rms, .eps = eps};
  };
  m.dt_norm = norm_of("ssm_dt_norm", m.rank);
  m.b_norm = norm_of("ssm_b_norm", m.state);
  m.c_norm = norm_of("ssm_c_norm", m.state);
}

blocks::Mixer mixer_of(const blocks::DeltaNet& m) {
  return [m](ir::Builder& b, ir::ValueId x, std::int64_t layer, const std::string& name) {
    return delta_net(b, x, m, layer, name);
  };
}

}  // namespace

blocks::Conv conv_of(Tensors& tensors, const std::string& stem, std::int64_t channels, std::int64_t taps) {
  return {.taps = tensors.floats(stem + ".weight", channels, taps),
          .bias = tensors.find_vector(stem + ".bias", channels)};
}

blocks::Mixer mamba_of(const Keys& keys, Tensors& tensors, const DecoderSizes& s, const std::string& prefix) {
  blocks::Mamba m{.inner = keys.size("ssm.inner_size"),
                  .state = keys.size("ssm.state_size"),
                  .rank = keys.size("ssm.time_step_rank")};
  m.in = tensors.linear(prefix + "ssm_in", 2 * m.inner, s.n_embd);
  m.conv = conv_of(tensors, prefix + "ssm_conv1d", m.inner, keys.size("ssm.conv_kernel", kMaxTaps));
  m.x = tensors.linear(prefix + "ssm_x", m.rank + 2 * m.state, m.inner);
  mamba_norms(keys, tensors, s.eps, prefix, m);
  m.dt = tensors.linear(prefix + "ssm_dt", m.inner, m.rank);
  m.a = tensors.floats(prefix + "ssm_a", m.inner, m.state);
  m.d = tensors.vector(prefix + "ssm_d", m.inner);
  m.out = tensors.linear(prefix + "ssm_out", s.n_embd, m.inner);
  return [m](ir::Builder& b, ir::ValueId x, std::int64_t layer, const std::string& name) {
    return mamba(b, x, m, layer, name);
  };
}

blocks::Mixer mamba2_of(const Keys& keys, Tensors& tensors, const DecoderSizes& s,
                        const std::string& prefix) {
  blocks::Mamba2 m{.inner = keys.size("ssm.inner_size"),
                   .state = keys.size("ssm.state_size"),
                   .heads = keys.size("ssm.time_step_rank"),
                   .groups = keys.size("ssm.group_count"),
                   .eps = s.eps};
  if (m.inner % m.heads != 0)
    keys.fail("ssm.time_step_rank",
              cat("expected a divisor of ssm.inner_size ", m.inner, ", found ", m.heads));
  if (m.heads % m.groups != 0)
    keys.fail("ssm.group_count", cat("expected a divisor of the ", m.heads, " heads, found ", m.groups));
  const std::int64_t channels = m.inner + 2 * m.groups * m.state;
  m.in = tensors.linear(prefix + "ssm_in", m.inner + channels + m.heads, s.n_embd);
  m.conv = conv_of(tensors, prefix + "ssm_conv1d", channels, keys.size("ssm.conv_kernel", kMaxTaps));
  m.dt_bias = tensors.vector(prefix + "ssm_dt.bias", m.heads);
  m.a = tensors.flat(prefix + "ssm_a", m.heads, 1);
  m.d = tensors.flat(prefix + "ssm_d", m.heads, 1);
  const std::string norm = prefix + "ssm_norm.weight";
  if (tensors.has(norm)) m.norm = tensors.flat(norm, m.groups, m.inner / m.groups);
  m.out = tensors.linear(prefix + "ssm_out", s.n_embd, m.inner);
  return [m](ir::Builder& b, ir::ValueId x, std::int64_t layer, const std::string& name) {
    return mamba2(b, x, m, layer, name);
  };
}

blocks::Mixer short_conv_of(const Keys& keys, Tensors& tensors, const DecoderSizes& s,
                            const std::string& prefix) {
  const std::int64_t taps = keys.size("shortconv.l_cache", kMaxTaps);
  blocks::ShortConv m{.in = tensors.linear(prefix + "shortconv.in_proj", 3 * s.n_embd, s.n_embd),
                      .conv = conv_of(tensors, prefix + "shortconv.conv", s.n_embd, taps),
                      .out = tensors.linear(prefix + "shortconv.out_proj", s.n_embd, s.n_embd)};
  return [m](ir::Builder& b, ir::ValueId x, std::int64_t layer, const std::string& name) {
    return short_conv(b, x, m, layer, name);
  };
}

std::vector<bool> recurrent_by_key(const Keys& keys, std::int64_t n_layer, std::int64_t interval) {
  const char* suffix = "attention.recurrent_layers";
  if (keys.has(suffix))
    return keys.file().per_layer_bool(keys.full(suffix), static_cast<std::uint32_t>(n_layer), false);
  interval = keys.find_size("full_attention_interval").value_or(interval);
  std::vector<bool> layers;
  for (std::int64_t i = 0; i < n_layer; ++i) layers.push_back((i + 1) % interval != 0);
  return layers;
}

namespace {

blocks::DeltaNet delta_of(const Keys& keys, Tensors& tensors, const DecoderSizes& s,
                          const std::string& prefix) {
  blocks::DeltaNet m{.key_heads = keys.size("ssm.group_count"),
                     .heads = keys.size("ssm.time_step_rank"),
                     .k_dim = keys.size("ssm.state_size"),
                     .eps = s.eps};
  const std::int64_t inner = keys.size("ssm.inner_size");
  if (m.heads % m.key_heads != 0)
    keys.fail("ssm.group_count", cat("expected a divisor of the ", m.heads, " heads, found ", m.key_heads));
  if (inner % m.heads != 0)
    keys.fail("ssm.inner_size", cat("expected a multiple of the ", m.heads, " heads, found ", inner));
  m.v_dim = inner / m.heads;
  const std::int64_t channels = 2 * m.key_heads * m.k_dim + inner;
  if (tensors.has(prefix + "attn_qkv.weight")) {
    m.qkv = tensors.linear(prefix + "attn_qkv", channels, s.n_embd);
    m.z = tensors.linear(prefix + "attn_gate", inner, s.n_embd);
    tensors.ignore(prefix + "ssm_in.weight");
  } else {
    m.qkvz = tensors.linear(prefix + "ssm_in", channels + inner, s.n_embd);
  }
  m.in_turn = !tensors.has(prefix + "ssm_ba.weight");
  if (m.in_turn) {
    m.beta = tensors.linear(prefix + "ssm_beta", m.heads, s.n_embd);
    m.alpha = tensors.linear(prefix + "ssm_alpha", m.heads, s.n_embd);
  } else {
    m.beta_alpha = tensors.linear(prefix + "ssm_ba", 2 * m.heads, s.n_embd);
  }
  m.conv = conv_of(tensors, prefix + "ssm_conv1d", channels, keys.size("ssm.conv_kernel", kMaxTaps));
  m.dt_bias = tensors.vector(prefix + "ssm_dt.bias", m.heads);
  m.a = tensors.vector(prefix + "ssm_a", m.heads);
  m.norm = tensors.vector(prefix + "ssm_norm.weight", m.v_dim);
  m.out = tensors.linear(prefix + "ssm_out", s.n_embd, inner);
  return m;
}

}  // namespace

blocks::Mixer delta_net_of(const Keys& keys, Tensors& tensors, const DecoderSizes& s,
                           const std::string& prefix) {
  return mixer_of(delta_of(keys, tensors, s, prefix));
}

blocks::Mixer gated_delta_net_of(const Keys& keys, Tensors& tensors, const DecoderSizes& s,
                                 const std::string& prefix) {
  blocks::DeltaNet m = delta_of(keys, tensors, s, prefix);
  m.z_fn = ir::Fn::sigmoid;
  return mixer_of(m);
}

blocks::Mixer kda_of(const Keys& keys, Tensors& tensors, const DecoderSizes& s, const std::string& prefix) {
  blocks::Kda m{.dim = keys.size("kda.head_dim"), .eps = s.eps};
  m.unit_eps = keys.architecture() == "glm5-next" ? 1e-6 : s.eps;
  for (const blocks::HeadShape& h : s.heads) m.heads = std::max(m.heads, h.n_head);
  const std::int64_t n = m.heads * m.dim, taps = keys.size("ssm.conv_kernel", kMaxTaps);
  const auto projected = [&](const char* part, blocks::Linear& w, blocks::Conv& c) {
    w.weight = tensors.matrix(prefix + "attn_" + part + ".weight", n, s.n_embd);
    tensors.ignore(prefix + "attn_" + part + ".bias");  // which files of the family may carry
    c.taps = tensors.taps(prefix + "ssm_conv1d_" + part + ".weight", n, taps);
  };
  projected("q", m.q, m.q_conv), projected("k", m.k, m.k_conv), projected("v", m.v, m.v_conv);
  const bool whole = !tensors.has(prefix + "ssm_f_b.weight");
  m.f_a = tensors.linear(prefix + "ssm_f_a", whole ? n : m.dim, s.n_embd);
  if (!whole) m.f_b = tensors.linear(prefix + "ssm_f_b", n, m.dim);
  // Minus infinity is how writers of all keys say that there is none.
  const Value* bound = keys.file().find(keys.full("kda.gate_lower_bound"));
  if (bound != nullptr && bound->as_float() != -std::numeric_limits<double>::infinity()) {
    m.least = keys.file().find_f32(keys.full("kda.gate_lower_bound")).value_or(0);
    if (!(m.least < 0)) keys.fail("kda.gate_lower_bound", "expected a negative number");
    // Bailing's rates are exp(A), and a flag says whether the bound is meant; Kimi's are -exp(A).
    m.mirrored = keys.architecture() != "bailingmoe3";
    if (!m.mirrored && !keys.file().get_bool(keys.full("kda.safe_gate"), true))
      keys.unsupported("kda.safe_gate", "gates without a bound are not supported here");
  }
  m.dt_bias = tensors.vector(prefix + "ssm_dt.bias", n);
  m.a = tensors.rates(prefix + "ssm_a", m.heads);
  m.beta = tensors.linear(prefix + "ssm_beta", m.heads, s.n_embd);
  const bool whole_gate = whole || tensors.has(prefix + "ssm_g.weight");
  m.g_a =
      tensors.linear(prefix + (whole_gate && !whole ? "ssm_g" : "ssm_g_a"), whole_gate ? n : m.dim, s.n_embd);
  if (!whole_gate) m.g_b = tensors.linear(prefix + "ssm_g_b", n, m.dim);
  m.norm = tensors.vector(prefix + "ssm_norm.weight", m.dim);
  m.out = tensors.linear(prefix + "attn_output", s.n_embd, n);
  return [m](ir::Builder& b, ir::ValueId x, std::int64_t layer, const std::string& name) {
    return kda(b, x, m, layer, name);
  };
}

blocks::Mixer plamo2_mamba_of(const Keys& keys, Tensors& tensors, const DecoderSizes& s,
                              const std::string& prefix) {
  blocks::PlamoMamba m{.inner = keys.size("ssm.inner_size"),
                       .state = keys.size("ssm.state_size"),
                       .heads = keys.size("ssm.time_step_rank"),
                       .rank = std::max<std::int64_t>(64, s.n_embd / 16)};
  if (m.inner % m.heads != 0)
    keys.fail("ssm.time_step_rank",
              cat("expected a divisor of ssm.inner_size ", m.inner, ", found ", m.heads));
  m.in = tensors.linear(prefix + "ssm_in", 2 * m.inner, s.n_embd);
  m.conv = conv_of(tensors, prefix + "ssm_conv1d", m.inner, keys.size("ssm.conv_kernel", kMaxTaps));
  m.x = tensors.linear(prefix + "ssm_x", 2 * m.state + m.rank, m.inner);
  m.dt_norm = tensors.rms_norm(prefix + "ssm_dt_norm", m.rank, s.eps);
  m.b_norm = tensors.rms_norm(prefix + "ssm_b_norm", m.state, s.eps);
  m.c_norm = tensors.rms_norm(prefix + "ssm_c_norm", m.state, s.eps);
  m.dt = tensors.linear(prefix + "ssm_dt", m.heads, m.rank);
  m.a = tensors.vector(prefix + "ssm_a", m.heads);
  m.d = tensors.vector(prefix + "ssm_d", m.heads);
  m.out = tensors.linear(prefix + "ssm_out", s.n_embd, m.inner);
  return [m](ir::Builder& b, ir::ValueId x, std::int64_t layer, const std::string& name) {
    return plamo_mamba(b, x, m, layer, name);
  };
}

}  // namespace gc::gguf
