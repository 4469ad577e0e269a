#include "compiler/quant/activation.h"

#include <gtest/gtest.h>

#include <cfloat>
#include <random>

#include "compiler/quant/rope_table.h"

namespace gc {
namespace {

TEST(ActBlock32, IsWithinHalfAStep) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (float size : {1e-30f, 1e-3f, 1.0f, 1e6f, 1e30f}) {
    float x[kActBlock];
    for (float& v : x) v = size * normal(random);
    ActBlock32 b = quantize_block32(x);
    int largest = 0;
    for (int i = 0; i < kActBlock; i++) {
      EXPECT_LE(std::fabs(x[i] - b.d * float(b.q[i])), 0.501f * b.d);
      largest = std::max(largest, std::abs(b.q[i]));
    }
    EXPECT_EQ(largest, 32512);
  }
}

TEST(ActBlock32, TiesGoToEven) {
  float x[kActBlock] = {32512, 0.5f, 1.5f, -0.5f, -2.5f};
  ActBlock32 b = quantize_block32(x);
  EXPECT_EQ(b.d, 1);
  EXPECT_EQ(b.q[1], 0);
  EXPECT_EQ(b.q[2], 2);
  EXPECT_EQ(b.q[3], 0);
  EXPECT_EQ(b.q[4], -2);
}

TEST(ActBlock32, SplitsIntoTwoPlanes) {
  float x[kActBlock] = {32512, -32512, 127, 128, -128, -129};
  ActBlock32 b = quantize_block32(x);
  for (int16_t q : b.q) {
    int high = (q + 128) >> 8, low = q - 256 * high;
    EXPECT_LE(std::abs(high), 127);
    EXPECT_GE(low, -128);
    EXPECT_LE(low, 127);
  }
}

TEST(ActBlock32, ZeroAndTinyBlocksAreZero) {
  float x[kActBlock] = {};
  EXPECT_EQ(quantize_block32(x).d, 0);
  x[3] = FLT_TRUE_MIN;
  ActBlock32 b = quantize_block32(x);
  EXPECT_EQ(b.d, 0);
  EXPECT_EQ(b.q[3], 0);
}

TEST(RopeRow, TwoLevelsMultiplyToTheAngle) {
  const float factors[] = {1, 2, 4, 8};
  for (int64_t position : {0, 1, 1023, 1024, 131071, 1048575}) {
    float whole[8], fine[8], coarse[8];
    rope_row(500000, 0.125, 8, factors, position, whole);
    rope_row(500000, 0.125, 8, factors, position % 1024, fine);
    rope_row(500000, 0.125, 8, factors, position / 1024 * 1024, coarse);
    for (int i = 0; i < 8; i += 2) {
      EXPECT_NEAR(fine[i] * coarse[i] - fine[i + 1] * coarse[i + 1], whole[i], 3e-7);
      EXPECT_NEAR(fine[i] * coarse[i + 1] + fine[i + 1] * coarse[i], whole[i + 1], 3e-7);
    }
  }
}

}  // namespace
}  // namespace gc
