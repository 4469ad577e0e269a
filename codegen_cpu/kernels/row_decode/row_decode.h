// Reads one row of a packed matrix back as f32: embedding lookup, from the same panels that the tied head multiplies.
// Bit for bit the file's row (dequantize_row) times `scale`.
#pragma once

#include <cstdint>

#include "codegen_cpu/emitter.h"
#include "compiler/quant/formats.h"

namespace gc::cpu {

// void(panels, i64 row, out f32[K], f32 scale): `panels` is the matrix' first panel, `row` a row of the matrix.
llvm::Function* row_decode(Emitter& e, Format format, std::int64_t k);

}  // namespace gc::cpu
