#include "compiler/quant/two_streams.h"

#include <algorithm>
#include <cstring>

namespace gc {
namespace {

Layout of_planes(std::array<Plane, 4> planes) {
  Layout l = layout_for(Format::Q8_0);
  l.planes = planes;
  return l;
}

constexpr std::int64_t kVector = 64;

// Bits [shift, shift + bits) of the 8 vectors of one-byte values at `from`, packed as a plane of layouts.h.
void pack_plane(const std::uint8_t* from, int shift, int bits, std::uint8_t* to) {
  const int per_vector = 8 / bits;
  for (int v = 0; v < bits; ++v) {
    for (std::int64_t i = 0; i < kVector; ++i) {
      unsigned packed = 0;
      for (int s = 0; s < per_vector; ++s)
        packed |= (from[(v * per_vector + s) * kVector + i] >> shift & ((1u << bits) - 1)) << (bits * s);
      to[v * kVector + i] = static_cast<std::uint8_t>(packed);
    }
  }
}

}  // namespace

const Layout& upper_layout() {
  static const Layout layout = of_planes({Plane{4, 0}, Plane{2, 4}});
  return layout;
}
const Layout& lower_layout() {
  static const Layout layout = of_planes({Plane{2, 0}});
  return layout;
}

std::int64_t upper_panel_bytes(std::int64_t cols) {
  const std::int64_t tail = cols % kGroupCols;
  return cols / kGroupCols * upper_layout().group(kGroupCols).bytes +
         (tail != 0 ? upper_layout().group(tail).bytes : 0);
}
std::int64_t lower_panel_bytes(std::int64_t cols) { return cols / 32 * lower_layout().quant_bytes(); }

void split_panel(std::int64_t cols, const std::uint8_t* panel, std::uint8_t* upper, std::uint8_t* lower) {
  const Layout& whole = layout_for(Format::Q8_0);
  for (std::int64_t begin = 0; begin < cols; begin += kGroupCols) {
    const std::int64_t n = std::min(kGroupCols, cols - begin);
    const Layout::Group from = whole.group(n), to = upper_layout().group(n);
    if (upper) std::memcpy(upper, panel, static_cast<std::size_t>(from.quants));
    for (std::int64_t c = 0; c < n; c += 32) {
      const std::uint8_t* q = panel + from.quants + c / 32 * whole.quant_bytes();
      if (upper) {
        std::uint8_t* planes = upper + to.quants + c / 32 * upper_layout().quant_bytes();
        pack_plane(q, kLowerBits, 4, planes);
        pack_plane(q, kLowerBits + 4, 2, planes + 4 * kVector);
      }
      if (lower) {
        pack_plane(q, 0, kLowerBits, lower);
        lower += lower_layout().quant_bytes();
      }
    }
    panel += from.bytes;
    if (upper) upper += to.bytes;
  }
}

}  // namespace gc
