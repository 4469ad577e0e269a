// The plain elementwise ops over f32 rows of n, and the choice of rows. y may be an input (the same rows).
#pragma once

#include "codegen_cpu/emitter.h"
#include "compiler/ir/ir.h"

namespace gc::cpu {

// void(x, i64 xs, y, i64 ys, i64 rows)
llvm::Function* act(Emitter& e, ir::Fn fn, std::int64_t n);
llvm::Function* softcap(Emitter& e, float cap, std::int64_t n);
llvm::Function* scale(Emitter& e, float by, std::int64_t n);
llvm::Function* clamp(Emitter& e, float limit, std::int64_t n);
llvm::Function* clamp_above(Emitter& e, float limit, std::int64_t n);

// void(x0, i64 x0s, x1, i64 x1s, y, i64 ys, i64 rows)
llvm::Function* add(Emitter& e, std::int64_t n);
llvm::Function* mul(Emitter& e, std::int64_t n);
// x0: [heads, d], x1: [heads].
llvm::Function* mul_heads(Emitter& e, std::int64_t heads, std::int64_t d);

// y: [heads, a + b] from x0 [of_first, a] and x1 [of_second, b], each of as many heads or of one.
struct ConcatHeadsSpec {
  std::int64_t heads, of_first, a, of_second, b;
};
llvm::Function* concat_heads(Emitter& e, const ConcatHeadsSpec& spec);

// void(x, i64 xs, w, y, i64 ys, i64 rows): y[t] = x[t] + w
llvm::Function* bias(Emitter& e, std::int64_t n);

// void(x, i64 xs, w, y, i64 ys, i64 rows): y[t][i] = x[t][i] * w[i / (n / weights)], or / with inverse.
struct WeighSpec {
  std::int64_t n, weights;  // weights divides n
  bool inverse = false;
};
llvm::Function* weigh(Emitter& e, const WeighSpec& spec);

// void(rows, x, i64 xs, y, i64 ys, i64 n_rows): y[t] = x[t] * (1 + by log(1 + (rows[t].pos + offset) / period)), the
// division whole; the factors are a table of constants that ends at position kTemperReach.
struct TemperSpec {
  float by;
  std::int64_t period, offset, n;
};
inline constexpr std::int64_t kTemperReach = std::int64_t{1} << 20, kMaxTempers = 4096;
llvm::Function* temper(Emitter& e, const TemperSpec& spec);

// void(x, i64 xs, outputs, y, i64 ys, i64 n_outputs): y[r] = x[outputs[r]], outputs u32[n_outputs]; y is not x.
llvm::Function* select(Emitter& e, std::int64_t n);

}  // namespace gc::cpu
