#include "codegen_cpu/kernels/rope/rope.h"

#include <gtest/gtest.h>

#include "codegen_cpu/kernels/testing.h"
#include "runtime/abi/program.h"

namespace gc::cpu {
namespace {

using testing::Buffer;
using testing::Kernels;
using Rope = void(const gc_row* rows, const float* x, std::int64_t xs, const float* fine, const float* coarse,
                  float* y, std::int64_t ys, std::int64_t n_rows);

double frequency(std::int64_t i, std::int64_t dims) {
  return std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(dims));
}

void fill_table(Buffer<float>& table, std::int64_t n, std::int64_t step, std::int64_t dims) {
  for (std::int64_t p = 0; p < n; ++p) {
    for (std::int64_t i = 0; i < dims / 2; ++i) {
      const double angle = static_cast<double>(p * step) * frequency(i, dims);
      table[(p * dims / 2 + i) * 2] = static_cast<float>(std::cos(angle));
      table[(p * dims / 2 + i) * 2 + 1] = static_cast<float>(std::sin(angle));
    }
  }
}

TEST(Rope, AgreesWithDoubleAtAnyPosition) {
  struct Shape {
    std::int64_t dim, dims;
  };
  for (const Shape& shape :
       {Shape{64, 64}, {256, 256}, {80, 80}, {20, 20}, {64, 32}, {96, 24}, {40, 2}, {32, 0}}) {
    for (bool neox : {true, false}) {
      for (const Isa* isa : host_isas()) {
        constexpr std::int64_t kFine = 64, kCoarse = 64, kHeads = 3;
        Kernels k(*isa);
        const std::string name = k.name(rope(k.e(), {kHeads, shape.dim, {shape.dims, neox, kFine}}));
        Buffer<float> fine(kFine * shape.dims), coarse(kCoarse * shape.dims);
        fill_table(fine, kFine, 1, shape.dims);
        fill_table(coarse, kCoarse, kFine, shape.dims);
        const std::vector<int> positions = {0, 1, 63, 64, 1000, 4095};
        std::vector<gc_row> rows(positions.size());
        for (std::size_t t = 0; t < rows.size(); ++t) rows[t].pos = positions[t];
        const std::int64_t n = kHeads * shape.dim;
        Buffer<float> x(rows.size() * n), y(rows.size() * n);
        testing::fill_random(x, 1);
        k.get<Rope>(name)(rows.data(), x.data(), n * 4, fine.data(), coarse.data(), y.data(), n * 4,
                          static_cast<std::int64_t>(rows.size()));
        std::vector<double> r(x.begin(), x.end());
        for (std::size_t t = 0; t < rows.size(); ++t) {
          for (std::int64_t h = 0; h < kHeads; ++h) {
            for (std::int64_t i = 0; i < shape.dims / 2; ++i) {
              const std::int64_t at = static_cast<std::int64_t>(t) * n + h * shape.dim;
              const std::int64_t p = at + (neox ? i : 2 * i),
                                 q = at + (neox ? i + shape.dims / 2 : 2 * i + 1);
              const double angle = positions[t] * frequency(i, shape.dims);
              r[p] = x[p] * std::cos(angle) - x[q] * std::sin(angle);
              r[q] = x[q] * std::cos(angle) + x[p] * std::sin(angle);
            }
          }
        }
        EXPECT_LT(testing::error(y.data(), r.data(), r.size()), 2e-6)
            << isa->name << " " << shape.dims << neox;
      }
    }
  }
}

// The inverse of the angles of `back` positions before, none before the first.
TEST(Rope, TurnsBackByEarlierPositions) {
  constexpr std::int64_t kDims = 32, kDim = 40, kFine = 64, kCoarse = 4, kBack = 3;
  Buffer<float> fine(kFine * kDims), coarse(kCoarse * kDims);
  fill_table(fine, kFine, 1, kDims);
  fill_table(coarse, kCoarse, kFine, kDims);
  const std::vector<int> positions = {0, 2, 3, 64, 200};
  std::vector<gc_row> rows(positions.size());
  for (std::size_t t = 0; t < rows.size(); ++t) rows[t].pos = positions[t];
  const auto n = static_cast<std::int64_t>(rows.size());
  for (bool neox : {true, false})
    for (const Isa* isa : host_isas()) {
      Kernels k(*isa);
      const RopeKernelSpec spec = {1, kDim, {kDims, neox, kFine}, kBack};
      RopeKernelSpec inverse = spec;
      inverse.rope.inverse = true;
      const std::string there = k.name(rope(k.e(), spec)), back = k.name(rope(k.e(), inverse));
      Buffer<float> x(rows.size() * kDim), turned(rows.size() * kDim), y(rows.size() * kDim);
      testing::fill_random(x, 1);
      k.get<Rope>(there)(rows.data(), x.data(), kDim * 4, fine.data(), coarse.data(), turned.data(), kDim * 4,
                         n);
      k.get<Rope>(back)(rows.data(), turned.data(), kDim * 4, fine.data(), coarse.data(), y.data(), kDim * 4,
                        n);
      std::vector<double> r(x.begin(), x.end());
      EXPECT_LT(testing::error(y.data(), r.data(), r.size()), 2e-6) << isa->name << neox;
      for (std::size_t t = 0; t < rows.size(); ++t) {
        const double angle = std::max(0, positions[t] - 3);
        const float *from = &x[t * kDim], *to = &turned[t * kDim];
        const std::int64_t second = neox ? kDims / 2 : 1;
        EXPECT_NEAR(to[0], from[0] * std::cos(angle) - from[second] * std::sin(angle), 1e-5)
            << isa->name << t;
      }
    }
}

}  // namespace
}  // namespace gc::cpu
