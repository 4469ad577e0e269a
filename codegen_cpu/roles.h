// Which values have a form for prompt rows of their own, and how products multiply prompt rows: the one place that says so.
// Where a step makes such a value, and where a product has a way for prompts, rows are taken apart by role
// (section/scope.h); everything else is the same for both roles.
#pragma once

#include <optional>

#include "codegen_cpu/isa.h"
#include "codegen_cpu/kernels/matmul/prompt_way.h"
#include "compiler/ir/ir.h"

namespace gc::cpu {

// The form of prompt rows of a value: bf16 (prompt_rows.h) where all that read it are products that multiply bf16, else the
// form that it has for generated rows too.
ir::Elem prompt_form(const Isa& isa, const ir::Graph& graph, ir::ValueId value);

// How prompt rows of the op's input are multiplied, or nothing where they are as generated ones.
std::optional<PromptWay> prompt_way_of(const Isa& isa, const ir::Graph& graph, const ir::Op& op);
// Whether they are rounded for the product, which is on tiles: products with BF16 and F16 weights read f32, which others read
// too.
bool rounds_for_tiles(const Isa& isa, const ir::Graph& graph, const ir::Op& op);

// Whether a gated unit's products are joined as they leave the tiles: gate and up of one format, into bf16.
bool glu_joins_on_tiles(const Isa& isa, const ir::Graph& graph, const ir::Op& op);

}  // namespace gc::cpu
