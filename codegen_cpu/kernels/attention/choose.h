// Which positions of its sequence a row of sparse attention sees (ops.def: choose_positions): those of the greatest scores
//
//   s[p] = sum over heads h in order of w[h] * max(0, q[h] . k[p])
//
// by f32 FMA in that order over the KV blocks, as attention's scores are, in both roles: a row's choice is a function of its
// own values and keys alone.
//
// Scores are seen once, block by block, and kept with their positions until there are twice as many as wanted; then the
// `used` greatest stay. So memory doesn't grow with the context: the least score that stays is found bit by bit, counting
// whole vectors (32 passes over what is kept), and of those that equal it the first stay. A heap would be touched at random
// for each of the scores that enter, which near the start are most.
#pragma once

#include <cstdint>
#include <string>

#include "codegen_cpu/kernels/attention/attention.h"

namespace gc::cpu {

struct ChooseSpec {
  std::int64_t heads, k_dim;
  std::int64_t used;  // positions wanted
  int kv_type = GC_KV_F16;
  std::int64_t every = 0;  // AttnSpec::every: positions are numbers of kept rows

  // Of what kv_append stores: keys alone, of one head.
  AttnSpec state() const;
};

// Of one worker, 64-byte aligned.
std::int64_t choose_scratch_bytes(const ChooseSpec& spec);

// void(step, group, block_bytes, state_offset, q, i64 qs, w, i64 ws, y, i64 ys, i64 row_begin, i64 row_end, scratch): q rows
// f32[heads x k_dim], w rows f32[heads]; y rows f32[used], ascending, behind the last -1. The step's keys are appended.
llvm::Function* choose_positions(Emitter& e, const ChooseSpec& spec);

}  // namespace gc::cpu
