// Rows of the two-level RoPE tables that the compiler computes and packs as f32[n, dims/2, 2] weights.
//
// fine[p] holds the angles of positions 0..n-1, coarse[c] those of positions c * n; the angle of any position is the
// sum, so its (cos, sin) is the complex product fine[p % n] * coarse[p / n]. Two tables of 1024 rows reach 2^20
// positions in 2 MiB (dims 256), where one flat table would need 1 GiB; the product's error is below 2 f32 ulp.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

namespace gc {

// (cos, sin) of position * scale * base^(-2i/dims) / factors[i] for i < dims/2; factors may be empty (all 1).
inline void rope_row(double base, double scale, std::int64_t dims, std::span<const float> factors,
                     std::int64_t position, float* out) {
  for (std::int64_t i = 0; i < dims / 2; i++) {
    double angle = static_cast<double>(position) * scale *
                   std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(dims));
    if (!factors.empty()) angle /= factors[i];
    out[2 * i] = static_cast<float>(std::cos(angle));
    out[2 * i + 1] = static_cast<float>(std::sin(angle));
  }
}

}  // namespace gc
