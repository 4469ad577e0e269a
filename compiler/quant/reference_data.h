// What testdata/make_reference.py does: its random bytes and its lines of text.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/quant/float16.h"
#include "compiler/quant/formats.h"

namespace gc {

inline std::vector<std::uint8_t> random_bytes(std::size_t n, std::uint64_t seed) {
  std::vector<std::uint8_t> out(n + 8);
  for (std::size_t i = 0; i < n; i += 8) {
    seed += 0x9E3779B97F4A7C15;
    std::uint64_t z = seed;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    z ^= z >> 31;
    std::memcpy(&out[i], &z, 8);
  }
  out.resize(n);
  return out;
}

// A scale of 0.1 at the front of a row of a format that has one.
inline void put_head(Format format, std::uint8_t* row) {
  const std::uint16_t half = f16_of_f32(0.1f);
  const float single = 0.1f;
  if (info(format).head == RowHead::kF16) std::memcpy(row, &half, 2);
  if (info(format).head == RowHead::kF32) std::memcpy(row, &single, 4);
}

inline std::uint32_t canonical_bits(float v) {
  return std::isnan(v) ? 0x7fc00000 : std::bit_cast<std::uint32_t>(v);
}

// Name, hash of all values, bits of the first.
inline std::string reference_line(std::string_view name, std::span<const float> values) {
  std::uint64_t hash = 0xCBF29CE484222325;
  char text[32];
  std::string first;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t bits = canonical_bits(values[i]);
    for (int shift = 0; shift < 32; shift += 8) hash = (hash ^ (bits >> shift & 255)) * 0x100000001B3;
    std::snprintf(text, sizeof text, " %08x", bits);
    if (i < 8) first += text;
  }
  std::snprintf(text, sizeof text, " %016llx", static_cast<unsigned long long>(hash));
  return std::string(name) + text + first;
}

}  // namespace gc
