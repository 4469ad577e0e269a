// What the ways to multiply block-quantized weights have in common: block_matmul.cc (vectors), plane_tiles.cc (matrix
// tiles).
#pragma once

#include <functional>
#include <string_view>

#include "codegen_cpu/decode/planes.h"
#include "codegen_cpu/kernels/matmul/emit.h"
#include "compiler/quant/layouts.h"

namespace gc::cpu {

inline constexpr std::int64_t kBlocks32 = kGroupCols / 32;

// How the blocks of one scale are summed: all that a tile knows of its weights.
struct Blocks {
  std::int64_t scale_cols;  // 16 or 32
  bool has_min;
  explicit Blocks(const Layout& layout)
      : scale_cols(layout.scale_cols), has_min(layout.min != ScaleKind::None) {}
  int parts() const { return static_cast<int>(32 / scale_cols); }
  int steps() const { return static_cast<int>(scale_cols / 4); }
  std::string name() const;  // "s32_min"
};

// 32 columns of a panel unpacked: their 8 steps, f32 scales of each part and then mins. They stand side by side.
struct Unpacked {
  std::int64_t step_bytes, scales, mins, bytes;
  Unpacked(std::int64_t step_bytes, const Blocks& blocks)
      : step_bytes(step_bytes),
        scales(8 * step_bytes),
        mins(scales + 64 * blocks.parts()),
        bytes(mins + (blocks.has_min ? 64 * blocks.parts() : 0)) {}
};

// "unpack_q4_k_FORM": void(base, quants, scales, mins, i64 blocks32, lower, to): the blocks of a group (PanelReader's parts
// of it), each step as operands(step) has it, vectors of 64 bytes. `lower`: of a matrix whose upper stream the layout is,
// the same columns of its lower one, of layout `lower_layout`; else not read.
llvm::Function* unpack_group(Emitter& e, const Layout& layout, const Layout* lower_layout,
                             std::string_view form, std::int64_t step_bytes,
                             const std::function<Emitter::Values(llvm::Value*)>& operands);

// The contract's line for one block of one scale of one row: d, d_sum (nullptr without a min) as <16 x float>.
llvm::Value* add_block(Emitter& e, llvm::Value* y, llvm::Value* isum, llvm::Value* d, llvm::Value* d_sum,
                       llvm::Value* scale, llvm::Value* min);

// Products of 2 to kTileRows rows at a time as plane_tiles.cc says; whether the ISA and the layout have them.
inline constexpr int kTileRows = 16;
bool has_plane_tiles(const Isa& isa, const Layout& layout);
void emit_plane_tiles(Emitter& e, const MatmulSpec& spec, const Layout& layout, const Args& args);
// Of a matrix in two streams.
void emit_stream_tiles(Emitter& e, std::int64_t k, const Args& args);

}  // namespace gc::cpu
