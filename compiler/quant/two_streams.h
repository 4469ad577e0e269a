// A matrix in two streams: the upper bits of all its values, then the lower bits. A head that looks for the greatest
// products reads the first stream and proves for most rows that they can't matter (codegen_cpu/kernels/head).
//
//   upper   panels as in layouts.h, of q >> 2, scales beside
//   lower   panels of 2 bits: for each 32 columns of 16 rows one plane, 128 bytes
//
// Together they have the bytes of the matrix in one stream. Only Q8_0 has such a form: of 8 bits, 6 leave a few dozen
// rows of 262,144 open; Q6_K's 4 of 6 would leave a third of them, its 5 of 6 save too little.
#pragma once

#include <cstdint>

#include "compiler/quant/layouts.h"

namespace gc {

inline constexpr int kLowerBits = 2;

inline bool has_two_streams(Format format) { return format == Format::Q8_0; }
// Of the streams alone, for what reads planes by their layout.
const Layout& upper_layout();
const Layout& lower_layout();
std::int64_t upper_panel_bytes(std::int64_t cols);
std::int64_t lower_panel_bytes(std::int64_t cols);

// One panel of layouts.h into one of each stream; either may be null.
void split_panel(std::int64_t cols, const std::uint8_t* panel, std::uint8_t* upper, std::uint8_t* lower);

}  // namespace gc
