// Bytes of a tensor of any of the eleven everyday types: random bits in every field, block scales of a sensible size,
// so that all codes of a format occur. Values have about the spread asked for; a quantizer is not needed to test code
// that reads quantized files.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "compiler/quant/float16.h"
#include "compiler/quant/formats.h"
#include "tests/support/gguf_writer.h"

namespace gc::testing {

// An f16 field of a block: value = size * (0.5 to 1). Sizes give values of a standard deviation near 0.06.
struct BlockScale {
  int offset;
  float size;
};

inline const std::vector<BlockScale>& block_scales(Format format) {
  static const std::map<Format, std::vector<BlockScale>> table = {
      {Format::Q4_0, {{0, 0.02f}}},
      {Format::Q4_1, {{0, 0.02f}, {2, -0.15f}}},
      {Format::Q5_0, {{0, 0.01f}}},
      {Format::Q5_1, {{0, 0.01f}, {2, -0.15f}}},
      {Format::Q8_0, {{0, 0.0012f}}},
      {Format::Q4_K, {{0, 0.0006f}, {2, 0.004f}}},
      {Format::Q5_K, {{0, 0.0003f}, {2, 0.004f}}},
      {Format::Q6_K, {{208, 0.0001f}}},
  };
  const auto at = table.find(format);
  if (at == table.end()) throw std::runtime_error("no random blocks of " + std::string(name(format)));
  return at->second;
}

// `rows` rows of `cols` values (whole blocks). Floats lie in (-spread, spread), block formats spread about as wide.
inline std::vector<uint8_t> random_tensor(Format format, int64_t rows, int64_t cols, float spread,
                                          uint64_t key) {
  const int64_t n = rows * cols;
  std::vector<uint8_t> bytes(static_cast<size_t>(*tensor_bytes(format, cols, rows)));
  if (info(format).kind == FormatKind::kFloat) {
    for (int64_t i = 0; i < n; ++i) {
      const float v = spread * test_value(key + uint64_t(i));
      const uint16_t half = format == Format::F16 ? f16_of_f32(v) : bf16_of_f32(v);
      if (format == Format::F32) std::memcpy(&bytes[i * 4], &v, 4);
      if (format == Format::F16 || format == Format::BF16) std::memcpy(&bytes[i * 2], &half, 2);
    }
    return bytes;
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = uint8_t(int(128 * (1 + test_value((key ^ 0xB17E5) + i))));
  }
  const size_t block = size_t(info(format).block_bytes);
  for (const BlockScale& scale : block_scales(format)) {
    for (size_t at = size_t(scale.offset); at < bytes.size(); at += block) {
      const float size = 0.75f + 0.25f * test_value((key ^ 0x5CA1E) + at);
      const uint16_t half = f16_of_f32(scale.size * size * spread * 10);
      std::memcpy(&bytes[at], &half, 2);
    }
  }
  return bytes;
}

}  // namespace gc::testing
