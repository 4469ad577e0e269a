// The 16-bit block-quantized activation (element type q16 of the IR): what a matmul over block-quantized weights
// reads. 32 values along the last dimension share an f32 step d = max|x| / 32512.
//
// 32512 = 127 * 256: q splits into two int8 planes q = 256 * high + low with high in [-127, 127] once low is taken
// as signed (-128..127), so 8-bit dot products apply to both planes without saturating at 128. One int8 plane alone
// misses the promised KL by an order of magnitude; two are exact to 2^-16 of a block's largest value.
//
// This is the meaning; kernels hold the same q and d in layouts of their own and must agree bit for bit.
#pragma once

#include <cmath>
#include <cstdint>

namespace gc {

inline constexpr int kActBlock = 32;
inline constexpr float kActLimit = 32512.0f;

struct ActBlock32 {
  float d;  // value = d * q
  std::int16_t q[kActBlock];
};
static_assert(sizeof(ActBlock32) == 68);

// x: 32 finite values. Rounds to nearest, ties to even (the default rounding of the machine).
inline ActBlock32 quantize_block32(const float* x) {
  float amax = 0;
  for (int i = 0; i < kActBlock; i++) amax = std::fmax(amax, std::fabs(x[i]));
  ActBlock32 b;
  b.d = amax / kActLimit;
  // A largest value below 32512 / FLT_MAX has a factor that overflows: such a block is zero.
  float id = amax > 0 ? kActLimit / amax : 0;
  if (!std::isfinite(id)) id = b.d = 0;
  for (int i = 0; i < kActBlock; i++) b.q[i] = static_cast<std::int16_t>(std::nearbyint(x[i] * id));
  return b;
}

}  // namespace gc
