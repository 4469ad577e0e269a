#include "compiler/quant/finite.h"

#include <cstring>

#include "compiler/base/error.h"
#include "compiler/quant/blocks.h"

namespace gc {
namespace {

// Infinity and NaN have all bits of the exponent set.
template <class Bits>
bool not_finite(Bits bits, Bits exponent) {
  return (bits & exponent) == exponent;
}
bool not_finite(F16Bits f) { return not_finite<std::uint16_t>(f.bits, 0x7c00); }
bool not_finite(float f) {
  std::uint32_t bits;
  std::memcpy(&bits, &f, sizeof bits);
  return not_finite<std::uint32_t>(bits, 0x7f800000);
}

// Factors have the same names in all blocks.
template <class Block>
bool block_not_finite(const Block& b) {
  bool bad = false;
  if constexpr (requires(Block x) { not_finite(x.d); }) bad |= not_finite(b.d);
  if constexpr (requires { b.m; }) bad |= not_finite(b.m);
  if constexpr (requires { b.dmin; }) bad |= not_finite(b.dmin);
  return bad;
}
// Its factor is spread over the upper bits of its scales.
bool block_not_finite(const BlockIQ1_M& b) { return (b.scales[3] >> 12 & 7) == 7 && b.scales[2] >> 14 == 3; }
bool block_not_finite(const BlockMXFP4& b) { return b.e == 0xff; }

template <class Block>
bool blocks_not_finite(const std::uint8_t* row, std::int64_t n) {
  bool bad = false;
  for (std::int64_t i = 0; i < n; ++i)
    bad |= block_not_finite(*reinterpret_cast<const Block*>(row + i * std::int64_t{sizeof(Block)}));
  return bad;
}

template <class Bits>
bool floats_not_finite(const std::uint8_t* row, std::int64_t n, Bits exponent) {
  bool bad = false;
  for (std::int64_t i = 0; i < n; ++i) {
    Bits bits;
    std::memcpy(&bits, row + i * std::int64_t{sizeof bits}, sizeof bits);
    bad |= not_finite(bits, exponent);
  }
  return bad;
}

bool head_not_finite(RowHead head, const std::uint8_t* row) {
  switch (head) {
    case RowHead::kNone:
      return false;
    case RowHead::kF16:
      return floats_not_finite<std::uint16_t>(row, 1, 0x7c00);
    case RowHead::kF32:
      return floats_not_finite<std::uint32_t>(row, 1, 0x7f800000);
  }
  throw_internal("head of a row");
}

bool row_not_finite(Format format, std::int64_t cols, const std::uint8_t* row) {
  switch (format) {
    case Format::F32:
      return floats_not_finite<std::uint32_t>(row, cols, 0x7f800000);
    case Format::F16:
      return floats_not_finite<std::uint16_t>(row, cols, 0x7c00);
    case Format::BF16:
      return floats_not_finite<std::uint16_t>(row, cols, 0x7f80);
    case Format::F64:
      return floats_not_finite<std::uint64_t>(row, cols, 0x7ff0000000000000);
#define ROW_kFloat(name)
#define ROW_kInt(name) \
  case Format::name:   \
    return false;
#define ROW_kBlock(name) \
  case Format::name:     \
    return blocks_not_finite<Block##name>(row + head_bytes(format), cols / info(format).block_values);
#define FORMAT(name, gguf_id, block_values, block_bytes, kind, scale_values, head) ROW_##kind(name)
#include "compiler/quant/formats.def"
#undef FORMAT
#undef ROW_kFloat
#undef ROW_kInt
#undef ROW_kBlock
  }
  throw_internal("format");
}

}  // namespace

std::optional<std::int64_t> first_row_not_finite(Format format, std::int64_t cols,
                                                 std::span<const std::uint8_t> bytes) {
  const std::int64_t row = row_bytes(format, cols);
  const std::int64_t rows = row == 0 ? 0 : static_cast<std::int64_t>(bytes.size()) / row;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::uint8_t* data = bytes.data() + r * row;
    if (head_not_finite(info(format).head, data) || row_not_finite(format, cols, data)) return r;
  }
  return std::nullopt;
}

}  // namespace gc
