// Ops over a token's several streams of the residual, f32 [streams, n] a row, and the cut of a row by its own spread.
//
// A stream is a few thousand values, which stay in the first cache while all results are made of them; sums over streams
// go in their order, so the bits depend on nothing else.
#pragma once

#include "codegen_cpu/emitter.h"

namespace gc::cpu {

// void(x0, i64 x0s, x1, i64 x1s, y, i64 ys, i64 rows) for the four; y is none of the operands, but that add_heads may
// work in place on x0.

// y[j] = sum_i (x1[j * from + i] + plus) * x0[i]
struct MixSpec {
  std::int64_t from, to, n;
  float plus = 0;
};
llvm::Function* mix(Emitter& e, const MixSpec& spec);
// y[h] = x1[h] * |x0| / |x1[h]|
llvm::Function* rescale(Emitter& e, std::int64_t heads, std::int64_t n);
// y[h] = x0[h] + x1 for h >= begin, x0[h] below
llvm::Function* add_heads(Emitter& e, std::int64_t heads, std::int64_t n, std::int64_t begin);
// y[h] = x0[h] . x1[h]
llvm::Function* dot_heads(Emitter& e, std::int64_t heads, std::int64_t n);

// void(x, i64 xs, y, i64 ys, i64 rows) for both.

// A row's n x n logits as a matrix whose rows and columns sum to almost 1, transposed; n <= 16. See ops.def.
llvm::Function* sinkhorn(Emitter& e, std::int64_t n, float eps, std::int64_t rounds);
// y = max(0, x - mean - by * deviation), the deviation's squares over n - 1.
llvm::Function* sparsify(Emitter& e, std::int64_t n, float by);

}  // namespace gc::cpu
