// Rotary position embedding by two-level tables: fine[p] = (cos, sin) of the angles at positions 0 .. n - 1, coarse[j]
// at positions j n; those of pos are fine[pos % n] * coarse[pos / n], one complex product per pair:
//   c = fma(cf, cc, -(sf sc)),  s = fma(sf, cc, cf sc)
// A pair (a, b) becomes (fma(a, c, -(b s)), fma(b, c, a s)). Both tables are f32[..., dims / 2, 2].
// Pairs are (i, i + dims / 2) for NEOX, else (2 i, 2 i + 1); dimensions from `dims` on stay as they are.
#pragma once

#include "codegen_cpu/vec/vec.h"

namespace gc::cpu {

struct RopeSpec {
  std::int64_t dims = 0;  // turned dimensions, even; 0: none
  bool neox = true;
  std::int64_t fine = 0;  // positions of the fine table
  bool inverse = false;   // turns back: s as -s
};

// cos and sin of a position: f32[dims / 2] each, in stack memory of the function.
struct Angles {
  llvm::Value* cos = nullptr;
  llvm::Value* sin = nullptr;
};
// The memory for them: once per function, before loops.
Angles make_angles(Emitter& e, const RopeSpec& spec);
// Fills it. pos: i64.
void emit_angles(Vec& v, const RopeSpec& spec, const Angles& angles, llvm::Value* fine, llvm::Value* coarse,
                 llvm::Value* pos);

// y = turned(load(i, count) ...) * by for a head of `dim` elements; load gives elements [i, i + count) of the head,
// vectors of 16 at any i. y doesn't overlap what is loaded. `by` may be null.
void emit_turned(Vec& v, const RopeSpec& spec, const Angles& angles, std::int64_t dim,
                 const std::function<llvm::Value*(llvm::Value* i, int count)>& load, llvm::Value* y,
                 llvm::Value* by);

struct RopeKernelSpec {
  std::int64_t heads, dim;
  RopeSpec rope;
  std::int64_t back = 0;  // turns by position max(0, pos - back)
};
// void(rows, x, i64 xs, fine, coarse, y, i64 ys, i64 n_rows): rows is gc_row[n_rows], x and y f32 [heads][dim] a row;
// y is not x.
llvm::Function* rope(Emitter& e, const RopeKernelSpec& spec);

}  // namespace gc::cpu
