// Reads packed panels (compiler/quant/layouts.h) in emitted code: where a group's parts are, scales as f32, values as
// steps of bytes. Everything follows from the layout's row; there is no code for a format by name.
#pragma once

#include <vector>

#include "codegen_cpu/emitter.h"
#include "compiler/quant/layouts.h"

namespace gc::cpu {

// The parts of a group, as pointers.
struct GroupParts {
  llvm::Value* supers;
  llvm::Value* scales;
  llvm::Value* mins;
  llvm::Value* quants;
  llvm::Value* blocks32;  // i64: 32-column blocks in it
  llvm::Value* bytes;     // i64
};

class PanelReader {
 public:
  PanelReader(Emitter& e, const Layout& layout, std::int64_t k) : e_(e), layout_(layout), k_(k) {}

  std::int64_t groups() const { return (k_ + kGroupCols - 1) / kGroupCols; }
  // Group `g` (i64), which begins at `base`. The last group's parts lie closer together when it is shorter.
  GroupParts group(llvm::Value* base, llvm::Value* g);

  // <16 x float> of the group's scale and min factors; nullptr where the layout has none.
  struct Supers {
    llvm::Value* scale;
    llvm::Value* min;
  };
  Supers supers(llvm::Value* p);
  // <16 x float> scales (times the super) of the block whose entries are at p. Mins are ready to be added.
  llvm::Value* scale(llvm::Value* p, const Supers& s) { return factor(layout_.scale, p, s.scale, false); }
  // `scale`: what scale() gave of the same block.
  llvm::Value* min(llvm::Value* p, const Supers& s, llvm::Value* scale) {
    if (layout_.min == ScaleKind::Mask) return masked_min(p, scale);
    return factor(layout_.min, p, s.min, layout_.min_is_subtracted());
  }
  // Where the entries of part `part` (0, or 1 of two scales) of the group's i-th 32 columns are.
  llvm::Value* scale_at(llvm::Value* scales, llvm::Value* i, int part) {
    return entry_at(layout_.scale, scales, i, part);
  }
  llvm::Value* min_at(llvm::Value* mins, llvm::Value* i, int part) {
    return entry_at(layout_.min, mins, i, part);
  }

  // q of the 8 steps of the i-th 32 columns of a group whose quants are at `quants`, <64 x i8> each.
  std::vector<llvm::Value*> steps(llvm::Value* quants, llvm::Value* i);

  // Those of a matrix in two streams (compiler/quant/two_streams.h) from the steps of each.
  static std::vector<llvm::Value*> joined(Emitter& e, const std::vector<llvm::Value*>& upper,
                                          const std::vector<llvm::Value*>& lower);

  // A factor of a block from its entry's bits, without the super: <N x i8> (f16: <N x half>) to <N x float>, or one
  // value. Of mins the magnitude. Not of Mask.
  static llvm::Value* factor_value(Emitter& e, ScaleKind kind, llvm::Value* entry);

 private:
  llvm::Value* masked_min(llvm::Value* p, llvm::Value* scale);
  llvm::Value* entry_at(ScaleKind kind, llvm::Value* base, llvm::Value* i, int part);
  llvm::Value* factor(ScaleKind kind, llvm::Value* p, llvm::Value* super, bool subtracted);

  Emitter& e_;
  const Layout& layout_;
  std::int64_t k_;
};

}  // namespace gc::cpu
