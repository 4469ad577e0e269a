// The products of prompt rows by dot products of vectors, in the ways of dot_ways.h.
//
// Contract: columns of k are summed in groups of 256, each as its way says, and the groups' results in order of k. A result
// depends on its row and its panel alone.
#pragma once

#include "codegen_cpu/emitter.h"
#include "codegen_cpu/kernels/matmul/prompt_way.h"

namespace gc::cpu {

// "dot_matmul_q4_k_640": void(panels, x, i64 x_stride, y, i64 y_stride, i64 n_panels, i64 n_rows, scratch): as matmul() of
// matmul.h for k a multiple of 32. Ways that read bf16 take x as tile_matmul does, from a row on that is a multiple of 16, and
// have no use for x_stride. n_rows may be 0.
llvm::Function* dot_matmul(Emitter& e, Format format, std::int64_t k);
std::int64_t dot_scratch_bytes(const Isa& isa, PromptWay way);

}  // namespace gc::cpu
