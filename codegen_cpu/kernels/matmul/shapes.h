// Block shapes of the matrix kernels, by facts of the ISA.
#pragma once

#include <cstdint>

#include "codegen_cpu/isa.h"

namespace gc::cpu {

struct TileShapes {
  int rows;    // of activations in the largest tile
  int panels;  // side by side
};

// Integer tiles: rows x panels sums and as many f32 results in registers (two registers each on 256-bit machines),
// beside the weights of a step. 6 x 2 of 32 zmm; 3 x 1 of 16 ymm.
inline TileShapes int_tiles(const Isa& isa) {
  if (isa.vector_registers() == 32) return {6, 2};
  return {3, 1};
}

// f32 tiles: rows x panels results, a weight vector a panel.
inline TileShapes float_tiles(const Isa& isa) {
  if (isa.vector_registers() == 32) return {6, 2};
  return {3, 2};
}

// Panels in flight when there is one row of activations: four streams read memory a third faster than one (17.2 GB/s
// against 12.7, one core of a Sapphire Rapids), and f32 sums in order of k are chains whose latency needs company.
inline constexpr int kFloatRowPanels = 4;
inline constexpr int kIntRowPanels = 4;

// Bytes that prefetches run ahead, over all streams together: a few hundred ns at one core's bandwidth. Twice and four
// times as much were slower; into the second level (there is more room to wait) 3 % faster than into the first.
inline constexpr std::int64_t kPrefetchAhead = 4096;

// Activations that stay in the second-level cache while all panels pass by; half of the smallest common one.
inline constexpr std::int64_t kStripeBytes = 512 * 1024;

}  // namespace gc::cpu
