#include "compiler/pack/random_matrix.h"

#include <cstddef>
#include <cstring>
#include <random>

#include "compiler/base/error.h"
#include "compiler/pack/pack.h"
#include "compiler/quant/blocks.h"
#include "compiler/quant/float16.h"
#include "compiler/quant/layouts.h"

namespace gc::pack {
namespace {

// Offsets of the f16 fields of a block, -1: none.
struct F16Fields {
  std::ptrdiff_t first, second;
};

F16Fields f16_fields(Format format) {
  switch (format) {
    case Format::Q4_0:
      return {offsetof(BlockQ4_0, d), -1};
    case Format::Q5_0:
      return {offsetof(BlockQ5_0, d), -1};
    case Format::Q8_0:
      return {offsetof(BlockQ8_0, d), -1};
    case Format::IQ4_NL:
      return {offsetof(BlockIQ4_NL, d), -1};
    case Format::IQ4_XS:
      return {offsetof(BlockIQ4_XS, d), -1};
    case Format::TQ1_0:
      return {offsetof(BlockTQ1_0, d), -1};
    case Format::TQ2_0:
      return {offsetof(BlockTQ2_0, d), -1};
    case Format::Q1_0:
      return {offsetof(BlockQ1_0, d), -1};
    case Format::Q2_0:
      return {offsetof(BlockQ2_0, d), -1};
    case Format::Q3_K:
      return {offsetof(BlockQ3_K, d), -1};
    case Format::IQ1_S:
      return {offsetof(BlockIQ1_S, d), -1};
    case Format::IQ2_XXS:
      return {offsetof(BlockIQ2_XXS, d), -1};
    case Format::IQ2_XS:
      return {offsetof(BlockIQ2_XS, d), -1};
    case Format::IQ2_S:
      return {offsetof(BlockIQ2_S, d), -1};
    case Format::IQ3_XXS:
      return {offsetof(BlockIQ3_XXS, d), -1};
    case Format::IQ3_S:
      return {offsetof(BlockIQ3_S, d), -1};
    case Format::Q6_0:
      return {offsetof(BlockQ6_0, d), -1};
    case Format::IQ2_K:
      return {offsetof(BlockIQ2_K, d), -1};
    case Format::IQ3_K:
      return {offsetof(BlockIQ3_K, d), -1};
    case Format::IQ4_K:
      return {offsetof(BlockIQ4_K, d), -1};
    case Format::IQ5_K:
      return {offsetof(BlockIQ5_K, d), -1};
    case Format::IQ6_K:
      return {offsetof(BlockIQ6_K, d), -1};
    case Format::IQ1_BN:  // in front of the row
    case Format::IQ2_BN:
    case Format::IQ2_KS:
    case Format::IQ3_KS:
    case Format::IQ4_KS:
    case Format::IQ4_KSS:
    case Format::IQ5_KS:
    case Format::IQ2_KL:
    case Format::IQ1_KT:
    case Format::IQ2_KT:
    case Format::IQ3_KT:
    case Format::IQ4_KT:
    case Format::IQ1_S_R4:
    case Format::IQ1_M_R4:
    case Format::IQ1_M:  // spread over its scales
    case Format::MXFP4:
    case Format::NVFP4:  // any bits are a scale
      return {-1, -1};
    case Format::Q2_K:
      return {offsetof(BlockQ2_K, d), offsetof(BlockQ2_K, dmin)};
    case Format::Q4_1:
      return {offsetof(BlockQ4_1, d), offsetof(BlockQ4_1, m)};
    case Format::Q5_1:
      return {offsetof(BlockQ5_1, d), offsetof(BlockQ5_1, m)};
    case Format::Q4_K:
      return {offsetof(BlockQ4_K, d), offsetof(BlockQ4_K, dmin)};
    case Format::Q5_K:
      return {offsetof(BlockQ5_K, d), offsetof(BlockQ5_K, dmin)};
    case Format::Q6_K:
      return {offsetof(BlockQ6_K, d), -1};
    default:
      throw_internal("random blocks of ", name(format));
  }
}

}  // namespace

std::vector<std::uint8_t> random_matrix(Format format, std::int64_t rows, std::int64_t cols,
                                        std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto uniform = [&](float limit) { return (static_cast<float>(random()) * 0x1p-31f - 1.0f) * limit; };
  std::vector<std::uint8_t> raw(static_cast<std::size_t>(row_bytes(format, cols) * rows));
  if (info(format).kind == FormatKind::kFloat) {
    for (std::int64_t i = 0; i < rows * cols; ++i) {
      const float value = uniform(2);
      const std::uint16_t half = format == Format::F16 ? f16_of_f32(value) : bf16_of_f32(value);
      if (format == Format::F32) {
        std::memcpy(&raw[i * 4], &value, 4);
      } else if (format == Format::F64) {
        const double wide = value / 3.0;  // needs rounding
        std::memcpy(&raw[i * 8], &wide, 8);
      } else {
        std::memcpy(&raw[i * 2], &half, 2);
      }
    }
    return raw;
  }
  for (std::size_t i = 0; i < raw.size(); ++i) raw[i] = static_cast<std::uint8_t>(random());
  const auto scale = [&] {
    return static_cast<std::uint16_t>((random() & 0x83ff) | (8 + random() % 8) << 10);
  };
  const auto head = static_cast<std::size_t>(head_bytes(format));
  const auto row = static_cast<std::size_t>(row_bytes(format, cols));
  for (std::size_t at = 0; head != 0 && at < raw.size(); at += row) {
    const std::uint16_t half = scale();
    const float single = f32_of_f16(scale()) / 3;  // fills the mantissa
    if (head == 2) {
      std::memcpy(&raw[at], &half, 2);
    } else {
      std::memcpy(&raw[at], &single, 4);
    }
  }
  const F16Fields fields = f16_fields(format);
  for (std::size_t at = 0; head == 0 && at < raw.size();
       at += static_cast<std::size_t>(info(format).block_bytes)) {
    for (std::ptrdiff_t field : {fields.first, fields.second}) {
      if (field < 0) continue;
      const std::uint16_t bits = scale();
      std::memcpy(&raw[at + static_cast<std::size_t>(field)], &bits, 2);
    }
    if (format == Format::MXFP4) raw[at] = static_cast<std::uint8_t>(120 + random() % 16);
    if (format == Format::IQ1_M) {  // exponents of 8 to 11
      std::uint8_t& top = raw[at + sizeof(BlockIQ1_M) - 1];
      top = static_cast<std::uint8_t>((top & 0x8f) | 0x20);
    }
  }
  return raw;
}

std::vector<std::uint8_t> packed(Format format, std::int64_t rows, std::int64_t cols,
                                 const std::vector<std::uint8_t>& raw) {
  std::vector<std::uint8_t> out;
  out.reserve(static_cast<std::size_t>(packed_bytes(format, rows, cols)));
  const std::int64_t row = row_bytes(format, cols);
  pack_matrix(
      format, rows, cols,
      [&](std::int64_t first, std::int64_t count) {
        return std::span(raw.data() + first * row, static_cast<std::size_t>(count * row));
      },
      [&](std::span<const std::uint8_t> panels) { out.insert(out.end(), panels.begin(), panels.end()); });
  return out;
}

}  // namespace gc::pack
