// Conversions between f32 and the two 16-bit float types, in plain integer arithmetic: exact when widening, to
// nearest with ties to even when narrowing, NaN kept (quiet, with its sign). And from the 8-bit floats that scales are
// kept in. They are the meaning that fast code is compared with.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace gc {

inline float f32_of_bf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

inline std::uint16_t bf16_of_f32(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline float f32_of_f16(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16;
  const std::uint32_t exponent = bits >> 10 & 0x1f;
  const std::uint32_t fraction = bits & 0x3ff;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24, exact in f32
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  if (exponent == 31) {
    const std::uint32_t quiet = fraction != 0 ? 0x400000u : 0u;
    return std::bit_cast<float>(sign | 0x7f800000 | quiet | fraction << 13);
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

inline std::uint16_t f16_of_f32(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  const std::uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<std::uint16_t>(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
  if (magnitude >= 0x477ff000)
    return static_cast<std::uint16_t>(sign | 0x7c00);  // >= 65520 rounds to infinity
  std::uint32_t fraction = (magnitude & 0x7fffff) | 0x800000;
  const int exponent = static_cast<int>(magnitude >> 23) - 112;  // biased as f16
  const int shift = exponent > 0 ? 13 : 14 - exponent;           // subnormals lose more bits
  if (shift > 24) return sign;                                   // below half of the smallest subnormal
  const std::uint32_t rest = fraction & ((1u << shift) - 1);
  const std::uint32_t half = 1u << (shift - 1);
  fraction >>= shift;
  fraction += rest > half || (rest == half && (fraction & 1)) ? 1 : 0;
  // The implicit bit adds one to the exponent, and a carry out of the fraction does so rightly too.
  const std::uint32_t base = exponent > 0 ? static_cast<std::uint32_t>(exponent - 1) << 10 : 0;
  return static_cast<std::uint16_t>(sign | (base + fraction));
}

// 2^(e - 128); the two smallest are subnormal.
inline float half_of_e8m0(std::uint8_t e) {
  return std::bit_cast<float>(e < 2 ? 0x200000u << e : static_cast<std::uint32_t>(e - 1) << 23);
}

// Half of an unsigned e4m3 number with bias 7; 0x7f stands for NaN and counts as 0.
inline float half_of_ue4m3(std::uint8_t bits) {
  if (bits == 0x7f) return 0.0f;
  const int exponent = bits >> 3 & 15;
  const float fraction = static_cast<float>(bits & 7);
  return exponent == 0 ? std::ldexp(fraction, -10) : std::ldexp(1.0f + fraction / 8, exponent - 8);
}

}  // namespace gc
