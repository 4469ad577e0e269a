// The parts of a section, a family of ops each. A step is emitted at the builder's place.
#pragma once

#include "codegen_cpu/section/scope.h"

namespace gc::cpu {

// Ops over this worker's rows.
void emit_row_wise(const Scope& scope, const plan::Step& step, const ir::Op& op);

// Matrix products: of the head (head.cc) or any other; whose result is stored; gate and up with their joint.
void emit_matmul(const Scope& scope, const plan::Step& step, const ir::Op& op);
void emit_stored_matmul(const Scope& scope, const plan::Step& step, const ir::Op& op);
void emit_matmul_glu(const Scope& scope, const plan::Step& step, const ir::Op& op);
void emit_matmul_heads(const Scope& scope, const plan::Step& step, const ir::Op& op);
// Before a worker waits for others, the weights that it will multiply behind the meeting set out: memory works while
// workers meet, and its latency has passed when they have met. Steps [from, end).
void warm_up(const Scope& scope, std::int32_t from, std::int32_t end);

// What is done to logits in place behind their product.
void emit_softcap_columns(const Scope& scope, const plan::Step& step, const ir::Op& op);

// attention, attention_again, attention_sums, attention_chosen, attn_block; choose_positions.
void emit_attention(const Scope& scope, const ir::Op& op);

// conv, compress, ngram_embed, token_shift, ssm_scan, delta_rule, decay_attention, wkv, wkv7.
void emit_recurrent(const Scope& scope, const ir::Op& op);

// experts_in, experts_out.
void emit_experts(const Scope& scope, const plan::Step& step, const ir::Op& op);

}  // namespace gc::cpu
