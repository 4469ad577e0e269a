// Attention of several consecutive positions of one sequence, which share the loads of keys and values.
#pragma once

#include "codegen_cpu/kernels/attention/attention.h"
#include "codegen_cpu/kernels/attention/unit.h"

namespace gc::cpu {

// Rows of a step that attn_rows takes at once: at most, and from how many on it is faster than row by row.
std::int64_t attn_rows_most(const AttnSpec& spec);
std::int64_t attn_rows_least(const AttnSpec& spec);

// Bytes of its scratch, 64-byte aligned.
std::int64_t attn_rows_scratch_bytes(const AttnSpec& spec);

// void(step, group, block_bytes, state_offset, q, i64 qs, q_norm_w, rope_fine, rope_coarse, sinks, y, i64 ys, i64 row,
//      i64 n, i64 kv_head, scratch): one kv head of rows [row, row + n), n <= attn_rows_most(), of one sequence at
// positions pos, pos + 1, ... The bits are those of row by row.
llvm::Function* attn_rows(Emitter& e, const AttnSpec& spec);

}  // namespace gc::cpu
