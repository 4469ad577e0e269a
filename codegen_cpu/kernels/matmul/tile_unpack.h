// Weights of 32 columns and 16 rows as bf16: a tile of 16 lines of 64 bytes, a line the 16 rows' weights of two columns, in
// the order of columns of prompt rows (codegen_cpu/prompt_rows.h); each value the packed one up to 2^-17 of its scale,
// rounded to nearest. F16 is two terms, each a tile, which are exact: w rounded, and the rest. What tiles and dot products
// of bf16 take.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "codegen_cpu/decode/planes.h"
#include "codegen_cpu/emitter.h"

namespace gc::cpu {

inline constexpr std::int64_t kTileRowBytes = 64, kTileBytes = 1024;

// Tiles that 32 columns of a panel make, one after the other.
inline int tile_terms(Format format) { return format == Format::F16 ? 2 : 1; }

// Weights are scale * q + add of codes that values_of() brings to floats. Codes of up to 7 bits are put into the mantissa of
// a bf16, 128 + q, which saves their conversion: `add` then takes 128 * scale back.
struct CodeFactors {
  llvm::Value* scale;
  llvm::Value* add;  // or nullptr
};
// The largest q of a layout.
std::int32_t most_code(const Layout& layout);
// <16 x float>, `min` nullptr where there is none.
CodeFactors code_factors(Emitter& e, const Layout& layout, llvm::Value* scale, llvm::Value* min);
// Of a step (<64 x i8>: columns 0 to 3 of 16 rows of weights) the weights of columns 0, 2, 1, 3.
std::array<llvm::Value*, 4> values_of(Emitter& e, const Layout& layout, llvm::Value* step,
                                      const CodeFactors& f);
// The low halves of the words of `low` and the high halves of those of `high`.
llvm::Value* halves_joined(Emitter& e, llvm::Value* low, llvm::Value* high);

class TileUnpack {
 public:
  using Value = llvm::Value;

  // Tile `block` (i64) of a panel of k columns, to the tile at `to`. With `ahead` (i64) what lies so many
  // bytes further is brought to the second level meanwhile: weights come from memory, and products that wait for them
  // stand still.
  TileUnpack(Emitter& e, const Layout& layout, std::int64_t k, Value* panel, Value* block, Value* to,
             Value* ahead = nullptr);

  // Two lines of the tile, s = 0 to 7 in order.
  void step(int s);

 private:
  void float_step(int s);
  CodeFactors factors(int part);

  Emitter& e_;
  const Layout& layout_;
  Value *floats_ = nullptr, *rest_ = nullptr;  // of float formats: the block, and (i1) which term
  PanelReader reader_;
  Value *to_, *base_, *i_;
  GroupParts group_;
  PanelReader::Supers supers_;
  std::vector<Value*> steps_;
  CodeFactors factors_{};
};

}  // namespace gc::cpu
