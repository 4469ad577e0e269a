// The bodies behind kernels.def. Called with the builder at the entry of the function.
#pragma once

#include <functional>

#include "codegen_cpu/kernels/matmul/matmul.h"
#include "codegen_cpu/kernels/matmul/shapes.h"

namespace gc::cpu {

void emit_block_matmul(Emitter& e, const MatmulSpec& spec, const Args& args);
void emit_float_matmul(Emitter& e, const MatmulSpec& spec, const Args& args);

// Arguments "p0", "p1", ... of kernels that work on several panels at once.
std::vector<Arg> numbered(const char* stem, int n, Arg::Kind kind);

// Visits `n` rows in tiles of at most shapes.rows rows, as few and as even as can be. tile(first row, rows).
void over_tiles(Emitter& e, const TileShapes& shapes, llvm::Value* n,
                const std::function<void(llvm::Value*, int)>& tile);

// Visits panels `width` at a time: the index of the first and those of all. Where fewer are left the last one stands
// in for the missing ones; it is computed again to the same bits.
void over_panels(Emitter& e, llvm::Value* n_panels, int width,
                 const std::function<void(llvm::Value*, const Emitter::Values&)>& body);

}  // namespace gc::cpu
