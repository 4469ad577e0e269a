#include "compiler/pack/pack.h"

#include <cmath>
#include <cstring>

#include "compiler/base/error.h"
#include "compiler/pack/random_matrix.h"
#include "compiler/quant/layouts.h"
#include "compiler/quant/reference.h"
#include "gtest/gtest.h"

namespace gc::pack {
namespace {

class EveryLayout : public testing::TestWithParam<Layout> {};

std::vector<std::int64_t> columns(const Layout& l) {
  if (l.is_float()) return {1, 2, 31, 32, 63, 64, 65, 640};
  if (info(l.format).block_values == 256) return {256, 512, 2560};
  if (info(l.format).block_values > 32) return {128, 256, 384, 640, 1152};
  return {32, 64, 224, 256, 288, 640, 1152};
}

// pack, then read back: the values of the file's rows, bit for bit; padding rows are zero.
TEST_P(EveryLayout, ComesBackAsTheReferenceDecodes) {
  const Layout& l = GetParam();
  for (std::int64_t cols : columns(l)) {
    for (std::int64_t rows : {1, 15, 16, 17, 50}) {
      const auto raw = random_matrix(l.format, rows, cols, static_cast<std::uint32_t>(rows * 7 + cols));
      const auto image = packed(l.format, rows, cols, raw);
      ASSERT_EQ(static_cast<std::int64_t>(image.size()), packed_bytes(l.format, rows, cols));
      std::vector<float> want(cols), got(cols);
      for (std::int64_t r = 0; r < panels_of(rows) * kPanelRows; ++r) {
        unpack_row(l.format, cols, image.data() + r / kPanelRows * panel_bytes(l.format, cols),
                   r % kPanelRows, got.data());
        if (r < rows) {
          dequantize_row(l.format, raw.data() + r * row_bytes(l.format, cols), want.data(), cols);
          if (l.min_is_shift() || l.format == Format::IQ3_KT) {  // 0 and -0 are equal
            ASSERT_EQ(want, got) << "cols " << cols << " row " << r;
          } else {
            ASSERT_EQ(std::memcmp(want.data(), got.data(), cols * 4), 0) << "cols " << cols << " row " << r;
          }
        } else {
          for (float y : got) ASSERT_EQ(y, 0.0f);
        }
      }
    }
  }
}

// Bytes in the image for each of the file's. Types whose values are looked up or base-3 digits are stored as integers.
double packed_bound(Format format) {
  switch (format) {
    case Format::TQ1_0:
      return 1.26;
    case Format::IQ1_S:
      return 1.52;
    case Format::IQ1_M:
      return 2.08;
    case Format::IQ2_XXS:  // signs of 8 bits for 7, scales of 4 bits in bytes
      return 1.16;
    case Format::IQ2_XS:
      return 1.20;
    case Format::IQ2_S:
      return 1.42;
    case Format::IQ3_XXS:
      return 1.11;
    case Format::IQ3_S:
      return 1.28;
    case Format::IQ2_K:  // scales of 4 bits in bytes
      return 1.11;
    case Format::IQ2_KS:
    case Format::IQ4_KSS:
      return 1.10;
    case Format::IQ1_BN:
      return 1.38;
    case Format::IQ2_BN:
      return 1.13;
    case Format::IQ1_KT:  // indices of 13 bits in 16
      return 1.37;
    case Format::IQ2_KT:  // scales of 4 bits in bytes, factors repeated
      return 1.13;
    case Format::IQ3_KT:
      return 1.08;
    case Format::IQ4_KT:
      return 1.10;
    case Format::IQ1_S_R4:
      return 1.58;
    case Format::IQ1_M_R4:
      return 2.09;
    case Format::IQ2_KL:
      return 1.26;
    default:
      return 1.06;
  }
}

TEST_P(EveryLayout, AddsLittle) {
  const Layout& l = GetParam();
  const std::int64_t cols = info(l.format).block_values == 256 ? 2560 : 640;
  EXPECT_LE(static_cast<double>(packed_bytes(l.format, 1024, cols)),
            packed_bound(l.format) * static_cast<double>(*tensor_bytes(l.format, cols, 1024)));
  if (!l.is_float()) {
    EXPECT_EQ(panel_bytes(l.format, cols) % 64, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(, EveryLayout, testing::ValuesIn(all_layouts().begin(), all_layouts().end()),
                         [](const auto& param) { return std::string(name(param.param.format)); });

TEST(Pack, RefusesFormatsWithoutALayoutByName) {
  try {
    layout_for(Format::I32);
    FAIL();
  } catch (const UnsupportedError& error) {
    EXPECT_NE(std::string(error.what()).find("I32"), std::string::npos);
  }
}

TEST(Pack, StaysWithinAChunkOfMemory) {
  const std::int64_t rows = 20000, cols = 640;
  const auto raw = random_matrix(Format::Q5_0, rows, cols, 1);
  std::int64_t asked = 0, given = 0;
  pack_matrix(
      Format::Q5_0, rows, cols,
      [&](std::int64_t first, std::int64_t count) {
        EXPECT_EQ(first, asked);
        asked += count;
        const std::int64_t row = row_bytes(Format::Q5_0, cols);
        return std::span(raw.data() + first * row, static_cast<std::size_t>(count * row));
      },
      [&](std::span<const std::uint8_t> panels) {
        EXPECT_LE(panels.size(), 1u << 20);
        given += static_cast<std::int64_t>(panels.size());
      });
  EXPECT_EQ(asked, rows);
  EXPECT_EQ(given, packed_bytes(Format::Q5_0, rows, cols));
}

TEST(Pack, VectorsBecomeF32) {
  const float f[2] = {1.5f, -0x1p-20f};
  const std::uint16_t half[2] = {0x3e00, 0x8001}, brain[2] = {0x3fc0, 0xb580};
  const auto bytes = [](const auto& a) {
    return std::span(reinterpret_cast<const std::uint8_t*>(&a), sizeof a);
  };
  EXPECT_EQ(pack_vector(Format::F32, bytes(f), 2), (std::vector<float>{1.5f, -0x1p-20f}));
  EXPECT_EQ(pack_vector(Format::F16, bytes(half), 2), (std::vector<float>{1.5f, -0x1p-24f}));
  EXPECT_EQ(pack_vector(Format::BF16, bytes(brain), 2), (std::vector<float>{1.5f, -0x1p-20f}));
  const double wide[2] = {1.5, 0x1.0000018p0};  // rounded
  EXPECT_EQ(pack_vector(Format::F64, bytes(wide), 2), (std::vector<float>{1.5f, 0x1.000002p0f}));
  const std::int32_t numbers[2] = {7, 1 << 24};
  EXPECT_EQ(pack_vector(Format::I32, bytes(numbers), 2), (std::vector<float>{7, 0x1p24f}));
  EXPECT_THROW(pack_vector(Format::I64, bytes(numbers), 1), UnsupportedError);
}

TEST(Pack, RopeTablesJoinByComplexProduct) {
  const std::vector<float> factors = {1, 2, 4, 8};
  const RopeParams rope{.base = 10000, .scale = 0.125, .dims = 8};
  const auto fine = rope_table(rope, 64, 1, factors), coarse = rope_table(rope, 4, 64, factors);
  ASSERT_EQ(fine.size(), 64u * 4 * 2);
  for (int pos : {0, 1, 63, 64, 200}) {
    for (int i = 0; i < 4; ++i) {
      const double angle = pos * 0.125 * std::pow(10000.0, -2.0 * i / 8) / factors[i];
      const float *f = &fine[(pos % 64 * 4 + i) * 2], *c = &coarse[(pos / 64 * 4 + i) * 2];
      EXPECT_NEAR(f[0] * c[0] - f[1] * c[1], std::cos(angle), 2e-7);
      EXPECT_NEAR(f[1] * c[0] + f[0] * c[1], std::sin(angle), 2e-7);
    }
  }
}

}  // namespace
}  // namespace gc::pack
