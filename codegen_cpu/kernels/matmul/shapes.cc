#include "codegen_cpu/kernels/matmul/shapes.h"

#include <algorithm>
#include <vector>

#include "codegen_cpu/emitter.h"
#include "compiler/base/error.h"
#include "compiler/quant/layouts.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Metadata.h"

namespace gc::cpu {
namespace {

constexpr char kMetadata[] = "gc.shapes";

// Rows from which on tiles cost less, whatever the number; 17 where they never do.
std::int64_t step_to_tiles(std::span<const Cost> costs, const Layout& layout) {
  std::int64_t step = 17;
  for (auto cost = costs.rbegin(); cost != costs.rend(); ++cost) {
    if (cost->scale_cols != layout.scale_cols || cost->has_min != (layout.min != ScaleKind::None)) continue;
    if (cost->tiles >= cost->vectors) break;
    step = cost->rows;
  }
  return step;
}

// Panels in flight of one row. On a Zen 4 two streams read memory as fast as four, and faster where panels have scales and
// minima of 16 bits beside the quants, three streams each: Q4_1 reads 0.96 to 1.00 of what a core reads with two panels and
// 0.84 to 0.92 with four, Q5_1 0.82 and 0.75. Types of fewer streams are as fast with either, or a twentieth slower with two.
// IQ6_K, whose shifts are masks, unpacks 17.9 GB/s a core from its cache with four, 24.0 with three, 21.7 with two.
std::int64_t row_panels(const Isa& isa, const Layout& layout) {
  const bool three_streams = layout.scale == ScaleKind::F16 && layout.min == ScaleKind::F16;
  if (!isa.has_bf16dot || isa.has_amx) return kIntRowPanels;
  return three_streams ? 2 : layout.min == ScaleKind::Mask ? 3 : kIntRowPanels;
}

}  // namespace

std::span<const ShapeInfo> shape_infos() {
  static constexpr ShapeInfo kInfos[] = {
#define SHAPE(name, least, most, what) {#name, &RowShapes::name, least, most, what},
#include "codegen_cpu/kernels/matmul/shapes.def"
#undef SHAPE
  };
  return kInfos;
}

std::vector<Cost> costs_of(const Isa& isa) {
  static constexpr Cost kCosts[] = {
#define COST(fact, scale_cols, has_min, rows, vectors, tiles) \
  {&Isa::fact, scale_cols, has_min, rows, vectors, tiles},
#define AHEAD(...)
#include "codegen_cpu/kernels/matmul/costs.def"
#undef AHEAD
#undef COST
  };
  std::vector<Cost> costs;
  for (const Cost& cost : kCosts)
    if (isa.*cost.fact) costs.push_back(cost);
  return costs;
}

Ahead prefetch_ahead(const Isa& isa) {
  Ahead ahead;
#define COST(...)
#define AHEAD(holds, blocks, floats) \
  if (holds) ahead = {blocks, floats};
#include "codegen_cpu/kernels/matmul/costs.def"
#undef AHEAD
#undef COST
  return ahead;
}

RowShapes usual_shapes(const Isa& isa, Format format) {
  RowShapes shapes;
  shapes.row_panels = row_panels(isa, layout_for(format));
  shapes.ahead = prefetch_ahead(isa).blocks;
  shapes.tile_rows = step_to_tiles(costs_of(isa), layout_for(format));
  shapes.chunk_groups = 3;
  return shapes;
}

void set_shapes(Emitter& e, std::span<const TunedProduct> products) {
  llvm::NamedMDNode* all = e.module().getOrInsertNamedMetadata(kMetadata);
  for (const TunedProduct& product : products) {
    std::vector<llvm::Metadata*> row;
    const auto add = [&](std::int64_t n) { row.push_back(llvm::ConstantAsMetadata::get(e.b().getInt64(n))); };
    add(static_cast<std::int64_t>(product.format));
    add(product.k);
    for (const ShapeInfo& info : shape_infos()) add(product.shapes.*info.member);
    all->addOperand(llvm::MDNode::get(e.context(), row));
  }
}

RowShapes row_shapes(Emitter& e, Format format, std::int64_t k) {
  const llvm::NamedMDNode* all = e.module().getNamedMetadata(kMetadata);
  if (!all) return usual_shapes(e.isa(), format);
  for (const llvm::MDNode* row : all->operands()) {
    const auto number = [&](unsigned i) {
      return llvm::mdconst::extract<llvm::ConstantInt>(row->getOperand(i))->getSExtValue();
    };
    if (number(0) != static_cast<std::int64_t>(format) || number(1) != k) continue;
    RowShapes shapes;
    unsigned i = 2;
    for (const ShapeInfo& info : shape_infos()) shapes.*info.member = number(i++);
    return shapes;
  }
  return usual_shapes(e.isa(), format);
}

}  // namespace gc::cpu
