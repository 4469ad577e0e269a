#include "compiler/quant/reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "compiler/base/error.h"
#include "compiler/quant/blocks.h"
#include "compiler/quant/float16.h"
#include "compiler/quant/reference_data.h"

namespace gc {
namespace {

constexpr int kBlocks = 256;

std::string line_of(Format format) {
  const FormatInfo& f = info(format);
  const auto n = static_cast<std::size_t>(f.block_values * kBlocks);
  const auto row = static_cast<std::int64_t>(n);
  // At an odd address: files promise no alignment.
  std::vector<std::uint8_t> raw = random_bytes(static_cast<std::size_t>(row_bytes(format, row)), f.gguf_id);
  put_head(format, raw.data());
  raw.insert(raw.begin(), 0);
  std::vector<float> values(n);
  dequantize_row(format, raw.data() + 1, values.data(), row);
  return reference_line(f.name, values);
}

TEST(Reference, EqualsThePublicDecodersBitForBit) {
  std::ifstream in("compiler/quant/testdata/reference.txt");
  ASSERT_TRUE(in.good());
  std::string line;
  std::size_t rows = 0, expected = 1;  // F64 is checked below
  while (std::getline(in, line)) {
    if (line.starts_with('#')) continue;
    const std::optional<Format> format = format_of_name(line.substr(0, line.find(' ')));
    ASSERT_TRUE(format.has_value()) << line;
    EXPECT_EQ(line_of(*format), line);
    ++expected;
  }
  for (const FormatInfo& f : all_formats()) {
    // Of interleaved.txt's are those that exist in no other form.
    const bool plain = f.format != Format::IQ1_S_R4 && f.format != Format::IQ1_M_R4;
    rows += has_reference(f.format) && plain ? 1 : 0;
  }
  EXPECT_EQ(rows, expected) << "a format has a decoder and no line in reference.txt";
}

std::vector<std::uint8_t> bytes_of_hex(const std::string& text) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<std::uint8_t>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

// Rows that ik_llama.cpp quantized and the values that it decodes from them.
TEST(Reference, RowsOfIkLlamaCpp) {
  std::ifstream in("compiler/quant/testdata/ik_rows.txt");
  ASSERT_TRUE(in.good());
  std::string line, type, hex;
  int rows = 0;
  while (std::getline(in, line)) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    words >> type >> hex;
    const std::optional<Format> format = format_of_name(type);
    ASSERT_TRUE(format.has_value()) << line;
    std::vector<std::uint8_t> raw = bytes_of_hex(hex);
    std::vector<float> values(512);
    ASSERT_EQ(static_cast<std::int64_t>(raw.size()), row_bytes(*format, 512)) << type;
    if (*format == Format::IQ1_BN || *format == Format::IQ2_BN) {
      // It decodes blocks from the row's first byte on, as if no scale stood there: the same with one of 1.
      const float one = 1;
      const std::uint16_t half_one = f16_of_f32(one);
      const auto head = static_cast<std::size_t>(head_bytes(*format));
      raw.insert(raw.begin(), head, 0);
      std::memcpy(raw.data(), head == 2 ? static_cast<const void*>(&half_one) : &one, head);
    }
    dequantize_row(*format, raw.data(), values.data(), 512);
    // Of IQ6_K it decodes a curve through the integers that it multiplies by, 0.7 off at most.
    const float scale = *format == Format::IQ6_K ? 128 * f32_of_f16(raw[0] | raw[1] << 8) : 0;
    for (int i = 0; i < 512; i += 8) {
      float want;
      words >> want;
      EXPECT_NEAR(values[i], want, std::abs(0.7f * scale)) << type << " value " << i;
    }
    ++rows;
  }
  EXPECT_EQ(rows, 36);
}

TEST(Reference, F64RoundsToF32) {
  const double in[] = {1.0, 1e300, -0.1, 0x1.000001p0};
  float out[4];
  dequantize_row(Format::F64, in, out, 4);
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_EQ(out[1], INFINITY);
  EXPECT_EQ(out[2], -0.1f);
  EXPECT_EQ(out[3], 1.0f);
}

TEST(Reference, NumbersOfRowsAreF32) {
  const std::int32_t numbers[2] = {-3, 1 << 24};
  float out[2];
  dequantize_row(Format::I32, numbers, out, 2);
  EXPECT_EQ(out[0], -3);
  EXPECT_EQ(out[1], 0x1p24f);
}

TEST(Reference, RefusesPartsOfBlocksAndIntegers) {
  const BlockQ4_0 block{};
  float out[32];
  EXPECT_THROW(dequantize_row(Format::Q4_0, &block, out, 31), InternalError);
  EXPECT_THROW(dequantize_row(Format::I64, &block, out, 1), InternalError);
  EXPECT_FALSE(has_reference(Format::I8));
}

TEST(Formats, TableAndLookups) {
  EXPECT_EQ(all_formats().size(), 55u);
  for (const FormatInfo& f : all_formats()) {
    EXPECT_EQ(info(f.format).name, f.name);
    EXPECT_EQ(format_of_gguf_id(f.gguf_id), f.format);
    EXPECT_EQ(format_of_name(f.name), f.format);
    EXPECT_EQ(format_of_name(f.text_name), f.format);
    EXPECT_TRUE(f.scale_values == 0 || f.block_values % f.scale_values == 0);
  }
  EXPECT_EQ(info(Format::IQ2_XXS).text_name, "iq2_xxs");
  for (std::uint32_t gone : {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u, 43u, 255u})
    EXPECT_FALSE(format_of_gguf_id(gone));
  EXPECT_FALSE(format_of_name("q4_k_m"));
}

TEST(Formats, SizesNeverWrap) {
  EXPECT_EQ(row_bytes(Format::Q4_K, 1024), 576);
  EXPECT_EQ(tensor_bytes(Format::Q8_0, 640, 262144), 178257920);
  EXPECT_FALSE(tensor_bytes(Format::Q4_K, 640, 1));
  EXPECT_FALSE(tensor_bytes(Format::F32, std::int64_t{1} << 62, 1));
  EXPECT_FALSE(tensor_bytes(Format::F32, std::int64_t{1} << 40, std::int64_t{1} << 40));
  EXPECT_FALSE(tensor_bytes(Format::F32, -4, 1));
  EXPECT_THROW(row_bytes(Format::Q4_K, 100), InternalError);
  EXPECT_EQ(bits_per_value(Format::Q6_K), 6.5625);
}

#ifdef __FLT16_MANT_DIG__
// The compiler's own conversions are exact and to nearest-even.
TEST(Float16, EqualsTheCompilersConversions) {
  for (std::uint32_t h = 0; h < 0x10000; ++h) {
    const auto bits = static_cast<std::uint16_t>(h);
    const float wide = f32_of_f16(bits);
    const float expected = static_cast<float>(std::bit_cast<_Float16>(bits));
    ASSERT_EQ(std::bit_cast<std::uint32_t>(wide), std::bit_cast<std::uint32_t>(expected)) << h;
    // A signalling NaN comes back quiet.
    ASSERT_EQ(f16_of_f32(wide), std::isnan(wide) ? bits | 0x200 : bits) << h;
  }
  for (std::uint64_t i = 0; i < 0x100000000; i += 4093) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(i));
    if (std::isnan(value)) continue;
    ASSERT_EQ(f16_of_f32(value), std::bit_cast<std::uint16_t>(static_cast<_Float16>(value))) << i;
  }
}
#endif

TEST(Float16, RoundsTiesToEven) {
  EXPECT_EQ(f16_of_f32(1.0f + 0x1p-11f), 0x3c00);
  EXPECT_EQ(f16_of_f32(1.0f + 0x3p-11f), 0x3c02);
  EXPECT_EQ(f16_of_f32(65519.99f), 0x7bff);
  EXPECT_EQ(f16_of_f32(65520.0f), 0x7c00);
  EXPECT_EQ(f16_of_f32(0x1p-25f), 0x0000);
  EXPECT_EQ(f16_of_f32(0x1.8p-25f), 0x0001);
  EXPECT_EQ(f16_of_f32(-0x1p-24f), 0x8001);
  EXPECT_EQ(bf16_of_f32(1.0f + 0x1p-8f), 0x3f80);
  EXPECT_EQ(bf16_of_f32(1.0f + 0x3p-8f), 0x3f82);
  EXPECT_EQ(bf16_of_f32(3.4e38f), 0x7f80);
  EXPECT_EQ(bf16_of_f32(-INFINITY), 0xff80);
  EXPECT_EQ(bf16_of_f32(NAN) & 0x7fc0, 0x7fc0);
  EXPECT_EQ(bf16_of_f32(std::bit_cast<float>(0x7f800001)), 0x7fc0);
  EXPECT_EQ(f32_of_bf16(0x4049), 3.140625f);
}

}  // namespace
}  // namespace gc
