// The shim itself: barriers, shuffles, the order of threads, shared memory; and that what is wrong shows.
#include "codegen_cuda/shim/shim.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "runtime/abi/cuda_step.h"
//
#include "codegen_cuda/device/base.cuh"
#include "codegen_cuda/device/mma.cuh"

extern "C" void gc_shim_launch(void* kernel, const unsigned* grid, const gc::device::Step* step,
                               const gc::device::At* at, std::uint64_t seed);

namespace gc::device {
namespace {

void launch(void (*kernel)(Step, At), Step& step, unsigned x = 1, std::uint64_t seed = 1, unsigned y = 1) {
  const unsigned grid[3] = {x, y, 1};
  const At at{};
  gc_shim_launch(reinterpret_cast<void*>(kernel), grid, &step, &at, seed);
}

void sum_kernel(Step s, At) {
  __shared__ float sums[kWarps];
  const float sum = block_sum(float(threadIdx.x + blockIdx.x), sums);
  s.logits[blockIdx.x * kThreads + threadIdx.x] = sum;
}

TEST(Shim, BlockSum) {
  std::vector<float> y(3 * kThreads);
  Step step{};
  step.logits = y.data();
  for (std::uint64_t seed = 1; seed < 20; seed++) {
    launch(sum_kernel, step, 3, seed);
    for (int i = 0; i < 3 * kThreads; i++) EXPECT_EQ(y[i], 127 * 64 + i / kThreads * kThreads);
  }
}

void shuffle_kernel(Step s, At) {
  int x = int(threadIdx.x);
  for (int i = 1; i < 32; i *= 2) x = x * 3 + __shfl_xor_sync(0xffffffffu, x, i);
  s.logits[threadIdx.x] = float(x % 1000);
}

TEST(Shim, ShufflesOfWarps) {
  std::vector<float> y(kThreads);
  std::vector<int> x(kThreads), next(kThreads);
  for (int i = 0; i < kThreads; i++) x[i] = i;
  for (int j = 1; j < 32; j *= 2, x = next)
    for (int i = 0; i < kThreads; i++) next[i] = x[i] * 3 + x[i ^ j];
  Step step{};
  step.logits = y.data();
  launch(shuffle_kernel, step, 1, 7);
  for (int i = 0; i < kThreads; i++) EXPECT_EQ(y[i], float(x[i] % 1000));
}

// Reads what other threads write, without a barrier between.
void racing_kernel(Step s, At) {
  __shared__ float x[kThreads];
  x[threadIdx.x] = float(threadIdx.x);
  s.logits[threadIdx.x] = x[kThreads - 1 - threadIdx.x];
}
void sound_kernel(Step s, At) {
  __shared__ float x[kThreads];
  x[threadIdx.x] = float(threadIdx.x);
  __syncthreads();
  s.logits[threadIdx.x] = x[kThreads - 1 - threadIdx.x];
}

TEST(Shim, AMissingBarrierShows) {
  std::vector<float> y(kThreads);
  Step step{};
  step.logits = y.data();
  int unset = 0;
  std::set<std::vector<bool>> patterns;  // which of them were too early
  for (std::uint64_t seed = 1; seed <= 8; seed++) {
    launch(racing_kernel, step, 1, seed);
    std::vector<bool> early;
    for (const float v : y) early.push_back(std::isnan(v));  // shared memory begins as NaN
    for (const bool e : early) unset += e;
    patterns.insert(early);
    launch(sound_kernel, step, 1, seed);
    for (int i = 0; i < kThreads; i++) EXPECT_EQ(y[i], kThreads - 1 - i);
  }
  EXPECT_GT(unset, 8 * kThreads / 4);
  EXPECT_GT(patterns.size(), 2u);  // the seed decides who is first
}

void count_kernel(Step s, At) {
  if (threadIdx.x != 0) return;
  const int n = int(s.logits[0]);
  s.logits[n + 1] = float(blockIdx.x + 4 * blockIdx.y);
  s.logits[0] = float(n + 1);
}

TEST(Shim, BlocksOfAGridOnceEachInDrawnOrders) {
  std::set<std::vector<float>> orders;
  for (std::uint64_t seed = 1; seed <= 5; seed++) {
    std::vector<float> y(13);
    Step step{};
    step.logits = y.data();
    launch(count_kernel, step, 4, seed, 3);
    EXPECT_EQ(y[0], 12);
    EXPECT_EQ(std::set<float>(y.begin() + 1, y.end()).size(), 12u);
    orders.insert(y);
  }
  EXPECT_GT(orders.size(), 1u);
}

void lost_kernel(Step, At) {
  if (threadIdx.x == 5) return;
  __syncthreads();
}
void lost_lane_kernel(Step, At) {
  if (threadIdx.x == 37) return;
  __syncwarp();
}

TEST(ShimDeathTest, WhoMissesABarrierIsAFault) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  Step step{};
  EXPECT_DEATH(launch(lost_kernel, step), "wait for one that doesn't come");
  EXPECT_DEATH(launch(lost_lane_kernel, step), "wait for one that doesn't come");
}

TEST(Instructions, ScalarBodies) {
  EXPECT_EQ(dot4_u8_s8(0xff010203u, 0x80ff7f01u, 10), 10 + 3 * 1 + 2 * 127 - 1 - 255 * 128);
  EXPECT_EQ(permute_bytes(0x33221100u, 0x77665544u, 0x7160u), 0x77116600u);
  EXPECT_EQ(f32_of_f16(0x3c00), 1.0f);
  EXPECT_EQ(f32_of_f16(0x0001), std::ldexp(1.0f, -24));
  EXPECT_EQ(f16_of_f32(65520.0f), 0x7c00);
  EXPECT_EQ(f16_of_f32(1 + 0x1p-11f), 0x3c00);  // a tie goes to even
  EXPECT_EQ(f16_of_f32(1 + 3 * 0x1p-11f), 0x3c02);
  EXPECT_EQ(bf16_of_f32(1 + 0x1p-8f), 0x3f80);
  EXPECT_EQ(bf16_of_f32(1 + 3 * 0x1p-8f), 0x3f82);
}

// Matrices of an mma by row and column; k of B and A as wide as the kernel takes.
u8 matrix_a[16][32];
i8 matrix_b[32][8];

// Element i of a lane's fragment is byte i % 4 of word i / 4; where it lies in the matrix is PTX's text, which numbers
// elements, not words.
template <int kWidth>
void mma_kernel(Step s, At) {
  const int group = lane() >> 2, in_group = lane() % 4;
  u32 a[kWidth / 8] = {}, b[kWidth / 16] = {};
  for (int i = 0; i < kWidth / 2; i++) {
    const bool upper = kWidth == 16 ? i < 4 : i < 4 || (i >= 8 && i < 12);
    const int row = upper ? group : group + 8, column = in_group * 4 + (i & 3) + (i < 8 ? 0 : 16);
    a[i / 4] |= u32(matrix_a[row][column]) << (i % 4 * 8);
  }
  for (int i = 0; i < kWidth / 4; i++)
    b[i / 4] |= u32(u8(matrix_b[in_group * 4 + (i & 3) + (i < 4 ? 0 : 16)][group])) << (i % 4 * 8);
  int d[4] = {1, 2, 3, 4};
  for (int times = 0; times < 3; times++) mma_u8_s8(d, a, b);
  float* out = s.logits + warp() * 128;
  for (int i = 0; i < 4; i++)
    out[(i < 2 ? group : group + 8) * 8 + in_group * 2 + (i & 1)] = float(d[i] - i - 1);
}

TEST(Mma, IsThePlainLoop) {
  u32 random = 7;
  const auto draw = [&] { return (random = random * 1664525u + 1013904223u) >> 24; };
  for (auto& row : matrix_a)
    for (u8& x : row) x = u8(draw());
  for (auto& row : matrix_b)
    for (i8& x : row) x = i8(draw());
  std::vector<float> y(kWarps * 128);
  Step step{};
  step.logits = y.data();
  for (const int width : {16, 32})
    for (std::uint64_t seed = 1; seed < 9; seed++) {
      launch(width == 16 ? mma_kernel<16> : mma_kernel<32>, step, 1, seed);
      for (int i = 0; i < kWarps * 128; i++) {
        int sum = 0;
        for (int k = 0; k < width; k++) sum += matrix_a[i % 128 / 8][k] * matrix_b[k][i % 8];
        EXPECT_EQ(y[i], float(3 * sum)) << "width " << width << ", place " << i;
      }
    }
}

}  // namespace
}  // namespace gc::device
