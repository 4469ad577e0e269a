// Attention of prompt rows by products of bf16 (prompt_products.h).
#pragma once

#include "codegen_cpu/kernels/attention/attention.h"
#include "codegen_cpu/kernels/attention/unit.h"

namespace gc::cpu {

// Rows of a step that attn_prompt takes at once, at most.
std::int64_t attn_prompt_most(const Isa& isa, const AttnSpec& spec);

// Bytes of its scratch, 64-byte aligned.
std::int64_t attn_prompt_scratch_bytes(const Isa& isa, const AttnSpec& spec);

// As attn_rows (rows.h), for any n from 1 to attn_prompt_most(). With tiles between tiles_begin and tiles_end. A row's bits depend
// on nothing but its position, window, keys and values; they are not those of other kernels.
llvm::Function* attn_prompt(Emitter& e, const AttnSpec& spec);

}  // namespace gc::cpu
