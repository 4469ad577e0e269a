#include "frontends/gguf/arch/recurrent.h"

#include "compiler/base/error.h"

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

}  // namespace gc::gguf
