#include "compiler/pack/pack.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compiler/base/error.h"
#include "compiler/pack/split_grids.h"
#include "compiler/quant/float16.h"
#include "compiler/quant/layouts.h"

namespace gc::pack {
namespace {

constexpr std::int64_t kChunkBytes = 1 << 20;  // what is packed between two calls of the sink

// A group of a panel taken apart: rows beside each other, as they will be stored.
struct GroupParts {
  std::uint8_t q[kPanelRows][kGroupCols];
  std::uint16_t supers[2][kPanelRows];  // or f32[16 rows]
  std::uint16_t scales[kGroupCols / 16][kPanelRows];
  std::uint16_t mins[kGroupCols / 16][kPanelRows];
};
static_assert(kPartStride == kPanelRows);

// Columns [begin, begin + cols) of `rows` rows.
template <class Block>
void split_group(const Layout& l, const std::uint8_t* src, std::int64_t stride, std::int64_t rows,
                 std::int64_t begin, std::int64_t cols, GroupParts& parts) {
  const std::int64_t block_values = info(l.format).block_values;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::uint8_t* row = src + r * stride + head_bytes(l.format) +
                              begin / block_values * static_cast<std::int64_t>(sizeof(Block));
    // A head is the factor of each of its row's groups.
    std::memcpy(reinterpret_cast<std::uint8_t*>(parts.supers) + r * l.super_bytes(), src + r * stride,
                static_cast<std::size_t>(head_bytes(l.format)));
    for (std::int64_t c = 0; c < cols; c += block_values) {
      const std::int64_t scale = c / l.entry_cols;
      split(*reinterpret_cast<const Block*>(row),
            Parts{&parts.q[r][c], &parts.supers[0][r], &parts.scales[scale][r], &parts.mins[scale][r]});
      row += sizeof(Block);
    }
  }
}

using SplitGroup = void (*)(const Layout&, const std::uint8_t*, std::int64_t, std::int64_t, std::int64_t,
                            std::int64_t, GroupParts&);

SplitGroup splitter(Format format) {
#define SPLIT(name)                           \
  case Format::name:                          \
    static_assert(alignof(Block##name) == 1); \
    return split_group<Block##name>
  switch (format) {
    SPLIT(Q4_0);
    SPLIT(Q4_1);
    SPLIT(Q5_0);
    SPLIT(Q5_1);
    SPLIT(Q8_0);
    SPLIT(Q2_K);
    SPLIT(Q3_K);
    SPLIT(Q4_K);
    SPLIT(Q5_K);
    SPLIT(Q6_K);
    SPLIT(IQ1_S);
    SPLIT(IQ1_M);
    SPLIT(IQ2_XXS);
    SPLIT(IQ2_XS);
    SPLIT(IQ2_S);
    SPLIT(IQ3_XXS);
    SPLIT(IQ3_S);
    SPLIT(IQ4_NL);
    SPLIT(IQ4_XS);
    SPLIT(TQ1_0);
    SPLIT(TQ2_0);
    SPLIT(MXFP4);
    SPLIT(NVFP4);
    SPLIT(Q1_0);
    SPLIT(Q2_0);
    SPLIT(Q6_0);
    SPLIT(IQ1_BN);
    SPLIT(IQ2_BN);
    SPLIT(IQ2_K);
    SPLIT(IQ3_K);
    SPLIT(IQ4_K);
    SPLIT(IQ5_K);
    SPLIT(IQ6_K);
    SPLIT(IQ2_KS);
    SPLIT(IQ3_KS);
    SPLIT(IQ4_KS);
    SPLIT(IQ4_KSS);
    SPLIT(IQ5_KS);
    SPLIT(IQ2_KL);
    SPLIT(IQ1_KT);
    SPLIT(IQ2_KT);
    SPLIT(IQ3_KT);
    SPLIT(IQ4_KT);
    SPLIT(IQ1_S_R4);
    SPLIT(IQ1_M_R4);
    default:  // not in layouts.def: layout_for has thrown
      throw_internal("no split of ", name(format));
  }
#undef SPLIT
}

std::uint8_t* store_factors(ScaleKind kind, const std::uint16_t (*factors)[kPanelRows], std::int64_t blocks,
                            std::uint8_t* out) {
  switch (kind) {
    case ScaleKind::None:
    case ScaleKind::High4:  // stored with the scales
    case ScaleKind::Bit:
    case ScaleKind::OddBit:
      return out;
    case ScaleKind::F16:
      std::memcpy(out, factors, static_cast<std::size_t>(blocks * kPanelRows * 2));
      return out + blocks * kPanelRows * 2;
    case ScaleKind::Mask:
      for (std::int64_t b = 0; b < blocks; ++b) {
        std::uint16_t mask = 0;
        for (int r = 0; r < kPanelRows; ++r) mask |= static_cast<std::uint16_t>((factors[b][r] & 1) << r);
        std::memcpy(out, &mask, sizeof mask);
        out += sizeof mask;
      }
      return out;
    case ScaleKind::U8:
    case ScaleKind::I8:
    case ScaleKind::Low4:
    case ScaleKind::I7:
    case ScaleKind::Odd7:
    case ScaleKind::E8M0:
    case ScaleKind::UE4M3:
      for (std::int64_t b = 0; b < blocks; ++b) {
        for (int r = 0; r < kPanelRows; ++r) *out++ = static_cast<std::uint8_t>(factors[b][r]);
      }
      return out;
  }
  throw_internal("scale kind");
}

// The 8 steps of 32 columns as words of four steps' bytes: 16 rows of 4 columns each.
struct Steps {
  std::uint32_t word[8][kPanelRows];
};

// One plane of `bits` from bit `shift` of the values: each 64-byte vector gathers 8 / bits steps.
template <int bits>
std::uint8_t* store_plane(const Steps& steps, int shift, std::uint8_t* out) {
  constexpr int kPerVector = 8 / bits;
  constexpr std::uint32_t kMask = ((1u << bits) - 1) * 0x01010101u;
  for (int v = 0; v < bits; ++v) {
    std::uint32_t vector[kPanelRows] = {};
    for (int s = 0; s < kPerVector; ++s) {
      const std::uint32_t* step = steps.word[v * kPerVector + s];
      for (int r = 0; r < kPanelRows; ++r) vector[r] |= (step[r] >> shift & kMask) << (bits * s);
    }
    std::memcpy(out, vector, sizeof vector);
    out += sizeof vector;
  }
  return out;
}

std::uint8_t* store_planes(const Layout& l, const Steps& steps, std::uint8_t* out) {
  for (int i = 0; l.planes[i].bits != 0; ++i) {
    const int shift = l.planes[i].at;
    switch (l.planes[i].bits) {
      case 1:
        out = store_plane<1>(steps, shift, out);
        break;
      case 2:
        out = store_plane<2>(steps, shift, out);
        break;
      case 4:
        out = store_plane<4>(steps, shift, out);
        break;
      case 8:
        out = store_plane<8>(steps, shift, out);
        break;
      default:
        throw_internal("plane of ", int{l.planes[i].bits}, " bits");
    }
  }
  return out;
}

void store_trellis(int n, const GroupParts& parts, std::int64_t begin, std::uint8_t* out) {
  for (int v = 0; v < 16 / n; ++v) {
    for (int r = 0; r < kPanelRows; ++r, out += 4) {
      const std::uint8_t* q = &parts.q[r][begin + 2 * n * v];
      std::memcpy(out, q, 2);
      std::memcpy(out + 2, q + n, 2);
    }
  }
}

// high: where the group's further bits are, all 0 before its first block.
void store_grid(const IndexInfo& x, const GroupParts& parts, std::int64_t block, std::uint8_t* high,
                std::uint8_t* out) {
  for (int r = 0; r < kPanelRows; ++r) {
    for (int i = 0; i < 32 / x.values; ++i) {
      const std::uint8_t* q = &parts.q[r][32 * block + i * x.values];
      const std::int64_t v = i / 4, byte = index_byte(x.values, r, i % 4);
      out[64 * v + byte] = q[0];
      for (int j = 0; j < x.high_bits; ++j) {
        std::uint8_t& bits = high[64 * (v * x.high_bits + j) + byte];
        bits = static_cast<std::uint8_t>(bits | (q[1] >> j & 1) << block);
      }
    }
  }
}

// The indices of 32 columns, q as split() leaves it, and their signs in the order of steps.
std::uint8_t* store_indices(const Layout& l, const GroupParts& parts, std::int64_t block, std::uint8_t* high,
                            std::uint8_t* out) {
  const int n = l.index().values;
  const std::int64_t begin = 32 * block;
  if (l.index().is_trellis()) {
    store_trellis(n, parts, begin, out);
  } else {
    store_grid(l.index(), parts, block, high, out);
  }
  out += l.index_bytes();
  if (!l.has_signs()) return out;
  Steps steps{};
  for (int r = 0; r < kPanelRows; ++r) {
    for (int c = 0; c < 32; ++c) {
      const std::uint32_t minus = parts.q[r][begin + c / n * n + 2] >> (c % n) & 1u;
      steps.word[c / 4][r] |= minus << (c % 4 * 8);
    }
  }
  return store_plane<1>(steps, 0, out);
}

void store_group(const Layout& l, const GroupParts& parts, std::int64_t cols, std::uint8_t* out) {
  const Layout::Group g = l.group(cols);
  const std::int64_t blocks = cols / l.entry_cols;
  std::memcpy(out, parts.supers, static_cast<std::size_t>(l.supers() * kPanelRows * l.super_bytes()));
  std::uint8_t* end = store_factors(l.scale, parts.scales, blocks, out + g.scales);
  end = store_factors(l.min, parts.mins, blocks, end);
  std::memset(end, 0, static_cast<std::size_t>(out + g.quants - end));
  std::uint8_t* quants = out + g.quants;
  for (std::int64_t c = 0; c < cols; c += 32) {
    if (l.index().values > 0) {
      quants = store_indices(l, parts, c / 32, out + g.quants - l.high_bytes(), quants);
      continue;
    }
    Steps steps;
    for (int r = 0; r < kPanelRows; ++r) {
      for (int s = 0; s < 8; ++s) std::memcpy(&steps.word[s][r], &parts.q[r][c + 4 * s], 4);
    }
    quants = store_planes(l, steps, quants);
  }
}

void pack_block_panel(const Layout& l, std::int64_t cols, const std::uint8_t* src, std::int64_t rows,
                      GroupParts& parts, std::uint8_t* out) {
  const SplitGroup split_rows = splitter(l.format);
  // Rows that pad the last panel have all parts zero: their values are 0 * (0 - offset) + 0.
  if (rows < kPanelRows) parts = {};
  for (std::int64_t begin = 0; begin < cols; begin += kGroupCols) {
    const std::int64_t n = std::min(kGroupCols, cols - begin);
    split_rows(l, src, row_bytes(l.format, cols), rows, begin, n, parts);
    store_group(l, parts, n, out);
    out += l.group(n).bytes;
  }
}

float value_at(Format format, const std::uint8_t* p) {
  std::uint16_t half;
  if (format == Format::F32) {
    float value;
    std::memcpy(&value, p, 4);
    return value;
  }
  if (format == Format::F64) {
    double value;
    std::memcpy(&value, p, 8);
    return static_cast<float>(value);
  }
  if (format == Format::I32) {
    std::int32_t value;
    std::memcpy(&value, p, 4);
    return static_cast<float>(value);
  }
  GC_CHECK(format == Format::F16 || format == Format::BF16);
  std::memcpy(&half, p, 2);
  return format == Format::F16 ? f32_of_f16(half) : f32_of_bf16(half);
}

void pack_f64_panel(std::int64_t cols, const std::uint8_t* src, std::int64_t rows, std::uint8_t* out) {
  for (std::int64_t c = 0; c < cols; ++c) {
    for (std::int64_t r = 0; r < kPanelRows; ++r) {
      const float value = r < rows ? value_at(Format::F64, src + (r * cols + c) * 8) : 0;
      std::memcpy(out + (c * kPanelRows + r) * 4, &value, 4);
    }
  }
}

// T: the bits of a value; `pair` values of a row stay beside each other.
template <class T, int pair>
void pack_float_panel(std::int64_t cols, const std::uint8_t* src, std::int64_t rows, std::uint8_t* out) {
  const std::int64_t padded = (cols + pair - 1) / pair * pair;
  if (rows < kPanelRows || padded != cols)
    std::memset(out, 0, static_cast<std::size_t>(padded * kPanelRows) * sizeof(T));
  constexpr std::int64_t kTile = 64;  // columns: 16 rows of a tile stay in the first-level cache
  for (std::int64_t begin = 0; begin < cols; begin += kTile) {
    const std::int64_t end = std::min(cols, begin + kTile);
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::uint8_t* row = src + r * cols * static_cast<std::int64_t>(sizeof(T));
      for (std::int64_t c = begin; c < end; ++c) {
        const std::int64_t at = (c / pair * kPanelRows + r) * pair + c % pair;
        std::memcpy(out + at * static_cast<std::int64_t>(sizeof(T)),
                    row + c * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
      }
    }
  }
}

}  // namespace

void pack_matrix(Format format, std::int64_t rows, std::int64_t cols, const RowSource& source,
                 const PanelSink& sink) {
  const Layout& l = layout_for(format);
  const std::int64_t panel = panel_bytes(format, cols), row = row_bytes(format, cols);
  const std::int64_t panels_at_once = std::clamp<std::int64_t>(kChunkBytes / panel, 1, panels_of(rows));
  std::vector<std::uint8_t> packed(static_cast<std::size_t>(panels_at_once * panel));
  GroupParts parts{};
  for (std::int64_t first = 0; first < rows; first += panels_at_once * kPanelRows) {
    const std::int64_t count = std::min(panels_at_once * kPanelRows, rows - first);
    const std::span<const std::uint8_t> raw = source(first, count);
    GC_CHECK(static_cast<std::int64_t>(raw.size()) == count * row, "source gave ", raw.size(), " bytes");
    for (std::int64_t r = 0; r < count; r += kPanelRows) {
      const std::uint8_t* src = raw.data() + r * row;
      std::uint8_t* out = packed.data() + r / kPanelRows * panel;
      const std::int64_t n = std::min(kPanelRows, count - r);
      if (!l.is_float()) {
        pack_block_panel(l, cols, src, n, parts, out);
      } else if (format == Format::F32) {
        pack_float_panel<std::uint32_t, 1>(cols, src, n, out);
      } else if (format == Format::F64) {
        pack_f64_panel(cols, src, n, out);
      } else if (format == Format::F16) {
        pack_float_panel<std::uint16_t, 1>(cols, src, n, out);
      } else {
        GC_CHECK(format == Format::BF16);
        pack_float_panel<std::uint16_t, 2>(cols, src, n, out);
      }
    }
    sink({packed.data(), static_cast<std::size_t>(panels_of(count) * panel)});
  }
}

std::vector<float> pack_vector(Format format, std::span<const std::uint8_t> bytes, std::int64_t n) {
  GC_CHECK(static_cast<std::int64_t>(bytes.size()) == row_bytes(format, n));
  if (info(format).kind != FormatKind::kFloat && format != Format::I32)
    throw_unsupported("vectors of type ", name(format), " (F32, F64, F16, BF16 and I32 are)");
  std::vector<float> out(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) out[i] = value_at(format, &bytes[i * info(format).block_bytes]);
  return out;
}

std::vector<float> rope_table(const RopeParams& rope, std::int64_t positions, std::int64_t step,
                              std::span<const float> factors) {
  GC_CHECK(factors.empty() || static_cast<std::int64_t>(factors.size()) == rope.dims / 2, factors.size(),
           " RoPE factors");
  std::vector<float> table(static_cast<std::size_t>(positions * rope.dims));
  for (std::int64_t p = 0; p < positions; ++p) rope_row(rope, factors, p * step, &table[p * rope.dims]);
  return table;
}

}  // namespace gc::pack
