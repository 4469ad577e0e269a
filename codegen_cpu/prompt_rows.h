// Where prompt rows and generated rows of a value part ways (see roles.h for which values do): a prompt row is bf16, in the
// order in which matrix tiles take it; a generated row is quantized (act_layout.h).
//
// Sixteen rows are a block, 32 columns of it a piece of 1 KB: row t has its columns [32 c, 32 c + 32) at
//   (t / 16) * block_bytes(k) + c * 1024 + (t % 16) * 64.
// with the columns of each four in the order 0, 2, 1, 3, which pairs those that lie together in the weights' codes.
// So a tile is contiguous and a block is one stream, which the prefetchers see; as plain rows the 16 lines of a tile
// would be a stride apart, in few sets of a cache, each line on a page of its own for wide models.
// Products compute prompt rows by pairs of blocks. What they read and write past the last prompt row is nobody's: the
// generated rows begin behind it, at row generated_at() of the same buffer, and the arena has pad_rows for it.
#pragma once

#include <cstdint>

#include "codegen_cpu/emitter.h"
#include "compiler/ir/ir.h"

namespace gc::cpu {

inline constexpr std::int64_t kBlockRows = 16;                     // of a tile
inline constexpr std::int64_t kPieceBytes = 1024, kPieceRow = 64;  // 32 columns of a block; of one row
inline constexpr std::int64_t kRowsAtOnce = 2 * kBlockRows;        // that products compute

// The column of a piece that is at place `i`, and the place of column `i`.
constexpr int piece_order(int i) { return i % 4 == 1 ? i + 1 : i % 4 == 2 ? i - 1 : i; }

// Bytes of a block of k columns (a multiple of 32), never more than 16 quantized rows. An odd multiple of 4 KB where that
// is little: a chunk of columns of 32 blocks then lies in all sets of a cache alike.
constexpr std::int64_t block_bytes(std::int64_t k) {
  const std::int64_t bytes = k / 32 * kPieceBytes;
  if (bytes < 16384) return bytes;
  const std::int64_t pages = (bytes + 4095) / 4096;
  return 4096 * (pages | 1);
}

// The row in a buffer of quantized rows where the first of the generated ones is, behind n prompt rows.
constexpr std::int64_t generated_at(std::int64_t n_prompt) {
  return (n_prompt + kRowsAtOnce - 1) / kRowsAtOnce * kRowsAtOnce;
}

// Row t of a value in the form `elem`: base + t * stride, in the form of prompt rows (BF16) with stride = block_bytes.
llvm::Value* row_at(Emitter& e, ir::Elem elem, llvm::Value* base, llvm::Value* t, llvm::Value* stride);

}  // namespace gc::cpu
