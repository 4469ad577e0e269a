// Norms over a row, and the joint of residual and norm. The same bits on every ISA and for any number of rows.
//
//   rms_norm       y = (x * r) * w,  r = 1 / sqrt(sum(x^2) / n + eps)
//   layer_norm     y = ((x - m) * r) * w + b,  m = sum(x) / n,  r = 1 / sqrt(sum((x - m)^2) / n + eps)
//   residual_norm  y0 = x0 + ((x1 * r1) * post), y1 = (y0 * r0) * pre; without post y0 = x0 + x1, without pre y1 is
//                  y0 * r0
//
// Sums are f32 FMA over 4 x 16 running values, folded in one order (Vec::running). Scalars (division, square root)
// are IEEE f32. Rows have strides in bytes, elements are contiguous.
#pragma once

#include "codegen_cpu/emitter.h"
#include "compiler/ir/ir.h"

namespace gc::cpu {

struct NormSpec {
  std::int64_t n;
  bool weight;
  float eps;
  ir::Elem out = ir::Elem::F32;  // Q16: n a multiple of 32
};
// void(x, i64 xs, w, y, i64 ys, i64 rows); w is read only with `weight`.
llvm::Function* rms_norm(Emitter& e, const NormSpec& spec);

struct LayerNormSpec {
  std::int64_t n;
  bool weight, bias;
  float eps;
  ir::Elem out = ir::Elem::F32;
};
// void(x, i64 xs, w, b, y, i64 ys, i64 rows)
llvm::Function* layer_norm(Emitter& e, const LayerNormSpec& spec);

struct ResidualNormSpec {
  std::int64_t n;
  bool post, pre;  // whether the weights are there
  float eps;
  ir::Elem out = ir::Elem::F32;  // of y1
};
// void(x0, i64 x0s, x1, i64 x1s, post, pre, y0, i64 y0s, y1, i64 y1s, i64 rows); y0 may be x0.
llvm::Function* residual_norm(Emitter& e, const ResidualNormSpec& spec);

// 1 / sqrt(sum(x^2) / n + eps) of n f32 at x, an f32 scalar: for kernels with a norm inside.
llvm::Value* emit_rms(Emitter& e, llvm::Value* x, std::int64_t n, float eps);

}  // namespace gc::cpu
