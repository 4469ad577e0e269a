// Block shapes of the matrix kernels: by facts of the ISA, by the cost table (costs.def), or tuned.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "codegen_cpu/isa.h"
#include "compiler/quant/formats.h"

namespace gc::cpu {

class Emitter;

struct TileShapes {
  int rows;    // of activations in the largest tile
  int panels;  // side by side
};

// Integer tiles: rows x panels sums in registers (two registers each on 256-bit machines), beside the weights of a step
// and the activations of a row. 8 x 2 of 32 zmm, so that 16 rows are two tiles; 4 x 1 of 16 ymm or of 32 registers of NEON.
inline TileShapes int_tiles(const Isa& isa) {
  if (isa.register_bytes() == 2048) return {8, 2};
  return {4, 1};
}

// f32 tiles: rows x panels results, a weight vector a panel (two registers each on 256-bit machines), and one for x. What
// counts is that loads, of weights and of x in all lanes, are few beside FMAs: 11 for 24 of 8 x 3, 8 for 12 of 6 x 1.
inline TileShapes float_tiles(const Isa& isa) {
  if (isa.register_bytes() == 2048) return {8, 3};
  return {6, 1};
}

// Panels in flight when there is one row of activations: four streams read memory a third faster than one (17.2 GB/s
// against 12.7, one core of a Sapphire Rapids), and f32 sums in order of k are chains whose latency needs company.
inline constexpr int kFloatRowPanels = 4;
inline constexpr int kIntRowPanels = 4;

// Bytes that prefetches run ahead, over all streams together (costs.def); into the second level, where there is more room
// to wait: 3 % faster than into the first.
struct Ahead {
  std::int64_t blocks = 0, floats = 0;  // of weights
};
Ahead prefetch_ahead(const Isa& isa);
// The part of one of `streams` that read panels of so many bytes in turn: no more than a panel, or addresses would have to
// skip the other streams' panels twice.
inline std::int64_t stream_ahead(std::int64_t ahead, std::int64_t streams, std::int64_t panel) {
  return std::min(ahead / streams, panel) / 64 * 64;
}

// Activations that stay in the second-level cache while all panels pass by; half of the smallest common one.
inline constexpr std::int64_t kStripeBytes = 512 * 1024;

// The rows of shapes.def.
struct RowShapes {
#define SHAPE(name, least, most, what) std::int64_t name = 0;
#include "codegen_cpu/kernels/matmul/shapes.def"
#undef SHAPE
  bool operator==(const RowShapes&) const = default;
};
struct ShapeInfo {
  std::string_view name;
  std::int64_t RowShapes::* member;
  std::int64_t least, most;
  std::string_view what;
};
std::span<const ShapeInfo> shape_infos();

// Rows of the cost table that hold for the ISA.
struct Cost {
  bool Isa::* fact;
  std::int64_t scale_cols;
  bool has_min;
  std::int64_t rows;
  double vectors, tiles;
};
std::vector<Cost> costs_of(const Isa& isa);

// What the cost table chooses for weights of a format.
RowShapes usual_shapes(const Isa& isa, Format format);

// Shapes measured for matrices of a format and of k columns.
struct TunedProduct {
  Format format;
  std::int64_t k;
  RowShapes shapes;
};
// From now on kernels of the emitter's module have these shapes, where `products` names theirs. They are kept as metadata
// of the module.
void set_shapes(Emitter& e, std::span<const TunedProduct> products);
RowShapes row_shapes(Emitter& e, Format format, std::int64_t k);

}  // namespace gc::cpu
