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
  const RopeParams rope{.base = 500000, .scale = 0.125, .dims = 8};
  for (int64_t position : {0, 1, 1023, 1024, 131071, 1048575}) {
    float whole[8], fine[8], coarse[8];
    rope_row(rope, factors, position, whole);
    rope_row(rope, factors, position % 1024, fine);
    rope_row(rope, factors, position / 1024 * 1024, coarse);
    for (int i = 0; i < 8; i += 2) {
      EXPECT_NEAR(fine[i] * coarse[i] - fine[i + 1] * coarse[i + 1], whole[i], 3e-7);
      EXPECT_NEAR(fine[i] * coarse[i + 1] + fine[i + 1] * coarse[i], whole[i + 1], 3e-7);
    }
  }
}

// YaRN: fast pairs keep their frequency, slow ones are stretched, those between go from one to the other.
TEST(RopeRow, RampAndMagnitude) {
  const RopeParams rope{.base = 10000, .scale = 0.25, .dims = 12, .low = 1, .high = 4, .magnitude = 1.5};
  const double multiples[] = {1, 1, 0.75, 0.5, 0.25, 0.25};
  float row[12];
  rope_row(rope, {}, 7, row);
  for (int i = 0; i < 6; i++) {
    const double angle = 7 * multiples[i] * std::pow(10000.0, -i / 6.0);
    EXPECT_NEAR(row[2 * i], 1.5 * std::cos(angle), 1e-6);
    EXPECT_NEAR(row[2 * i + 1], 1.5 * std::sin(angle), 1e-6);
  }
}

}  // namespace
}  // namespace gc
