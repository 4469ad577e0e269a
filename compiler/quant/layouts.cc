#include "compiler/quant/layouts.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "compiler/base/error.h"
#include "compiler/quant/blocks.h"
#include "compiler/quant/codebooks.h"
#include "compiler/quant/float16.h"

// The way back must round as the file's decoder does.
#pragma STDC FP_CONTRACT OFF

namespace gc {
namespace {

std::vector<Layout> make_table() {
  std::vector<Layout> table;
  auto add = [&](Format format, std::vector<Plane> planes, ValueTable values, std::int32_t offset,
                 ScaleKind scale, ScaleKind min, float unit) {
    const std::int64_t entry = planes.empty() ? 0 : info(format).scale_values;
    Layout l{format, {}, values, offset, scale, min, unit, std::min<std::int64_t>(entry, 32), entry};
    GC_CHECK(planes.size() < l.planes.size() && (l.is_float() || l.scale_cols == 16 || entry % 32 == 0));
    for (std::size_t i = 0; i < planes.size(); ++i) l.planes[i] = planes[i];
    GC_CHECK(!l.index().is_trellis() || offset == kTrellisOffset);
    GC_CHECK(!l.index().is_grid() || info(format).block_values == kGroupCols);
    table.push_back(l);
  };
#define B(bits, at) Plane{bits, at}
#define I(bits, indices) Plane{bits, 0, Indices::indices}
#define PLANES(...) {__VA_ARGS__}
#define LAYOUT(format, planes, table, offset, scale, min, unit) \
  add(Format::format, PLANES planes, ValueTable::table, offset, ScaleKind::scale, ScaleKind::min, unit);
#include "compiler/quant/layouts.def"
#undef LAYOUT
#undef PLANES
#undef I
#undef B
  return table;
}

const Layout* find(Format format) {
  for (const Layout& l : all_layouts()) {
    if (l.format == format) return &l;
  }
  return nullptr;
}

std::int64_t round64(std::int64_t n) { return (n + 63) / 64 * 64; }

float f16_at(const std::uint8_t* p) {
  std::uint16_t bits;
  std::memcpy(&bits, p, 2);
  return f32_of_f16(bits);
}

float super_at(const Layout& l, const std::uint8_t* p, std::int64_t i) {
  if (l.super_bytes() == 2) return f16_at(p + 2 * i);
  float value;
  std::memcpy(&value, p + 4 * i, 4);
  return value;
}

// The scale or min of block `b` and row `r` whose entries begin at `p`, integers times `super`.
float factor(ScaleKind kind, const std::uint8_t* p, std::int64_t b, std::int64_t r, float super) {
  const std::int64_t i = b * kPanelRows + r;
  switch (kind) {
    case ScaleKind::None:
      return 0;
    case ScaleKind::F16:
      return f16_at(p + 2 * i);
    case ScaleKind::U8:
      return super * static_cast<float>(p[i]);
    case ScaleKind::I8:
      return super * static_cast<float>(static_cast<std::int8_t>(p[i]));
    case ScaleKind::Low4:
      return super * static_cast<float>(p[i] & 15);
    case ScaleKind::High4:
      return super * static_cast<float>(p[i] >> 4);
    case ScaleKind::I7:
      return super * static_cast<float>(static_cast<std::int8_t>(p[i]) >> 1);
    case ScaleKind::Bit:  // of a whole scale: `super` has the shift
      return (p[i] & 1) * factor(ScaleKind::I7, p, b, r, super);
    case ScaleKind::Odd7:
      return super * static_cast<float>((p[i] & 254) - 127);
    case ScaleKind::OddBit:
      return (p[i] & 1) * factor(ScaleKind::Odd7, p, b, r, super);
    case ScaleKind::Mask:  // `super`: what is added where the bit is set
      return p[2 * b + r / 8] >> (r % 8) & 1 ? super : 0;
    case ScaleKind::E8M0:
      return half_of_e8m0(p[i]);
    case ScaleKind::UE4M3:
      return half_of_ue4m3(p[i]);
  }
  throw_internal("scale kind");
}

int trellis_quant(const Layout& l, const std::uint8_t* p, std::int64_t r, std::int64_t c) {
  const int n = l.index().values;
  const std::int64_t i = c / n;
  std::uint16_t index;
  std::memcpy(&index, p + i / 2 * 64 + 4 * r + i % 2 * 2, 2);
  int value = 0;
  trellis(index + kTrellisStart, static_cast<int>(c % n) + 1, [&](int, int v) { value = v; });
  if (l.has_signs()) {
    value = std::abs(value);
    if (p[l.index_bytes() + 4 * r + c % 4] >> (c / 4) & 1) value = -value;
  }
  return value + kTrellisOffset;
}

// The code of column `c` of row `r` in the grid of block `block`.
int grid_code(const Layout& l, const std::uint8_t* quants, std::int64_t block, std::int64_t r,
              std::int64_t c) {
  const IndexInfo& x = l.index();
  const std::int64_t v = c / x.values / 4, byte = index_byte(x.values, r, c / x.values % 4);
  int index = quants[block * l.quant_bytes() + 64 * v + byte];
  const std::uint8_t* high = quants - l.high_bytes() + 64 * v * x.high_bits + byte;
  for (int j = 0; j < x.high_bits; ++j) index |= (high[64 * j] >> block & 1) << (8 + j);
  return x.grid[static_cast<std::size_t>(index)] >> (x.code_bits * (c % x.values)) & ((1 << x.code_bits) - 1);
}

// q of column `c` (0..31) of row `r` in the planes of the block-th 32 columns of a group whose quants are at `quants`.
int quant(const Layout& l, const std::uint8_t* quants, std::int64_t block, std::int64_t r, std::int64_t c) {
  const std::uint8_t* p = quants + block * l.quant_bytes();
  if (l.index().is_trellis()) return trellis_quant(l, p, r, c);
  const std::int64_t step = c / 4, byte = 4 * r + c % 4;
  int code = l.index().is_grid() ? grid_code(l, quants, block, r, c) : 0;
  p += l.index_bytes();
  for (int i = l.index().is_grid() ? 1 : 0; l.planes[i].bits != 0; ++i) {
    const int bits = l.planes[i].bits, per_vector = 8 / bits;
    const int packed = p[step / per_vector * 64 + byte];
    code |= (packed >> (bits * (step % per_vector)) & ((1 << bits) - 1)) << l.planes[i].at;
    p += 64 * bits;
  }
  return l.table == ValueTable::Linear ? code : l.values()[code];
}

void unpack_floats(Format format, std::int64_t cols, const std::uint8_t* panel, std::int64_t row,
                   float* out) {
  for (std::int64_t c = 0; c < cols; ++c) {
    std::uint16_t half;
    if (format == Format::F32 || format == Format::F64) {
      std::memcpy(&out[c], panel + 4 * (c * kPanelRows + row), 4);
    } else if (format == Format::F16) {
      out[c] = f16_at(panel + 2 * (c * kPanelRows + row));
    } else {
      GC_CHECK(format == Format::BF16);
      std::memcpy(&half, panel + 2 * ((c / 2 * kPanelRows + row) * 2 + c % 2), 2);
      out[c] = f32_of_bf16(half);
    }
  }
}

}  // namespace

std::span<const Layout> all_layouts() {
  static const std::vector<Layout> table = make_table();
  return table;
}

bool has_layout(Format format) { return find(format) != nullptr; }

const Layout& layout_for(Format format) {
  const Layout* l = find(format);
  if (!l) throw_unsupported("matrices of type ", name(format), " (no row in compiler/quant/layouts.def)");
  return *l;
}

namespace {

template <std::size_t n>
constexpr auto unsigned_values(const std::int8_t (&values)[n], int offset) {
  std::array<std::uint8_t, n <= 16 ? 16 : n> out{};
  for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<std::uint8_t>(values[i] + offset);
  return out;
}

// Magnitudes, then the same below zero.
template <std::size_t n>
constexpr std::array<std::uint8_t, 16> signed_magnitudes(const std::int8_t (&values)[n], int offset) {
  std::array<std::uint8_t, 16> out{};
  for (std::size_t i = 0; i < n; ++i) {
    out[i] = static_cast<std::uint8_t>(offset + values[i]);
    out[i + n] = static_cast<std::uint8_t>(offset - values[i]);
  }
  return out;
}

// The offsets are those of the rows that use a table (checked in value_table).
constexpr auto kIq4 = unsigned_values(kIq4Values, 127);
constexpr auto kFp4 = unsigned_values(kFp4Values, 12);
constexpr auto kIq2 = signed_magnitudes(kIq2Values, 43);
constexpr auto kIq2K = unsigned_values(kIq2KValues, 31);
constexpr auto kIq3K = unsigned_values(kIq3KValues, 63);
constexpr auto kIq5K = unsigned_values(kIq5KValues, 126);
constexpr auto kIq6K = unsigned_values(kIq6KValues, 127);
constexpr auto kIq3Xxs = signed_magnitudes(kIq3XxsValues, 62);

}  // namespace

std::span<const std::uint8_t> Layout::values() const {
  const auto with = [&](std::span<const std::uint8_t> values, int of) {
    GC_CHECK(offset == of, name(format), ": a table for offset ", of);
    return values;
  };
  switch (table) {
    case ValueTable::Linear:
      return {};
    case ValueTable::Iq4:
      return with(kIq4, 127);
    case ValueTable::Fp4:
      return with(kFp4, 12);
    case ValueTable::Iq2:
      return with(kIq2, 43);
    case ValueTable::Iq3Xxs:
      return with(kIq3Xxs, 62);
    case ValueTable::Iq2K:
      return with(kIq2K, 31);
    case ValueTable::Iq3K:
      return with(kIq3K, 63);
    case ValueTable::Iq5K:
      return with(kIq5K, 126);
    case ValueTable::Iq6K:
      return with(kIq6K, 127);
  }
  throw_internal("value table");
}

std::int32_t Layout::shift() const {
  GC_CHECK(min_is_shift());
  switch (table) {
    case ValueTable::Iq2K:
      return kIq2KShift;
    case ValueTable::Iq3K:
      return kIq3KShift;
    case ValueTable::Iq4:
      return kIq4KShift;
    case ValueTable::Iq5K:
      return kIq5KShift;
    case ValueTable::Iq6K:
      return kIq6KShift;
    case ValueTable::Linear:
    case ValueTable::Fp4:
    case ValueTable::Iq2:
    case ValueTable::Iq3Xxs:
      break;
  }
  throw_internal("no shift of ", name(format));
}

bool Layout::needs_super(ScaleKind kind) {
  switch (kind) {
    case ScaleKind::None:
    case ScaleKind::F16:
    case ScaleKind::E8M0:
    case ScaleKind::UE4M3:
      return false;
    case ScaleKind::U8:
    case ScaleKind::I8:
    case ScaleKind::Low4:
    case ScaleKind::High4:
    case ScaleKind::I7:
    case ScaleKind::Bit:
    case ScaleKind::Odd7:
    case ScaleKind::OddBit:
    case ScaleKind::Mask:
      return true;
  }
  throw_internal("scale kind");
}

std::int64_t entry_stride(ScaleKind kind) {
  switch (kind) {
    case ScaleKind::None:
      return 0;
    case ScaleKind::F16:
      return 2 * kPanelRows;
    case ScaleKind::Mask:
      return kPanelRows / 8;
    case ScaleKind::U8:
    case ScaleKind::I8:
    case ScaleKind::Low4:
    case ScaleKind::High4:
    case ScaleKind::I7:
    case ScaleKind::Bit:
    case ScaleKind::Odd7:
    case ScaleKind::OddBit:
    case ScaleKind::E8M0:
    case ScaleKind::UE4M3:
      return kPanelRows;
  }
  throw_internal("scale kind");
}

const IndexInfo& index_info(Indices indices) {
  static const IndexInfo kNone{}, kTrellis8{8}, kTrellis4{4};
  static const IndexInfo kIq2Xxs{8, 0, 2, kGridIq2Xxs}, kIq2Xs{8, 1, 2, kGridIq2Xs},
      kIq3Xxs{4, 0, 3, kGridIq3Xxs};
  switch (indices) {
    case Indices::None:
      return kNone;
    case Indices::Trellis8:
      return kTrellis8;
    case Indices::Trellis4:
      return kTrellis4;
    case Indices::Iq2Xxs:
      return kIq2Xxs;
    case Indices::Iq2Xs:
      return kIq2Xs;
    case Indices::Iq3Xxs:
      return kIq3Xxs;
  }
  throw_internal("indices");
}

std::int64_t Layout::high_bytes() const {
  const IndexInfo& x = index();
  return x.is_grid() ? std::int64_t{64} * x.vectors() * x.high_bits : 0;
}

std::int64_t Layout::quant_bytes() const {
  std::int64_t bits = 0;
  for (const Plane& p : planes) bits += p.bits;
  return 64 * bits;  // 16 rows x 32 columns / 8
}

Layout::Group Layout::group(std::int64_t cols) const {
  const std::int64_t blocks = cols / entry_cols;
  Group g;
  g.scales = supers() * super_bytes() * kPanelRows;
  const std::int64_t end = g.scales + blocks * entry_stride(scale);
  g.mins = min_in_scale() ? g.scales : end;
  g.quants = round64(min_in_scale() ? end : end + blocks * entry_stride(min)) + high_bytes();
  g.bytes = g.quants + cols / 32 * quant_bytes();
  return g;
}

std::int64_t panel_bytes(Format format, std::int64_t cols) {
  const Layout& l = layout_for(format);
  if (l.is_float()) {
    if (format == Format::F32 || format == Format::F64) return cols * kPanelRows * 4;
    if (format == Format::F16) return cols * kPanelRows * 2;
    return (cols + 1) / 2 * kPanelRows * 4;
  }
  GC_CHECK(cols > 0 && cols % info(format).block_values == 0, name(format), " row of ", cols);
  const std::int64_t tail = cols % kGroupCols;
  return cols / kGroupCols * l.group(kGroupCols).bytes + (tail != 0 ? l.group(tail).bytes : 0);
}

std::int64_t packed_bytes(Format format, std::int64_t rows, std::int64_t cols) {
  return panels_of(rows) * panel_bytes(format, cols);
}

RowParts row_parts(Format format, std::int64_t cols, const std::uint8_t* panel, std::int64_t row) {
  const Layout& l = layout_for(format);
  GC_CHECK(!l.is_float());
  RowParts parts;
  for (std::int64_t begin = 0; begin < cols; begin += kGroupCols) {
    const std::int64_t n = std::min(kGroupCols, cols - begin);
    const Layout::Group g = l.group(n);
    const float d = l.supers() > 0 ? l.unit * super_at(l, panel, row) : 1;
    const float dmin = l.supers() > 1     ? l.unit * super_at(l, panel, kPanelRows + row)
                       : l.min_is_shift() ? d * static_cast<float>(l.shift())
                                          : 1;
    for (std::int64_t b = 0; b < n / l.scale_cols; ++b) {
      const std::int64_t entry = b * l.scale_cols / l.entry_cols;
      parts.scale.push_back(factor(l.scale, panel + g.scales, entry, row, d));
      const float of = l.min == ScaleKind::Mask ? parts.scale.back() * static_cast<float>(l.shift()) : dmin;
      const float min = factor(l.min, panel + g.mins, entry, row, of);
      parts.min.push_back(l.min_is_subtracted() ? -min : min);
    }
    for (std::int64_t c = 0; c < n; ++c)
      parts.q.push_back(quant(l, panel + g.quants, c / 32, row, c % 32) - l.offset);
    panel += g.bytes;
  }
  return parts;
}

void unpack_row(Format format, std::int64_t cols, const std::uint8_t* panel, std::int64_t row, float* out) {
  const Layout& l = layout_for(format);
  if (l.is_float()) return unpack_floats(format, cols, panel, row, out);
  const RowParts parts = row_parts(format, cols, panel, row);
  for (std::int64_t c = 0; c < cols; ++c) {
    const std::int64_t b = c / l.scale_cols;
    if (l.min_is_shift()) {  // added to q as the format says, not rounded by itself
      out[c] = parts.scale[b] * static_cast<float>(parts.q[c] + (parts.min[b] != 0 ? l.shift() : 0));
      continue;
    }
    out[c] = parts.scale[b] * static_cast<float>(parts.q[c]);
    if (l.min != ScaleKind::None) out[c] = out[c] + parts.min[b];
  }
}

}  // namespace gc
