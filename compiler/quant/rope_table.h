// Rows of the two-level RoPE tables that the compiler computes and packs as f32[n, dims/2, 2] weights.
//
// fine[p] holds the angles of positions 0..n-1, coarse[c] those of positions c * n; the angle of any position is the
// sum, so its (cos, sin) is the complex product fine[p % n] * coarse[p / n]. Two tables of 1024 rows reach 2^20
// positions in 2 MiB (dims 256), where one flat table would need 1 GiB; the product's error is below 2 f32 ulp.
//
// YaRN stretches slow pairs and leaves fast ones: pair i turns by its own multiple of the position, which goes from 1
// (i <= low) to `scale` (i >= high). That and a magnitude are all that a table has to know of it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

namespace gc {

struct RopeParams {
  double base = 10000, scale = 1;
  std::int64_t dims = 0;       // that turn; pairs are half as many
  double low = -1, high = -1;  // YaRN's ramp over pairs, -1: none
  double magnitude = 1;

  // Factor of pair i's position.
  double multiple(std::int64_t i) const {
    if (high < 0) return scale;
    const double ramp = (static_cast<double>(i) - low) / std::max(0.001, high - low);
    const double kept = 1 - std::clamp(ramp, 0.0, 1.0);
    return scale * (1 - kept) + kept;
  }
};

// (cos, sin) of position * multiple(i) * base^(-2i/dims) / factors[i] for i < dims/2, times the magnitude; factors may
// be empty (all 1).
inline void rope_row(const RopeParams& rope, std::span<const float> factors, std::int64_t position,
                     float* out) {
  for (std::int64_t i = 0; i < rope.dims / 2; i++) {
    double angle = static_cast<double>(position) * rope.multiple(i) *
                   std::pow(rope.base, -2.0 * static_cast<double>(i) / static_cast<double>(rope.dims));
    if (!factors.empty()) angle /= factors[i];
    out[2 * i] = static_cast<float>(rope.magnitude * std::cos(angle));
    out[2 * i + 1] = static_cast<float>(rope.magnitude * std::sin(angle));
  }
}

}  // namespace gc
