#include "compiler/blocks/recurrent.h"

#include "compiler/base/strings.h"

namespace gc::blocks {
namespace {

using ir::ValueId;

// silu(z) * y
ValueId gated(ir::Builder& b, ValueId z, ValueId y, const std::string& prefix) {
  return b.mul(b.act(z, ir::Fn::silu, prefix + "ssm_z_act"), y, prefix + "ssm_gated");
}

// x and z [T, inner], the low rank of dt, key and query [T, state].
struct ScanInput {
  ValueId x, z, low, key, query;
};

// The scan of Mamba and PLaMo 2 and what follows it: one group of keys, dt of low rank, whose bias the scan adds.
template <class Mixer>
ValueId of_one_group(ir::Builder& b, const Mixer& m, const ScanInput& in, std::int64_t heads,
                     std::int64_t layer, const std::string& prefix) {
  const ValueId y =
      b.ssm_scan({.x = b.heads(in.x, heads, prefix + "ssm_x"),
                  .dt = linear(b, in.low, {.weight = m.dt.weight, .scale = m.dt.scale}, prefix + "ssm_dt"),
                  .b = b.heads(in.key, 1, prefix + "ssm_b_group"),
                  .c = b.heads(in.query, 1, prefix + "ssm_c_group"),
                  .a = m.a,
                  .dt_bias = m.dt.bias,
                  .d = m.d},
                 ssm_state(b, layer, heads, m.state, m.inner / heads), prefix + "ssm_scan");
  return linear(b, gated(b, in.z, b.merge_heads(y, prefix + "ssm_y"), prefix), m.out, prefix + "ssm_out");
}

}  // namespace

ValueId convolve(ir::Builder& b, ValueId x, const Conv& c, std::optional<ir::Fn> fn, std::int64_t layer,
                 const std::string& part, std::string name) {
  const auto& shape = b.weight(c.taps).shape;
  const ir::StateId state = conv_state(b, layer, part, (shape[1] - 1) * c.dilation, shape[0]);
  return b.conv(x, c.taps, c.bias, fn, state, std::move(name), c.dilation);
}

ir::StateId conv_state(ir::Builder& b, std::int64_t layer, const std::string& part, std::int64_t rows,
                       std::int64_t channels) {
  return b.state({.name = cat("conv", layer, part),
                  .kind = ir::State::Kind::Conv,
                  .window = rows,
                  .heads = 1,
                  .k_dim = channels,
                  .v_dim = channels});
}

ir::StateId ssm_state(ir::Builder& b, std::int64_t layer, std::int64_t heads, std::int64_t k_dim,
                      std::int64_t v_dim) {
  return b.state({.name = cat("ssm", layer),
                  .kind = ir::State::Kind::Ssm,
                  .heads = heads,
                  .k_dim = k_dim,
                  .v_dim = v_dim});
}

ValueId mamba(ir::Builder& b, ValueId x, const Mamba& m, std::int64_t layer, const std::string& prefix) {
  const ValueId in = linear(b, x, m.in, prefix + "ssm_in");
  const ValueId z = b.slice(in, m.inner, m.inner, prefix + "ssm_z");
  x = convolve(b, b.slice(in, 0, m.inner, prefix + "ssm_conv_in"), m.conv, ir::Fn::silu, layer, "",
               prefix + "ssm_conv");
  const ValueId dbc = linear(b, x, m.x, prefix + "ssm_dbc");
  const auto part = [&](std::int64_t begin, std::int64_t size, const Norm& n, const char* name) {
    return norm(b, b.slice(dbc, begin, size, prefix + name), n, cat(prefix, name, "_norm"));
  };
  const ValueId low = part(0, m.rank, m.dt_norm, "ssm_dt_low");
  const ValueId key = part(m.rank, m.state, m.b_norm, "ssm_b");
  const ValueId query = part(m.rank + m.state, m.state, m.c_norm, "ssm_c");
  return of_one_group(b, m, {x, z, low, key, query}, m.inner, layer, prefix);
}

ValueId mamba2(ir::Builder& b, ValueId x, const Mamba2& m, std::int64_t layer, const std::string& prefix) {
  const std::int64_t bc = m.groups * m.state;
  const ValueId in = linear(b, x, m.in, prefix + "ssm_in");
  const ValueId z = b.slice(in, 0, m.inner, prefix + "ssm_z");
  const ValueId dt = b.slice(in, 2 * m.inner + 2 * bc, m.heads, prefix + "ssm_dt");
  const ValueId xbc = convolve(b, b.slice(in, m.inner, m.inner + 2 * bc, prefix + "ssm_conv_in"), m.conv,
                               ir::Fn::silu, layer, "", prefix + "ssm_conv");
  const auto part = [&](std::int64_t begin, std::int64_t size, std::int64_t heads, const char* name) {
    return b.heads(b.slice(xbc, begin, size, prefix + name), heads, cat(prefix, name, "_heads"));
  };
  ValueId y = b.ssm_scan({.x = part(0, m.inner, m.heads, "ssm_x"),
                          .dt = dt,
                          .b = part(m.inner, bc, m.groups, "ssm_b"),
                          .c = part(m.inner + bc, bc, m.groups, "ssm_c"),
                          .a = m.a,
                          .dt_bias = m.dt_bias,
                          .d = m.d},
                         ssm_state(b, layer, m.heads, m.state, m.inner / m.heads), prefix + "ssm_scan");
  y = gated(b, z, b.merge_heads(y, prefix + "ssm_y"), prefix);
  if (m.norm.valid()) {
    y = b.rms_norm(b.heads(y, m.groups, prefix + "ssm_groups"), {}, m.eps, prefix + "ssm_group_norm");
    y = b.weigh(b.merge_heads(y, prefix + "ssm_normed"), m.norm, prefix + "ssm_norm");
  }
  return linear(b, y, m.out, prefix + "ssm_out");
}

ValueId plamo_mamba(ir::Builder& b, ValueId x, const PlamoMamba& m, std::int64_t layer,
                    const std::string& prefix) {
  const std::int64_t dim = m.inner / m.heads;
  const ValueId in = b.heads(linear(b, x, m.in, prefix + "ssm_in"), m.heads, prefix + "ssm_zx");
  const ValueId z = b.merge_heads(b.slice_heads(in, 0, dim, prefix + "ssm_z_heads"), prefix + "ssm_z");
  x = b.merge_heads(b.slice_heads(in, dim, dim, prefix + "ssm_x_heads"), prefix + "ssm_conv_in");
  x = convolve(b, x, m.conv, ir::Fn::silu, layer, "", prefix + "ssm_conv");
  const ValueId bcd = linear(b, x, m.x, prefix + "ssm_bcd");
  const auto part = [&](std::int64_t begin, std::int64_t size, const Norm& n, const char* name) {
    return norm(b, b.slice(bcd, begin, size, prefix + name), n, cat(prefix, name, "_norm"));
  };
  const ValueId key = part(0, m.state, m.b_norm, "ssm_b"), query = part(m.state, m.state, m.c_norm, "ssm_c");
  const ValueId low = part(2 * m.state, m.rank, m.dt_norm, "ssm_dt_low");
  return of_one_group(b, m, {x, z, low, key, query}, m.heads, layer, prefix);
}

ValueId short_conv(ir::Builder& b, ValueId x, const ShortConv& m, std::int64_t layer,
                   const std::string& prefix) {
  const std::int64_t n = b.weight(m.conv.taps).shape[0];
  const ValueId in = linear(b, x, m.in, prefix + "conv_in");
  const ValueId first = b.slice(in, 0, n, prefix + "conv_b"), second = b.slice(in, n, n, prefix + "conv_c");
  const ValueId bx = b.mul(first, b.slice(in, 2 * n, n, prefix + "conv_x"), prefix + "conv_bx");
  const ValueId y = convolve(b, bx, m.conv, {}, layer, "", prefix + "conv");
  return linear(b, b.mul(second, y, prefix + "conv_gated"), m.out, prefix + "conv_out");
}

}  // namespace gc::blocks
