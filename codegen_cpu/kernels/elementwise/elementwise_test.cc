#include "codegen_cpu/kernels/elementwise/elementwise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "codegen_cpu/kernels/testing.h"
#include "runtime/abi/program.h"

namespace gc::cpu {
namespace {

using testing::Buffer;
using testing::Kernels;
using Unary = void(const float* x, std::int64_t xs, float* y, std::int64_t ys, std::int64_t rows);
using Binary = void(const float* x0, std::int64_t x0s, const float* x1, std::int64_t x1s, float* y,
                    std::int64_t ys, std::int64_t rows);
using Bias = void(const float* x, std::int64_t xs, const float* w, float* y, std::int64_t ys,
                  std::int64_t rows);
using Temper = void(const gc_row* rows, const float* x, std::int64_t xs, float* y, std::int64_t ys,
                    std::int64_t n);
using Select = void(const float* x, std::int64_t xs, const std::uint32_t* outputs, float* y, std::int64_t ys,
                    std::int64_t n);

constexpr std::int64_t kRows = 4;

TEST(Elementwise, EveryOpOverTailsAndStrides) {
  for (std::int64_t n : {1, 15, 16, 40, 256}) {
    for (const Isa* isa : host_isas()) {
      Kernels k(*isa);
      const std::string act_name = k.name(act(k.e(), ir::Fn::relu2, n));
      const std::string cap_name = k.name(softcap(k.e(), 30, n));
      const std::string scale_name = k.name(scale(k.e(), 0.25f, n));
      const std::string clamp_name = k.name(clamp(k.e(), 7, n));
      const std::string above_name = k.name(clamp_above(k.e(), 7, n));
      const std::string add_name = k.name(add(k.e(), n));
      const std::string mul_name = k.name(mul(k.e(), n));
      const std::string bias_name = k.name(bias(k.e(), n));
      const std::int64_t stride = n + 5;
      Buffer<float> x(kRows * stride), z(kRows * stride), y(kRows * stride), w(n);
      testing::fill_random(x, 1, 20);
      testing::fill_random(z, 2);
      testing::fill_random(w, 3);
      auto expect = [&](auto reference) {
        for (std::int64_t t = 0; t < kRows; ++t) {
          for (std::int64_t i = 0; i < n; ++i) {
            const double r = reference(t * stride + i, i);
            ASSERT_NEAR(y[t * stride + i], r, 1e-6 * std::abs(r)) << isa->name << " " << n;
          }
        }
      };
      const std::int64_t s = stride * 4;
      k.get<Unary>(act_name)(x.data(), s, y.data(), s, kRows);
      expect([&](std::int64_t at, std::int64_t) { return x[at] > 0 ? double(x[at]) * x[at] : 0; });
      k.get<Unary>(cap_name)(x.data(), s, y.data(), s, kRows);
      expect([&](std::int64_t at, std::int64_t) { return 30 * std::tanh(double(x[at]) / 30); });
      k.get<Unary>(scale_name)(x.data(), s, y.data(), s, kRows);
      expect([&](std::int64_t at, std::int64_t) { return 0.25 * x[at]; });
      k.get<Unary>(clamp_name)(x.data(), s, y.data(), s, kRows);
      expect([&](std::int64_t at, std::int64_t) { return std::clamp(x[at], -7.0f, 7.0f); });
      k.get<Unary>(above_name)(x.data(), s, y.data(), s, kRows);
      expect([&](std::int64_t at, std::int64_t) { return std::min(x[at], 7.0f); });
      k.get<Binary>(add_name)(x.data(), s, z.data(), s, y.data(), s, kRows);
      expect([&](std::int64_t at, std::int64_t) { return x[at] + z[at]; });
      k.get<Binary>(mul_name)(x.data(), s, z.data(), s, y.data(), s, kRows);
      expect([&](std::int64_t at, std::int64_t) { return x[at] * z[at]; });
      k.get<Bias>(bias_name)(x.data(), s, w.data(), y.data(), s, kRows);
      expect([&](std::int64_t at, std::int64_t i) { return x[at] + w[i]; });
      std::memcpy(y.data(), x.data(), x.size() * 4);
      k.get<Bias>(bias_name)(y.data(), s, w.data(), y.data(), s, kRows);
      expect([&](std::int64_t at, std::int64_t i) { return x[at] + w[i]; });
    }
  }
}

TEST(Weigh, OneWeightForSomeNeighbours) {
  const std::int64_t n = 60;
  for (const Isa* isa : host_isas()) {
    for (std::int64_t weights : {60, 20, 3, 1}) {
      for (bool inverse : {false, true}) {
        Kernels k(*isa);
        const std::string name = k.name(weigh(k.e(), {n, weights, inverse}));
        Buffer<float> x(kRows * n), w(weights), y(kRows * n);
        testing::fill_random(x, 1);
        testing::fill_random(w, 2);
        k.get<Bias>(name)(x.data(), n * 4, w.data(), y.data(), n * 4, kRows);
        for (std::int64_t i = 0; i < kRows * n; ++i) {
          const double by = w[i % n / (n / weights)], r = inverse ? x[i] / by : x[i] * by;
          ASSERT_NEAR(y[i], r, 1e-6 * std::abs(r)) << isa->name << " " << weights;
        }
      }
    }
  }
}

TEST(MulHeads, OneFactorForAHead) {
  const std::int64_t heads = 3, d = 20;
  for (const Isa* isa : host_isas()) {
    Kernels k(*isa);
    const std::string name = k.name(mul_heads(k.e(), heads, d));
    Buffer<float> x(kRows * heads * d), by(kRows * heads), y(kRows * heads * d);
    testing::fill_random(x, 1);
    testing::fill_random(by, 2);
    k.get<Binary>(name)(x.data(), heads * d * 4, by.data(), heads * 4, y.data(), heads * d * 4, kRows);
    for (std::int64_t i = 0; i < kRows * heads * d; ++i) ASSERT_EQ(y[i], x[i] * by[i / d]) << isa->name;
  }
}

TEST(ConcatHeads, OperandsHaveAsManyHeadsOrOne) {
  const std::int64_t heads = 3, a = 20, b = 9;
  for (const Isa* isa : host_isas()) {
    for (std::int64_t of_first : {heads, std::int64_t{1}}) {
      for (std::int64_t of_second : {heads, std::int64_t{1}}) {
        Kernels k(*isa);
        const std::string name = k.name(concat_heads(k.e(), {heads, of_first, a, of_second, b}));
        Buffer<float> x(kRows * of_first * a), z(kRows * of_second * b), y(kRows * heads * (a + b));
        testing::fill_random(x, 1);
        testing::fill_random(z, 2);
        k.get<Binary>(name)(x.data(), of_first * a * 4, z.data(), of_second * b * 4, y.data(),
                            heads * (a + b) * 4, kRows);
        for (std::int64_t i = 0; i < kRows * heads * (a + b); ++i) {
          const std::int64_t head = i / (a + b), at = i % (a + b), row = head / heads;
          const std::int64_t first = of_first == 1 ? row : head, second = of_second == 1 ? row : head;
          ASSERT_EQ(y[i], at < a ? x[first * a + at] : z[second * b + at - a]) << isa->name;
        }
      }
    }
  }
}

TEST(Temper, GrowsWithThePosition) {
  const std::int64_t n = 24;
  const std::int32_t positions[kRows] = {0, 8190, 8191, 1 << 20};
  for (const Isa* isa : host_isas()) {
    Kernels k(*isa);
    const std::string name = k.name(temper(k.e(), {0.1f, 8192, 1, n}));
    Buffer<float> x(kRows * n), y(kRows * n);
    testing::fill_random(x, 1);
    std::vector<gc_row> rows;
    for (std::int32_t pos : positions) rows.push_back({.token = 0, .pos = pos, .seq = 0});
    k.get<Temper>(name)(rows.data(), x.data(), n * 4, y.data(), n * 4, kRows);
    for (std::int64_t i = 0; i < kRows * n; ++i) {
      const double r = x[i] * (1 + 0.1 * std::log(1 + double((positions[i / n] + 1) / 8192)));
      ASSERT_NEAR(y[i], r, 1e-6 * std::abs(r)) << isa->name;
    }
  }
}

TEST(Select, CopiesTheRowsAskedFor) {
  for (const Isa* isa : host_isas()) {
    Kernels k(*isa);
    const std::int64_t n = 40;
    const std::string name = k.name(select(k.e(), n));
    Buffer<float> x(kRows * n), y(3 * n);
    testing::fill_random(x, 1);
    const std::uint32_t outputs[] = {0, 2, 3};
    k.get<Select>(name)(x.data(), n * 4, outputs, y.data(), n * 4, 3);
    for (int r = 0; r < 3; ++r) EXPECT_EQ(std::memcmp(&y[r * n], &x[outputs[r] * n], n * 4), 0);
  }
}

}  // namespace
}  // namespace gc::cpu
