// Functions of vectors, without libm.
//
// exp: x = n ln 2 + r, |r| <= ln 2 / 2; 1 + r + r^2 P(r) with P of degree 4 (minimax, relative error 3e-9, so that
// rounding alone is left: 1 ulp). Results below the normal range are 0: making one takes most machines hundreds of cycles,
// and gates that are far out had half of a prompt's time. exp(-inf) is 0, exp(inf) is inf; NaN stays NaN.
// The gated units are written as x * sigmoid(u), which keeps its relative accuracy where x is very negative;
// 0.5 x (1 + tanh u) cancels there. gelu_erf takes Phi from erfc(z) = t Q(t) exp(-z^2), t = 1 / (1 + 0.4 z).
#pragma once

#include "codegen_cpu/vec/vec.h"
#include "compiler/ir/ir.h"

namespace gc::cpu {

llvm::Value* exp(Vec& v, llvm::Value* x);
Vec::Values exp_each(Vec& v, Vec::Values x);
llvm::Value* sigmoid(Vec& v, llvm::Value* x);
llvm::Value* tanh(Vec& v, llvm::Value* x);
// Of normal numbers above 0: to 1 ulp of the result, or of 0.3 where that is smaller.
llvm::Value* log(Vec& v, llvm::Value* x);
// log(1 + exp(x))
llvm::Value* softplus(Vec& v, llvm::Value* x);
// An activation function of the IR.
llvm::Value* activation(Vec& v, ir::Fn fn, llvm::Value* x);
// cap * tanh(x / cap)
llvm::Value* softcap(Vec& v, double cap, llvm::Value* x);

}  // namespace gc::cpu
