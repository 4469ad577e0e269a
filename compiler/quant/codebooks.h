// Grids of the codebook formats. An entry packs the codes of 8 values (IQ1, IQ2: 2 bits each) or 4 values (IQ3: 3 bits
// each), first value lowest; the arrays of values turn a code into the magnitude (IQ1: the value) that the format
// multiplies. Kept as codes, 9 KiB in all: decoders for a machine unpack them into the form that it likes.
#pragma once

#include <cstdint>

namespace gc {

extern const std::uint16_t kGridIq2Xxs[256];
extern const std::uint16_t kGridIq2Xs[512];
extern const std::uint16_t kGridIq2S[1024];
extern const std::uint16_t kGridIq3Xxs[256];
extern const std::uint16_t kGridIq3S[512];
extern const std::uint16_t kGridIq1[2048];  // IQ1_S and IQ1_M

inline constexpr std::int8_t kIq2Values[4] = {8, 25, 43, 0};
inline constexpr std::int8_t kIq3XxsValues[8] = {4, 12, 20, 28, 36, 44, 52, 62};
inline constexpr std::int8_t kIq3SValues[8] = {1, 3, 5, 7, 9, 11, 13, 15};
inline constexpr std::int8_t kIq1Values[4] = {-1, 0, 1, 0};

// 8 sign bits (set: minus) of a 7-bit pattern of IQ2_XXS, IQ2_XS and IQ3_XXS: the top one makes their number even.
constexpr std::uint8_t iq_signs(std::uint32_t pattern) {
  const std::uint32_t low = pattern & 127;
  return static_cast<std::uint8_t>(low | (static_cast<std::uint32_t>(__builtin_popcount(low)) & 1) << 7);
}

}  // namespace gc
