#include "codegen_cpu/kernels/streams/streams.h"

#include <gtest/gtest.h>

#include <cmath>

#include "codegen_cpu/kernels/testing.h"
#include "compiler/ir/row_math.h"

namespace gc::cpu {
namespace {

using testing::Buffer;
using testing::Kernels;
using Unary = void(const float* x, std::int64_t xs, float* y, std::int64_t ys, std::int64_t rows);
using Binary = void(const float* x0, std::int64_t x0s, const float* x1, std::int64_t x1s, float* y,
                    std::int64_t ys, std::int64_t rows);

constexpr std::int64_t kRows = 3;

// Rows of x0, x1 and y, random; the kernel's y against the reference's, row by row.
template <class Reference>
void check(const Isa& isa, const std::function<llvm::Function*(Emitter&)>& make, std::int64_t n0,
           std::int64_t n1, std::int64_t ny, Reference reference) {
  Kernels k(isa);
  const std::string name = k.name(make(k.e()));
  Buffer<float> x0(kRows * n0), x1(kRows * n1), y(kRows * ny), want(kRows * ny);
  testing::fill_random(x0, 1);
  testing::fill_random(x1, 2);
  k.get<Binary>(name)(x0.data(), 4 * n0, x1.data(), 4 * n1, y.data(), 4 * ny, kRows);
  for (std::int64_t t = 0; t < kRows; ++t) reference(&x0[t * n0], &x1[t * n1], &want[t * ny]);
  EXPECT_LT(testing::error(y.data(), want.data(), y.size()), 2e-6) << isa.name << " " << name;
}

TEST(Streams, AsTheInterpreterHasThem) {
  for (const Isa* isa : host_isas()) {
    for (std::int64_t n : {20, 64, 200}) {
      for (auto [from, to, plus] : {std::tuple{4, 4, 0.0f}, {1, 4, 1.0f}, {3, 2, 0.0f}}) {
        check(
            *isa, [&](Emitter& e) { return mix(e, {from, to, n, plus}); }, from * n, from * to, to * n,
            [&](const float* x, const float* by, float* y) { ir::mix_row(x, by, plus, from, to, n, y); });
      }
      check(
          *isa, [&](Emitter& e) { return rescale(e, 3, n); }, n, 3 * n, 3 * n,
          [&](const float* like, const float* x, float* y) {
            for (std::int64_t h = 0; h < 3; ++h) ir::rescale_row(like, x + h * n, n, y + h * n);
          });
      check(
          *isa, [&](Emitter& e) { return dot_heads(e, 3, n); }, 3 * n, 3 * n, 3,
          [&](const float* x, const float* z, float* y) {
            for (std::int64_t h = 0; h < 3; ++h) {
              double sum = 0;
              for (std::int64_t i = h * n; i < (h + 1) * n; ++i) sum += double(x[i]) * z[i];
              y[h] = static_cast<float>(sum);
            }
          });
      check(
          *isa, [&](Emitter& e) { return add_heads(e, 4, n, 1); }, 4 * n, n, 4 * n,
          [&](const float* x, const float* z, float* y) {
            for (std::int64_t i = 0; i < 4 * n; ++i) y[i] = x[i] + (i < n ? 0 : z[i % n]);
          });
    }
  }
}

TEST(Sinkhorn, MakesRowsAndColumnsSumToOne) {
  for (const Isa* isa : host_isas()) {
    for (std::int64_t n : {2, 4, 16}) {
      Kernels k(*isa);
      const std::string name = k.name(sinkhorn(k.e(), n, 1e-6f, 20));
      Buffer<float> x(kRows * n * n), y(kRows * n * n), want(kRows * n * n);
      testing::fill_random(x, 4);
      k.get<Unary>(name)(x.data(), 4 * n * n, y.data(), 4 * n * n, kRows);
      for (std::int64_t t = 0; t < kRows; ++t)
        ir::sinkhorn_row(&x[t * n * n], n, 1e-6f, 20, &want[t * n * n]);
      EXPECT_LT(testing::error(y.data(), want.data(), y.size()), 2e-6) << isa->name << " " << n;
      float row = 0, column = 0;
      for (std::int64_t i = 0; i < n; ++i) row += y[i], column += y[i * n];
      EXPECT_NEAR(row, 1, 1e-3);
      EXPECT_NEAR(column, 1, 1e-3);
    }
  }
}

TEST(Sparsify, CutsByTheRowsOwnSpread) {
  for (const Isa* isa : host_isas()) {
    for (std::int64_t n : {20, 64, 200}) {
      Kernels k(*isa);
      const std::string name = k.name(sparsify(k.e(), n, 0.5f));
      Buffer<float> x(kRows * n), y(kRows * n), want(kRows * n);
      testing::fill_random(x, 3);
      k.get<Unary>(name)(x.data(), 4 * n, y.data(), 4 * n, kRows);
      for (std::int64_t t = 0; t < kRows; ++t) ir::sparsify_row(&x[t * n], 0.5, n, &want[t * n]);
      EXPECT_LT(testing::error(y.data(), want.data(), y.size()), 2e-6) << isa->name;
    }
  }
}

}  // namespace
}  // namespace gc::cpu
