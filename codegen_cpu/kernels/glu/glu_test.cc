#include "codegen_cpu/kernels/glu/glu.h"

#include <gtest/gtest.h>

#include "codegen_cpu/kernels/testing.h"

namespace gc::cpu {
namespace {

using testing::Buffer;
using testing::Kernels;
using Glu = void(const float* gate, std::int64_t gs, const float* up, std::int64_t us, void* y,
                 std::int64_t ys, std::int64_t rows);

double gelu(double x) { return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
double silu(double x) { return x / (1 + std::exp(-x)); }

TEST(Glu, AgreesWithDouble) {
  for (std::int64_t n : {1, 16, 33, 96, 640, 2048}) {
    for (const Isa* isa : host_isas()) {
      for (ir::Fn fn : {ir::Fn::gelu_tanh, ir::Fn::silu}) {
        Kernels k(*isa);
        const std::string name = k.name(glu(k.e(), {fn, n}));
        constexpr std::int64_t kRows = 3;
        Buffer<float> g(kRows * n), u(kRows * n), y(kRows * n);
        testing::fill_random(g, 1, 2);
        testing::fill_random(u, 2);
        k.get<Glu>(name)(g.data(), n * 4, u.data(), n * 4, y.data(), n * 4, kRows);
        std::vector<double> r(kRows * n);
        for (std::size_t i = 0; i < r.size(); ++i)
          r[i] = (fn == ir::Fn::silu ? silu(g[i]) : gelu(g[i])) * u[i];
        EXPECT_LT(testing::error(y.data(), r.data(), r.size()), 2e-6) << isa->name << " " << n;
      }
    }
  }
}

TEST(Glu, QuantizedOutputIsTheQuantizedRow) {
  for (std::int64_t n : {32, 2048}) {
    for (const Isa* isa : host_isas()) {
      Kernels k(*isa);
      const std::string plain = k.name(glu(k.e(), {ir::Fn::gelu_tanh, n}));
      const std::string joined = k.name(glu(k.e(), {ir::Fn::gelu_tanh, n, ir::Elem::Q16}));
      const std::string quantizer = k.name(quantize(k.e(), n));
      Buffer<float> g(n), u(n), y(n);
      testing::fill_random(g, 3);
      testing::fill_random(u, 4);
      Buffer<std::uint8_t> q(act_row_bytes(n)), r(act_row_bytes(n));
      k.get<Glu>(joined)(g.data(), 0, u.data(), 0, q.data(), 0, 1);
      k.get<Glu>(plain)(g.data(), 0, u.data(), 0, y.data(), 0, 1);
      k.get<testing::Quantize>(quantizer)(y.data(), 0, r.data(), 0, 1);
      EXPECT_TRUE(q == r) << isa->name << " " << n;
    }
  }
}

}  // namespace
}  // namespace gc::cpu
