// The products of prompt rows on matrix tiles (AMX): bf16 rows times weights rounded to bf16, sums in f32.
//
// Contract: columns of k are summed in chunks whose cut follows from k and the ISA alone, each a chain of tdpbf16ps over 32
// columns from +0, and the chunks' sums in order; weights are the packed values, up to 2^-17 of their scale, rounded to
// nearest. The same bits for any number of rows, any split of panels, in any company.
#pragma once

#include "codegen_cpu/emitter.h"
#include "compiler/quant/formats.h"

namespace gc::cpu {

// Formats that have these products.
bool has_tile_matmul(Format format);

// "tile_matmul_q4_k_640": void(panels, x, y, i64 y_stride, i64 n_panels, i64 n_rows, scratch): as matmul() of matmul.h for
// k a multiple of 32, x in the form of prompt rows (codegen_cpu/prompt_rows.h) from row 0 on. n_rows may be 0. Rows up to
// a multiple of kRowsAtOnce are read, and written with what comes of it. Between tiles_begin and tiles_end.
llvm::Function* tile_matmul(Emitter& e, Format format, std::int64_t k);
std::int64_t tile_scratch_bytes(const Isa& isa, std::int64_t k);

// void(): gives the thread eight tiles of 16 rows of 64 bytes, and gives them up.
llvm::Function* tiles_begin(Emitter& e);
llvm::Function* tiles_end(Emitter& e);

}  // namespace gc::cpu
