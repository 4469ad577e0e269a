// Emits the steps of one section of a plan as calls of kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen_cpu/emitter.h"
#include "compiler/plan/plan.h"

namespace gc::cpu {

// At the builder's place: section `index` of the plan (0: embedding, 1 + i: layer i, last: head) for a KV type.
// Every constant that may differ between layers of one shape is read from `table`, where constants[i] will be.
void emit_section(Emitter& e, const plan::Plan& plan, int index, int kv_type, llvm::Value* frame,
                  llvm::Value* table, std::vector<int64_t>& constants);

// The product that makes the logits, if all that follows it is done on them in place: then it can give them to a sink
// that chooses tokens, piece by piece, in place of storing them. Null where it can't.
const ir::Op* choosing_head(const plan::Plan& plan);

}  // namespace gc::cpu
