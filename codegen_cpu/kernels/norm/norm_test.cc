#include "codegen_cpu/kernels/norm/norm.h"

#include <gtest/gtest.h>

#include "codegen_cpu/kernels/testing.h"

namespace gc::cpu {
namespace {

using testing::Buffer;
using testing::error;
using testing::fill_random;
using testing::Kernels;

using RmsNorm = void(const float* x, std::int64_t xs, const float* w, void* y, std::int64_t ys,
                     std::int64_t rows);
using LayerNorm = void(const float* x, std::int64_t xs, const float* w, const float* b, void* y,
                       std::int64_t ys, std::int64_t rows);
using ResidualNorm = void(const float* x0, std::int64_t x0s, const float* x1, std::int64_t x1s,
                          const float* post, const float* pre, float* y0, std::int64_t y0s, void* y1,
                          std::int64_t y1s, std::int64_t rows);

constexpr std::int64_t kShapes[] = {1, 7, 16, 31, 64, 80, 128, 320, 576, 640, 1152, 2560};
constexpr std::int64_t kRows = 5;

std::vector<double> rms_reference(const double* x, const float* w, std::int64_t n, double eps) {
  double squares = 0;
  for (std::int64_t i = 0; i < n; ++i) squares += x[i] * x[i];
  const double r = 1 / std::sqrt(squares / static_cast<double>(n) + eps);
  std::vector<double> y(n);
  for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] * r * (w ? w[i] : 1);
  return y;
}

std::vector<double> widened(const float* x, std::int64_t n) { return std::vector<double>(x, x + n); }

TEST(RmsNorm, AgreesWithDoubleAndRowsStandAlone) {
  for (std::int64_t n : kShapes) {
    std::unique_ptr<Buffer<float>> first;
    for (const Isa* isa : host_isas()) {
      for (bool weight : {true, false}) {
        Kernels k(*isa);
        const std::string name = k.name(rms_norm(k.e(), {n, weight, 1e-6f}));
        const std::int64_t stride = n + 3;
        Buffer<float> x(kRows * stride), w(n), y(kRows * stride), alone(stride);
        fill_random(x, 1);
        fill_random(w, 2);
        auto* f = k.get<RmsNorm>(name);
        f(x.data(), stride * 4, w.data(), y.data(), stride * 4, kRows);
        for (std::int64_t t = 0; t < kRows; ++t) {
          const auto r =
              rms_reference(widened(&x[t * stride], n).data(), weight ? w.data() : nullptr, n, 1e-6);
          EXPECT_LT(error(&y[t * stride], r.data(), n), 2e-6) << isa->name << " " << n;
          f(&x[t * stride], 0, w.data(), alone.data(), 0, 1);
          EXPECT_EQ(std::memcmp(alone.data(), &y[t * stride], n * 4), 0);
        }
        if (!weight) continue;
        if (first) EXPECT_TRUE(*first == y) << isa->name << " " << n << ": other bits than the first ISA";
        if (!first) {
          first = std::make_unique<Buffer<float>>(y.size());
          std::memcpy(first->data(), y.data(), y.size() * 4);
        }
      }
    }
  }
}

TEST(RmsNorm, QuantizedOutputIsTheQuantizedRow) {
  for (std::int64_t n : {32, 64, 320, 640}) {
    for (const Isa* isa : host_isas()) {
      Kernels k(*isa);
      const std::string plain = k.name(rms_norm(k.e(), {n, true, 1e-6f}));
      const std::string joined = k.name(rms_norm(k.e(), {n, true, 1e-6f, ir::Elem::Q16}));
      const std::string quantizer = k.name(quantize(k.e(), n));
      Buffer<float> x(n), w(n), y(n);
      fill_random(x, 3);
      fill_random(w, 4);
      const std::int64_t bytes = act_row_bytes(n);
      Buffer<std::uint8_t> q(bytes), r(bytes);
      k.get<RmsNorm>(joined)(x.data(), 0, w.data(), q.data(), 0, 1);
      k.get<RmsNorm>(plain)(x.data(), 0, w.data(), y.data(), 0, 1);
      k.get<testing::Quantize>(quantizer)(y.data(), 0, r.data(), 0, 1);
      EXPECT_TRUE(q == r) << isa->name << " " << n;
    }
  }
}

TEST(LayerNorm, AgreesWithDouble) {
  for (std::int64_t n : kShapes) {
    if (n == 1) continue;  // nothing is left of a single value
    for (const Isa* isa : host_isas()) {
      for (int parts = 0; parts < 4; ++parts) {
        const bool weight = parts & 1, bias = parts & 2;
        Kernels k(*isa);
        const std::string name = k.name(layer_norm(k.e(), {n, weight, bias, 1e-5f}));
        Buffer<float> x(kRows * n), w(n), b(n), y(kRows * n);
        fill_random(x, 1);
        fill_random(w, 2);
        fill_random(b, 3);
        for (float& v : x) v += 3;
        k.get<LayerNorm>(name)(x.data(), n * 4, w.data(), b.data(), y.data(), n * 4, kRows);
        for (std::int64_t t = 0; t < kRows; ++t) {
          std::vector<double> r = widened(&x[t * n], n);
          double mean = 0, variance = 0;
          for (double v : r) mean += v / static_cast<double>(n);
          for (double v : r) variance += (v - mean) * (v - mean) / static_cast<double>(n);
          for (std::int64_t i = 0; i < n; ++i) {
            r[i] = (r[i] - mean) / std::sqrt(variance + 1e-5) * (weight ? w[i] : 1) + (bias ? b[i] : 0);
          }
          EXPECT_LT(error(&y[t * n], r.data(), n), 4e-6) << isa->name << " " << n;
        }
      }
    }
  }
}

TEST(ResidualNorm, AgreesWithDoubleInPlaceToo) {
  for (std::int64_t n : kShapes) {
    for (const Isa* isa : host_isas()) {
      for (int parts = 0; parts < 4; ++parts) {
        const bool post = parts & 1, pre = parts & 2;
        Kernels k(*isa);
        const std::string name = k.name(residual_norm(k.e(), {n, post, pre, 1e-6f}));
        Buffer<float> x0(kRows * n), x1(kRows * n), post_w(n), pre_w(n), y0(kRows * n), y1(kRows * n),
            z1(kRows * n);
        fill_random(x0, 1, 5);
        fill_random(x1, 2);
        fill_random(post_w, 3);
        fill_random(pre_w, 4);
        auto* f = k.get<ResidualNorm>(name);
        const std::int64_t s = n * 4;
        f(x0.data(), s, x1.data(), s, post_w.data(), pre_w.data(), y0.data(), s, y1.data(), s, kRows);
        for (std::int64_t t = 0; t < kRows; ++t) {
          std::vector<double> delta = widened(&x1[t * n], n);
          if (post) delta = rms_reference(delta.data(), post_w.data(), n, 1e-6);
          for (std::int64_t i = 0; i < n; ++i) delta[i] += x0[t * n + i];
          const auto r = rms_reference(delta.data(), pre ? pre_w.data() : nullptr, n, 1e-6);
          EXPECT_LT(error(&y0[t * n], delta.data(), n), 2e-6) << isa->name << " " << n;
          EXPECT_LT(error(&y1[t * n], r.data(), n), 4e-6) << isa->name << " " << n;
        }
        f(x0.data(), s, x1.data(), s, post_w.data(), pre_w.data(), x0.data(), s, z1.data(), s, kRows);
        EXPECT_TRUE(x0 == y0);
        EXPECT_TRUE(z1 == y1);
      }
    }
  }
}

}  // namespace
}  // namespace gc::cpu
