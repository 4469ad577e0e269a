#include "compiler/quant/finite.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "compiler/quant/reference.h"

namespace gc {
namespace {

// Decoding is what tells: random rows, among whose bytes factors of all kinds occur.
TEST(Finite, AsTheDecoderFindsIt) {
  constexpr int kRows = 500;
  std::mt19937 random(1);
  for (const FormatInfo& f : all_formats()) {
    if (!has_reference(f.format)) continue;
    const std::int64_t cols = f.block_values * 2;
    int bad = 0;
    for (int i = 0; i < kRows; ++i) {
      std::vector<std::uint8_t> row(static_cast<std::size_t>(row_bytes(f.format, cols)));
      for (std::uint8_t& byte : row) byte = std::uint8_t(random() % 8 == 0 ? 0x7f : random());
      std::vector<float> values(static_cast<std::size_t>(cols));
      dequantize_row(f.format, row.data(), values.data(), cols);
      bool finite = true;
      for (const float v : values) finite = finite && std::isfinite(v);
      const bool found = first_row_not_finite(f.format, cols, row).has_value();
      // An infinite factor times a zero is NaN, so a decoder sees all that is found but for values past f32's range
      // (heads in f32 and e8m0 have it), and formats whose NaN counts as 0.
      if (found) ASSERT_FALSE(finite && f.format != Format::MXFP4 && f.format != Format::F64) << f.name;
      const bool wide = f.head == RowHead::kF32 || f.format == Format::MXFP4 || f.format == Format::Q8_K ||
                        f.format == Format::F64;
      if (!finite && !wide) ASSERT_TRUE(found) << f.name;
      bad += found ? 1 : 0;
    }
    if (f.format != Format::NVFP4) EXPECT_GT(bad, 0) << f.name;
    EXPECT_LT(bad, kRows) << f.name;
  }
}

TEST(Finite, NamesTheRow) {
  std::vector<float> values(64, 1.0f);
  std::vector<std::uint8_t> bytes(256);
  std::memcpy(bytes.data(), values.data(), 256);
  EXPECT_EQ(first_row_not_finite(Format::F32, 16, bytes), std::nullopt);
  values[40] = -INFINITY;
  std::memcpy(bytes.data(), values.data(), 256);
  EXPECT_EQ(first_row_not_finite(Format::F32, 16, bytes), 2);
}

}  // namespace
}  // namespace gc
