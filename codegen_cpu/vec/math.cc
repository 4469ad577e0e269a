#include "codegen_cpu/vec/math.h"

#include <cmath>
#include <initializer_list>
#include <numbers>

#include "compiler/base/error.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace gc::cpu {

using llvm::Value;

namespace {

// c[0] + c[1] x + c[2] x^2 + ..., by Horner's rule.
Value* polynomial(Vec& v, Value* x, std::initializer_list<double> c) {
  const double* p = c.end();
  Value* y = v.splat(*--p);
  while (p != c.begin()) y = v.fma(y, x, v.splat(*--p));
  return y;
}

// y * 2^n where `normal`, else 0; for whole n in [-160, 160], given as a float and as the bits of n + 1.5 * 2^23.
Value* scale_by_power(Vec& v, Value* y, Value* n, Value* magic_bits, std::uint32_t magic, Value* normal) {
  llvm::IRBuilder<>& b = v.e().b();
  if (v.e().isa().has_avx512) {
    return b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_scalef_ps_512, {},
                             {y, n, v.zero(), b.CreateBitCast(normal, b.getInt16Ty()), b.getInt32(4)});
  }
  llvm::Type* i32s = v.type(b.getInt32Ty());
  auto constant = [&](std::uint32_t c) { return llvm::ConstantInt::get(i32s, c); };
  Value* whole = b.CreateSub(magic_bits, constant(magic));
  Value* half = b.CreateAShr(whole, 1);
  auto power = [&](Value* k) {
    return b.CreateBitCast(b.CreateShl(b.CreateAdd(k, constant(127)), 23), v.type());
  };
  Value* scaled = v.mul(v.mul(y, power(half)), power(b.CreateSub(whole, half)));
  return b.CreateSelect(normal, scaled, v.zero());
}

}  // namespace

// Several at once go side by side, step by step: one's steps wait for each other.
Vec::Values exp_each(Vec& v, Vec::Values x) {
  llvm::IRBuilder<>& b = v.e().b();
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number
  constexpr double kLeast = -87.33;      // its result is the least normal one, or nearly so
  constexpr double kLn2High = 0x1.62e43p-1f;
  constexpr double kLn2Low = std::numbers::ln2 - kLn2High;
  const std::size_t n = x.size();
  auto each = [&](const std::function<Value*(std::size_t)>& step) {
    Vec::Values y(n);
    for (std::size_t i = 0; i < n; ++i) y[i] = step(i);
    return y;
  };
  // NaN passes all three: min and max give their second operand then.
  const auto normal = each([&](std::size_t i) { return b.CreateFCmpUGE(x[i], v.splat(kLeast)); });
  x = each([&](std::size_t i) { return v.max(v.splat(kLeast), v.min(v.splat(89.0), x[i])); });
  const auto shifted =
      each([&](std::size_t i) { return v.fma(x[i], v.splat(std::numbers::log2e), v.splat(kMagic)); });
  const auto power = each([&](std::size_t i) { return v.sub(shifted[i], v.splat(kMagic)); });
  const auto high = each([&](std::size_t i) { return v.fma(power[i], v.splat(-kLn2High), x[i]); });
  const auto r = each([&](std::size_t i) { return v.fma(power[i], v.splat(-kLn2Low), high[i]); });
  auto p = each([&](std::size_t) { return v.splat(0.00138131423584); });
  for (double c : {0.00836941904327, 0.0416684568333, 0.166665147891, 0.499999930505})
    p = each([&](std::size_t i) { return v.fma(p[i], r[i], v.splat(c)); });
  const auto y = each([&](std::size_t i) { return v.fma(p[i], v.mul(r[i], r[i]), r[i]); });
  return each([&](std::size_t i) {
    Value* bits = b.CreateBitCast(shifted[i], v.type(b.getInt32Ty()));
    return scale_by_power(v, v.add(y[i], v.splat(1.0)), power[i], bits, 0x4b400000, normal[i]);
  });
}

Value* exp(Vec& v, Value* x) { return exp_each(v, {x})[0]; }

Value* sigmoid(Vec& v, Value* x) { return v.div(v.splat(1.0), v.add(v.splat(1.0), exp(v, v.neg(x)))); }

Value* tanh(Vec& v, Value* x) {
  llvm::IRBuilder<>& b = v.e().b();
  Value* a = v.abs(x);
  Value* z = v.mul(x, x);
  Value* p = polynomial(
      v, z, {-0.333332628798, 0.133308997092, -0.0536929645243, 0.020483306539, -0.00552862460905});
  Value* small = v.fma(v.mul(p, z), a, a);
  Value* large = v.sub(v.splat(1.0), v.div(v.splat(2.0), v.add(exp(v, v.add(a, a)), v.splat(1.0))));
  return v.copysign(b.CreateSelect(b.CreateFCmpOLT(a, v.splat(0.65)), small, large), x);
}

namespace {

// The normal distribution's function at x.
Value* phi(Vec& v, Value* x) {
  llvm::IRBuilder<>& b = v.e().b();
  Value* z = v.mul(v.abs(x), v.splat(std::numbers::sqrt2 / 2));
  Value* t = v.div(v.splat(1.0), v.fma(z, v.splat(0.4), v.splat(1.0)));
  Value* q = polynomial(v, t,
                        {0.225634237852, 0.226442991085, 0.201888489358, 0.193389546189, 0.0797653968149,
                         0.087951054497, 0.0839991989797, -0.140325125762, 0.0412542727741});
  // exp(-z^2) with the rounding of z^2 put back, and that of z: x^2 / 2 is what is meant.
  Value* half_square = v.mul(v.mul(x, x), v.splat(-0.5));
  Value* lost = v.mul(v.splat(-0.5), v.fma(x, x, v.neg(v.mul(x, x))));
  Value* gauss = exp(v, half_square);
  gauss = v.fma(gauss, b.CreateSelect(b.CreateFCmpOLT(z, v.splat(11.0)), lost, v.zero()), gauss);
  Value* tail = v.mul(v.mul(v.splat(0.5), v.mul(t, q)), gauss);
  return b.CreateSelect(b.CreateFCmpOLT(x, v.zero()), tail, v.sub(v.splat(1.0), tail));
}

// log(1 + x) for x in [0, 1]: 2 artanh(x / (2 + x)), whose series ends soon for arguments up to 1/3.
Value* log1p_of_fraction(Vec& v, Value* x) {
  Value* s = v.div(x, v.add(x, v.splat(2.0)));
  Value* series =
      polynomial(v, v.mul(s, s), {2.0, 2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9, 2.0 / 11, 2.0 / 13, 2.0 / 15});
  return v.mul(s, series);
}

}  // namespace

// 2^k m with m in [sqrt(1/2), sqrt(2)): k ln 2 + 2 artanh((m - 1) / (m + 1)).
Value* log(Vec& v, Value* x) {
  auto& b = v.e().b();
  llvm::Type* ints = v.type(b.getInt32Ty());
  const auto all = [&](std::uint32_t c) { return b.CreateVectorSplat(Vec::kLanes, b.getInt32(c)); };
  constexpr std::uint32_t kRootOfHalf = 0x3f3504f3;
  Value* bits = b.CreateSub(b.CreateBitCast(x, ints), all(kRootOfHalf));
  Value* k = b.CreateSIToFP(b.CreateAShr(bits, all(23)), v.type());
  Value* m = b.CreateBitCast(b.CreateAdd(b.CreateAnd(bits, all(0x7fffff)), all(kRootOfHalf)), v.type());
  Value* s = v.div(v.sub(m, v.splat(1.0)), v.add(m, v.splat(1.0)));
  Value* series = polynomial(v, v.mul(s, s), {2.0, 2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9});
  // ln 2 in two parts, the first of few bits: its product with k is exact.
  Value* low = v.fma(k, v.splat(-2.12194440e-4), v.mul(s, series));
  return v.fma(k, v.splat(0.693359375), low);
}

Value* softplus(Vec& v, Value* x) {
  return v.add(v.max(x, v.zero()), log1p_of_fraction(v, exp(v, v.neg(v.abs(x)))));
}

// exp(x) - 1 - x: by its series down to -1, where the difference would cancel.
static Value* elu_excess(Vec& v, Value* x) {
  auto& b = v.e().b();
  Value* series = polynomial(v, x,
                             {1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320,
                              1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800});
  Value* near = v.mul(v.mul(x, x), series);
  Value* far = v.sub(v.sub(exp(v, x), v.splat(1.0)), x);
  Value* below = b.CreateSelect(b.CreateFCmpOGT(x, v.splat(-1.0)), near, far);
  return b.CreateSelect(b.CreateFCmpOLT(x, v.zero()), below, v.zero());
}

Value* activation(Vec& v, ir::Fn fn, Value* x) {
  switch (fn) {
    case ir::Fn::gelu_tanh: {
      // 2 sqrt(2/pi) (x + 0.044715 x^3)
      const double c = 2 * std::sqrt(2 / std::numbers::pi);
      Value* u = v.mul(x, v.fma(v.mul(x, x), v.splat(c * 0.044715), v.splat(c)));
      return v.mul(x, sigmoid(v, u));
    }
    case ir::Fn::gelu_erf:
      return v.mul(x, phi(v, x));
    case ir::Fn::gelu_quick:
      return v.mul(x, sigmoid(v, v.mul(x, v.splat(1.702))));
    case ir::Fn::silu:
      return v.mul(x, sigmoid(v, x));
    case ir::Fn::relu:
      return v.max(x, v.zero());
    case ir::Fn::relu2: {
      Value* y = v.max(x, v.zero());
      return v.mul(y, y);
    }
    case ir::Fn::sigmoid:
      return sigmoid(v, x);
    case ir::Fn::tanh:
      return tanh(v, x);
    case ir::Fn::softplus:
      return softplus(v, x);
    case ir::Fn::root_softplus:
      return v.sqrt(softplus(v, x));
    case ir::Fn::signed_root: {
      auto& b = v.e().b();
      Value* root = v.copysign(v.sqrt(v.max(v.abs(x), v.splat(1e-6))), x);
      return b.CreateSelect(b.CreateFCmpOEQ(x, v.zero()), v.zero(), root);
    }
    case ir::Fn::elu_excess:
      return elu_excess(v, x);
    case ir::Fn::exp:
      return exp(v, x);
  }
  throw_internal("activation function");
}

Value* softcap(Vec& v, double cap, Value* x) { return v.mul(v.splat(cap), tanh(v, v.div(x, v.splat(cap)))); }

}  // namespace gc::cpu
