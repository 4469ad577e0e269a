#include "codegen_cpu/kernels/attention/reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "codegen_cpu/kv_layout.h"
#include "compiler/base/error.h"

namespace gc::cpu {

namespace {

double rounded(int kv_type, double x) {
  switch (kv_type) {
    case GC_KV_F32:
      return static_cast<float>(x);
    case GC_KV_F16:
      return static_cast<_Float16>(static_cast<float>(x));
    case GC_KV_BF16: {
      const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(x));
      return std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u);
    }
  }
  throw_internal("KV type ", kv_type);
}

// Norm and RoPE of one head.
std::vector<double> head(const AttnSpec& spec, const float* x, const float* norm, double base,
                         std::int64_t pos) {
  std::vector<double> y(x, x + spec.k_dim);
  if (norm) {
    double squares = 0;
    for (double v : y) squares += v * v;
    const double r = 1 / std::sqrt(squares / static_cast<double>(spec.k_dim) + spec.eps);
    for (std::int64_t i = 0; i < spec.k_dim; ++i) y[i] *= r * norm[i];
  }
  const std::int64_t half = spec.rope.dims / 2;
  for (std::int64_t i = 0; i < half; ++i) {
    const double angle = static_cast<double>(pos) *
                         std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(spec.rope.dims));
    double& a = y[spec.rope.neox ? i : 2 * i];
    double& b = y[spec.rope.neox ? i + half : 2 * i + 1];
    const double turned = a * std::cos(angle) - b * std::sin(angle);
    b = b * std::cos(angle) + a * std::sin(angle);
    a = turned;
  }
  return y;
}

}  // namespace

void kv_round(int kv_type, double* x, std::int64_t n) {
  if (kv_type != GC_KV_Q8_0) {
    for (std::int64_t i = 0; i < n; ++i) x[i] = rounded(kv_type, x[i]);
    return;
  }
  for (std::int64_t first = 0; first < n; first += kKvScaleBlock) {
    const std::int64_t end = std::min(n, first + kKvScaleBlock);
    double most = 0;
    for (std::int64_t i = first; i < end; ++i) most = std::max(most, std::abs(x[i]));
    const double scale = rounded(GC_KV_F16, most / 127);
    for (std::int64_t i = first; i < end; ++i) {
      const double q = scale == 0 ? 0 : std::nearbyint(x[i] / scale);
      x[i] = scale * std::clamp(q, -127.0, 127.0);
    }
  }
}

std::vector<double> attn_reference(const AttnSpec& spec, const AttnWeights& weights, const float* x,
                                   std::int64_t tokens) {
  const std::int64_t columns = (spec.heads + spec.kv_heads) * spec.k_dim + spec.kv_heads * spec.v_dim;
  const float* k_part = x + spec.heads * spec.k_dim;
  const float* v_part = k_part + spec.kv_heads * spec.k_dim;
  const std::int64_t row = spec.heads * spec.v_dim + (spec.sums ? spec.heads : 0);
  std::vector<double> y(tokens * row);
  for (std::int64_t kv = 0; kv < spec.kv_heads; ++kv) {
    std::vector<std::vector<double>> keys, values;
    for (std::int64_t p = 0; p < tokens; ++p) {
      if (spec.every > 0 && (p + 1) % spec.every != 0) continue;
      keys.push_back(
          head(spec, k_part + p * columns + kv * spec.k_dim, weights.k_norm, weights.rope_base, p));
      kv_round(spec.kv_type, keys.back().data(), spec.k_dim);
      const float* v = v_part + p * columns + kv * spec.v_dim;
      values.emplace_back(v, v + spec.v_dim);
      kv_round(spec.kv_type, values.back().data(), spec.v_dim);
    }
    for (std::int64_t t = 0; t < tokens; ++t) {
      const std::int64_t lo = spec.window > 0 ? std::max<std::int64_t>(0, t - spec.window + 1) : 0;
      const std::int64_t reach = spec.window > 0 ? t + spec.window - 1 : tokens;
      const std::int64_t there = spec.every > 0 ? (t + 1) / spec.every - 1 : t;
      const std::int64_t last = spec.ahead ? std::min(tokens - 1, reach) : there;
      for (std::int64_t h = kv * spec.group(); h < (kv + 1) * spec.group(); ++h) {
        const auto q = head(spec, x + t * columns + h * spec.k_dim, weights.q_norm, weights.rope_base, t);
        std::vector<double> s;
        double m = weights.sinks ? weights.sinks[h] : -std::numeric_limits<double>::infinity();
        for (std::int64_t p = lo; p <= last; ++p) {
          double dot = 0;
          for (std::int64_t i = 0; i < spec.k_dim; ++i) dot += q[i] * keys[p][i];
          dot *= spec.scale;
          if (spec.cap != 0) dot = spec.cap * std::tanh(dot / spec.cap);
          if (spec.alibi != 0)
            dot -= ir::alibi_slope(spec.alibi, h, spec.heads) * std::abs(static_cast<double>(t - p));
          if (spec.buckets > 0)
            dot += weights.bias[ir::distance_bucket(p - t, spec.buckets, spec.ahead) * spec.heads + h];
          s.push_back(dot);
          m = std::max(m, dot);
        }
        double l = weights.sinks ? std::exp(weights.sinks[h] - m) : 0;
        for (double& v : s) l += v = std::exp(v - m);
        double* out = &y[t * row + h * spec.v_dim];
        if (spec.sums) y[t * row + spec.heads * spec.v_dim + h] = last < lo ? kNoSum : m + std::log(l);
        for (std::int64_t p = lo; p <= last; ++p) {
          for (std::int64_t i = 0; i < spec.v_dim; ++i) out[i] += s[p - lo] / l * values[p][i];
        }
      }
    }
  }
  return y;
}

}  // namespace gc::cpu
