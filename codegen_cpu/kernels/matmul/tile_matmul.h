// The products of prompt rows on matrix tiles (AMX): bf16 rows times weights rounded to bf16, sums in f32.
//
// Contract: columns of k are summed in chunks whose cut follows from k and the ISA alone, each a chain of tdpbf16ps over 32
// columns from +0, and the chunks' sums in order; weights are the packed values, up to 2^-17 of their scale, rounded to
// nearest. The same bits for any number of rows, any split of panels, in any company.
#pragma once

#include "codegen_cpu/emitter.h"
#include "compiler/ir/ir.h"
#include "compiler/quant/formats.h"

namespace gc::cpu {

// Formats that have these products.
bool has_tile_matmul(Format format);

// "tile_matmul_q4_k_640": void(panels, x, y, i64 y_stride, i64 n_panels, i64 n_rows, scratch): as matmul() of matmul.h for
// k a multiple of 32, x in the form of prompt rows (codegen_cpu/prompt_rows.h) from row 0 on. n_rows may be 0. Rows up to
// a multiple of kRowsAtOnce are read, and written with what comes of it. Between tiles_begin and tiles_end.
llvm::Function* tile_matmul(Emitter& e, Format format, std::int64_t k);

// The gated unit of two matrices of one format: y = fn(x gate) * (x up), in the form of prompt rows of n columns. Gate and
// up are multiplied side by side and joined as their sums leave the first level, so that these never travel.
struct TileGlu {
  ir::Fn fn;
  std::int64_t n;
};
// "tile_glu_q4_k_640_gelu_2048": void(gate, up, x, y, i64 n_panels, i64 n_rows, scratch): n_panels panels of each, from
// which y's columns follow; y begins at row 0 and the first column, a multiple of 32.
llvm::Function* tile_glu(Emitter& e, Format format, std::int64_t k, const TileGlu& glu);

// Of a worker, for either.
std::int64_t tile_scratch_bytes(const Isa& isa, std::int64_t k);

// void(): gives the thread eight tiles of 16 rows of 64 bytes, and gives them up.
llvm::Function* tiles_begin(Emitter& e);
llvm::Function* tiles_end(Emitter& e);

}  // namespace gc::cpu
