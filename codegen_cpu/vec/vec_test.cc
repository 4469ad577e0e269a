// Functions against libm in double, over the whole range, on every ISA of the host; all ISAs agree to the bit.
#include "codegen_cpu/vec/vec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "codegen_cpu/jit.h"
#include "codegen_cpu/vec/lut.h"
#include "codegen_cpu/vec/math.h"

namespace gc::cpu {
namespace {

using Map = void(const float* x, float* y, std::int64_t n);

std::vector<float> arguments(float limit) {
  std::vector<float> x;
  for (int i = -4000; i < 4000; ++i) x.push_back(limit * i / 4000);
  for (float s = 1e-30f; s < limit; s *= 1.7f) x.push_back(s), x.push_back(-s);
  while (x.size() % Vec::kLanes) x.push_back(0);
  return x;
}

// f over x on every ISA, which must agree.
std::vector<float> run(const std::vector<float>& x,
                       const std::function<llvm::Value*(Vec&, llvm::Value*)>& f) {
  std::vector<float> first;
  for (const Isa* isa : host_isas()) {
    llvm::LLVMContext context;
    Emitter e(context, *isa, "test");
    e.function("map", {in("x"), out("y"), i64("n")}, [&](const Args& a) {
      Vec v(e);
      e.for_range(e.i64(0), a["n"], Vec::kLanes, [&](llvm::Value* i) {
        v.store(f(v, v.load(e.at(a["x"], i, std::int64_t{4}))), e.at(a["y"], i, std::int64_t{4}));
      });
    });
    Jit jit(e);
    std::vector<float> y(x.size());
    jit.get<Map>("map")(x.data(), y.data(), static_cast<std::int64_t>(x.size()));
    if (first.empty()) first = y;
    EXPECT_EQ(std::memcmp(first.data(), y.data(), 4 * y.size()), 0) << isa->name;
  }
  return first;
}

double reference(ir::Fn fn, double x) {
  switch (fn) {
    case ir::Fn::gelu_tanh: {
      const double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
      return x / (1 + std::exp(-2 * u));
    }
    case ir::Fn::gelu_erf:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case ir::Fn::gelu_quick:
      return x / (1 + std::exp(-1.702 * x));
    case ir::Fn::silu:
      return x / (1 + std::exp(-x));
    case ir::Fn::relu:
      return x > 0 ? x : 0;
    case ir::Fn::relu2:
      return x > 0 ? x * x : 0;
    case ir::Fn::sigmoid:
      return 1 / (1 + std::exp(-x));
    case ir::Fn::tanh:
      return std::tanh(x);
    case ir::Fn::softplus:
      return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
    case ir::Fn::root_softplus:
      return std::sqrt(reference(ir::Fn::softplus, x));
    case ir::Fn::signed_root:
      return x == 0 ? 0 : std::copysign(std::sqrt(std::max(std::abs(x), 1e-6)), x);
    case ir::Fn::elu_excess: {
      if (x < -1) return std::expm1(x) - x;
      double sum = 0, term = 1;  // near 0 the difference would cancel
      for (int i = 1; i < 30; ++i) term *= x / i, sum += i > 1 ? term : 0;
      return x < 0 ? sum : 0;
    }
    case ir::Fn::exp:
      return std::exp(x);
  }
  return 0;
}

TEST(Math, ExpIsRoundedWell) {
  const std::vector<float> x = arguments(87.0f);
  const std::vector<float> y = run(x, exp);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double e = std::exp(static_cast<double>(x[i]));
    EXPECT_NEAR(y[i] / e, 1, 1.2e-7) << x[i];
  }
}

TEST(Math, ExpAtTheEnds) {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> x = {-inf, inf, NAN, -1e30f, 1e30f, -104.5f, -95.0f, -87.3f, 88.7f, 88.8f, 0.0f, -0.0f};
  x.resize(16);
  const std::vector<float> y = run(x, exp);
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[1], inf);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], 0);
  EXPECT_EQ(y[4], inf);
  EXPECT_EQ(y[5], 0);
  EXPECT_EQ(y[6], 0) << "below the normal range";
  EXPECT_NEAR(y[7] / std::exp(static_cast<double>(-87.3f)), 1, 1.2e-7);
  EXPECT_NEAR(y[8] / std::exp(static_cast<double>(88.7f)), 1, 1.2e-7);
  EXPECT_EQ(y[9], inf);
  EXPECT_EQ(y[10], 1);
  EXPECT_EQ(y[11], 1);
}

TEST(Math, ActivationsKeepTheirRelativeAccuracy) {
  for (int f = 0; f <= static_cast<int>(ir::Fn::elu_excess); ++f) {
    const auto fn = static_cast<ir::Fn>(f);
    const std::vector<float> x = arguments(12.0f);
    const std::vector<float> y = run(x, [&](Vec& v, llvm::Value* a) { return activation(v, fn, a); });
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double r = reference(fn, x[i]);
      if (std::abs(r) < 1e-36) {
        EXPECT_NEAR(y[i], r, 1e-36);
      } else {
        worst = std::max(worst, std::abs(y[i] / r - 1));
      }
    }
    // Far out the argument's own rounding is magnified by its size: exp(u) for |u| near 100.
    EXPECT_LT(worst, fn == ir::Fn::gelu_tanh                              ? 1.2e-5
                     : fn == ir::Fn::gelu_quick || fn == ir::Fn::gelu_erf ? 2e-6
                                                                          : 4e-7)
        << name(fn);
  }
}

TEST(Math, Log) {
  std::vector<float> x = arguments(60.0f);
  for (float& a : x) a = std::exp(a);
  const std::vector<float> y = run(x, log);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double r = std::log(static_cast<double>(x[i]));
    EXPECT_NEAR(y[i], r, 1.5e-7 * std::max(std::abs(r), 0.3)) << x[i];
  }
}

TEST(Math, Softcap) {
  const std::vector<float> x = arguments(300.0f);
  const std::vector<float> y = run(x, [](Vec& v, llvm::Value* a) { return softcap(v, 50, a); });
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double r = 50 * std::tanh(x[i] / 50.0);
    EXPECT_NEAR(y[i], r, 5e-7 * std::abs(r) + 1e-37);
  }
}

TEST(Vec, PartsAndHalves) {
  for (const Isa* isa : host_isas()) {
    for (int n : {1, 5, 16, 17, 31, 64, 79, 200}) {
      llvm::LLVMContext context;
      Emitter e(context, *isa, "test");
      for (bool bf16 : {false, true}) {
        e.function(bf16 ? "bf16" : "f16", {in("x"), out("h"), out("y"), out("sum")}, [&](const Args& a) {
          Vec v(e);
          v.over(n, [&](llvm::Value* i, int count) {
            llvm::Value* x = v.load(e.at(a["x"], i, std::int64_t{4}), count);
            llvm::Value* h = e.at(a["h"], i, std::int64_t{2});
            bf16 ? v.store_bf16(x, h, count) : v.store_f16(x, h, count);
            llvm::Value* back = bf16 ? v.load_bf16(h, count) : v.load_f16(h, count);
            v.store(back, e.at(a["y"], i, std::int64_t{4}), count);
          });
          llvm::Value* sum = v.running(
              n, v.zero(),
              [&](llvm::Value* i, int count, llvm::Value* acc) {
                return v.add(acc, v.load(e.at(a["x"], i, std::int64_t{4}), count));
              },
              [&](llvm::Value* p, llvm::Value* q) { return v.add(p, q); });
          e.store(v.reduce_add(sum), a["sum"], 4);
        });
      }
      Jit jit(e);
      for (const char* name : {"f16", "bf16"}) {
        std::vector<float> x(n), y(n + 1, -7);
        std::vector<std::uint16_t> h(n + 1, 0x1234);
        double total = 0;
        for (int i = 0; i < n; ++i) total += x[i] = std::sin(i + 1.0f) * 3;
        float sum;
        jit.get<void(const float*, std::uint16_t*, float*, float*)>(name)(x.data(), h.data(), y.data(), &sum);
        const double unit = std::string(name) == "f16" ? 0x1p-11 : 0x1p-8;
        for (int i = 0; i < n; ++i) EXPECT_NEAR(y[i], x[i], std::abs(x[i]) * unit);
        EXPECT_EQ(y[n], -7);
        EXPECT_EQ(h[n], 0x1234);
        EXPECT_NEAR(sum, total, 1e-5);
      }
    }
  }
}

TEST(Lut, EveryCodeOnEveryIsa) {
  std::vector<std::uint8_t> table, codes;
  for (int i = 0; i < 16; ++i) table.push_back(static_cast<std::uint8_t>(i * 37 + 11));
  for (int i = 0; i < 64; ++i) codes.push_back(static_cast<std::uint8_t>((i * 7 + i / 16) % 16));
  for (const Isa* isa : host_isas()) {
    llvm::LLVMContext context;
    Emitter e(context, *isa, "test");
    for (const int n : {32, 64}) {
      for (const bool generic : {false, true}) {
        e.function((generic ? "generic_" : "lut_") + std::to_string(n), {in("x"), out("y")},
                   [&](const Args& a) {
                     auto* type = llvm::FixedVectorType::get(e.b().getInt8Ty(), static_cast<unsigned>(n));
                     llvm::Value* x = e.load(type, a["x"], 1);
                     e.store(generic ? lut16_generic(e, x, table) : lut16(e, x, table), a["y"], 1);
                   });
      }
    }
    Jit jit(e);
    for (const int n : {32, 64}) {
      for (const char* stem : {"lut_", "generic_"}) {
        std::uint8_t y[64] = {};
        jit.get<void(const std::uint8_t*, std::uint8_t*)>(stem + std::to_string(n))(codes.data(), y);
        for (int i = 0; i < n; ++i) EXPECT_EQ(y[i], table[codes[i]]) << isa->name << " " << stem << n;
      }
    }
  }
}

// Tables of 32 and 64 are made of such of 16, in codes that have bits above theirs.
TEST(Lut, LargeTables) {
  std::vector<std::uint8_t> table, codes;
  for (int i = 0; i < 64; ++i) table.push_back(static_cast<std::uint8_t>(i * 37 + 11));
  for (int i = 0; i < 64; ++i) codes.push_back(static_cast<std::uint8_t>(i * 27 % 64));
  for (const Isa* isa : host_isas()) {
    llvm::LLVMContext context;
    Emitter e(context, *isa, "test");
    for (const int n : {32, 64}) {
      for (const std::size_t entries : {16, 32, 64}) {
        e.function("lut_" + std::to_string(n) + "_" + std::to_string(entries), {in("x"), out("y")},
                   [&](const Args& a) {
                     auto* type = llvm::FixedVectorType::get(e.b().getInt8Ty(), static_cast<unsigned>(n));
                     e.store(lut(e, e.load(type, a["x"], 1), std::span(table).first(entries)), a["y"], 1);
                   });
      }
    }
    Jit jit(e);
    for (const int n : {32, 64}) {
      for (const std::size_t entries : {16, 32, 64}) {
        std::uint8_t y[64] = {};
        const std::string name = "lut_" + std::to_string(n) + "_" + std::to_string(entries);
        jit.get<void(const std::uint8_t*, std::uint8_t*)>(name)(codes.data(), y);
        for (int i = 0; i < n; ++i) EXPECT_EQ(y[i], table[codes[i] % entries]) << isa->name << " " << name;
      }
    }
  }
}

}  // namespace
}  // namespace gc::cpu
