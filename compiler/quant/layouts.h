// Packed layouts of weight matrices [rows, cols] (cols = K is what a product sums over); the table is layouts.def.
//
// A matrix is cut into panels of 16 rows (the last padded with zeros), stored one after the other. A panel of a block
// format is a sequence of groups of 256 columns (the last may be shorter, any multiple of 32), each 64-byte aligned:
//
//   supers   f16 | f32 [n_supers][16 rows]    the groups' scale and min factors (of K-quants), or the rows'
//   scales   f16 | 8 bits [blocks][16 rows]   a block: the 16, 32 or more columns of one scale
//   mins     f16 | 8 bits [blocks][16 rows]   (of kinds High4, Bit and OddBit: in the scales' bytes;
//                                             of kind Mask: 16 bits [blocks], bit r that of row r)
//   (padding to 64 bytes)
//   quants   for each 32 columns: plane after plane, lowest bits first
//
// A step is 16 rows x 4 columns, byte 4 r + c: a 64-byte vector, the operand of an 8-bit dot product (vpdpbusd), two
// 32-byte ones for 256-bit machines, and 1/16 of an AMX tile; 32 columns are 8 steps. A plane of b bits holds 8/b
// steps in each 64-byte vector, step s in bits b * (s % (8/b)) of every byte of vector s / (8/b): unpacking is shift
// and mask on whole vectors, without a shuffle, on any machine.
//
// Types whose values follow from indices, one for n columns of a row, may keep those in the place of their first plane:
//
//   trellis  16 bits: vectors of 16 words, that of row r at byte 4 r; vector v has the row's indices 2 v (low half), 2 v + 1
//   grid     8 bits: vectors of 64 bytes of four indices a row, index_byte() says where; further bits stand before the
//            quants in vectors for the whole group, bit i of a byte that of the i-th 32 columns, one vector for each bit
//            (lowest first) of each of those vectors
//
//   F32  [col][16] f32 (F64 rounded to it)     F16  [col][16] f16     BF16  [col / 2][16][2] bf16, an odd last column padded with zero
//
// Why panels, not rows: a product needs no horizontal sums, its 16 results are one vector, and one image serves all
// x86 machines. Why groups: scales beside their values make one linear stream per panel, and 256 columns fill vectors
// of scales. A packed matrix is within 6 % of the file's (padding rows apart), since 6-bit scales are kept as bytes; but for
// the codebook and base-3 types, and a few of those whose scales have 4 bits (layouts.def).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "compiler/quant/formats.h"

namespace gc {

inline constexpr std::int64_t kPanelRows = 16;
inline constexpr std::int64_t kGroupCols = 256;

enum class ScaleKind : std::uint8_t {
  None,
  F16,
  U8,
  I8,
  Low4,
  High4,
  I7,
  Bit,
  Odd7,
  OddBit,
  Mask,
  E8M0,
  UE4M3
};

// What the codes of a layout stand for (value_table of layouts.cc).
enum class ValueTable : std::uint8_t { Linear, Iq4, Fp4, Iq2, Iq3Xxs, Iq2K, Iq3K, Iq5K, Iq6K };

enum class Indices : std::uint8_t { None, Trellis8, Trellis4, Iq2Xxs, Iq2Xs, Iq3Xxs };

// Bits of a code that lie together; 0 bits end a list of planes.
struct Plane {
  std::uint8_t bits, at;
  Indices indices =
      Indices::None;  // in the plane's place, of so many bits a value; only the first plane may be such
};

struct IndexInfo {
  int values = 0;                       // of an index; 0: codes lie in planes
  int high_bits = 0;                    // of a grid's index, above its lowest 8
  int code_bits = 0;                    // of a grid's values
  std::span<const std::uint16_t> grid;  // codes of all indices (codebooks.h)

  bool is_trellis() const { return values > 0 && grid.empty(); }
  bool is_grid() const { return !grid.empty(); }
  int vectors() const { return 8 / values; }  // of a grid's indices of 32 columns
};
const IndexInfo& index_info(Indices indices);
// Of a grid of so many values: the byte of row `row`'s index `index` (0..3 of its vector). Where values are 4, rows and indices
// are so mixed that the two halves of what is looked up come together by interleaving (codegen_cpu/decode/grid.cc).
constexpr std::int64_t index_byte(int values, std::int64_t row, std::int64_t index) {
  return values == 8 ? 4 * row + index : row / 4 * 16 + index / 2 * 8 + row % 4 * 2 + index % 2;
}

struct Layout {
  Format format;
  std::array<Plane, 4> planes;
  ValueTable table;
  std::int32_t offset;
  ScaleKind scale, min;
  float unit;
  std::int64_t
      scale_cols;  // columns whose products are summed before a scale is applied, 16 or 32; 0: float formats
  std::int64_t
      entry_cols;  // columns that share a scale: scale_cols, or a multiple where a scale spans more than 32

  bool is_float() const { return scale_cols == 0; }
  const IndexInfo& index() const { return index_info(planes[0].indices); }
  // A plane of one bit behind the indices has the signs of what are magnitudes.
  bool has_signs() const { return index().values > 0 && planes[1].bits != 0; }
  std::int64_t index_bytes() const {
    return index().values > 0 ? 64 * planes[0].bits : 0;
  }  // of 16 rows x 32 columns
  std::int64_t high_bytes() const;  // of a group's further bits of indices, which end where the quants begin
  // Factors of a group: of the scales, then of the mins where these have their own.
  std::int64_t supers() const { return (needs_super(scale) ? 1 : 0) + (min_is_subtracted() ? 1 : 0); }
  static bool needs_super(ScaleKind kind);
  // Of one factor: 4 for f32, else 2.
  std::int64_t super_bytes() const { return info(format).head == RowHead::kF32 ? 4 : 2; }
  bool min_is_subtracted() const { return min == ScaleKind::U8 || min == ScaleKind::High4; }
  // The min lies in the bytes of the scales.
  bool min_in_scale() const {
    return min == ScaleKind::High4 || min == ScaleKind::Bit || min == ScaleKind::OddBit;
  }
  // The min is 0 or scale * shift().
  bool min_is_shift() const {
    return min == ScaleKind::Bit || min == ScaleKind::OddBit || min == ScaleKind::Mask;
  }
  std::int32_t shift() const;
  // q of each code of 4, 5 or 6 bits: 16, 32 or 64 entries; empty where the code is q.
  std::span<const std::uint8_t> values() const;
  std::int64_t quant_bytes() const;  // of 16 rows x 32 columns

  // Where the parts of a group of `cols` columns begin, and its bytes. Block formats only.
  struct Group {
    std::int64_t scales, mins, quants, bytes;  // supers at 0
  };
  Group group(std::int64_t cols) const;
};

// Whether matrices of the format can be packed (all that layouts.def has).
bool has_layout(Format format);
// Throws UnsupportedError naming the format when there is no row.
const Layout& layout_for(Format format);
std::span<const Layout> all_layouts();

inline std::int64_t panels_of(std::int64_t rows) { return (rows + kPanelRows - 1) / kPanelRows; }
// Bytes of a panel of K columns; always a multiple of 64 for block formats, F32 and F64, of 32 for the others.
std::int64_t panel_bytes(Format format, std::int64_t cols);
// Of a whole matrix.
std::int64_t packed_bytes(Format format, std::int64_t rows, std::int64_t cols);

// Reads row `row` (0..15) of a packed panel back: bit for bit what dequantize_row gives for the file's row,
// but for the sign of zeros of layouts whose min is a shift, and of IQ3_KT.
void unpack_row(Format format, std::int64_t cols, const std::uint8_t* panel, std::int64_t row, float* out);

// Bytes from a block's scales or mins to the next block's.
std::int64_t entry_stride(ScaleKind kind);

// Row `row` of a panel of a block format in parts: q - offset of each column, and scale and min (to be added) of each
// scale_cols columns, as f32; min is 0 where there is none.
struct RowParts {
  std::vector<std::int32_t> q;
  std::vector<float> scale, min;
};
RowParts row_parts(Format format, std::int64_t cols, const std::uint8_t* panel, std::int64_t row);

}  // namespace gc
