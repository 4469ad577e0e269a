#include "codegen_cpu/kernels/matmul/tile_unpack.h"

#include <algorithm>
#include <array>
#include <vector>

#include "codegen_cpu/vec/vec.h"
#include "llvm/IR/Constants.h"

namespace gc::cpu {

using llvm::Value;

namespace {

constexpr int kInMantissa = 128;
// Whether q < 128.
bool fits_mantissa(const Layout& layout) { return most_code(layout) < kInMantissa; }

// The two lines of a tile that a step makes. Rounded to nearest, ties away from zero: fewer instructions than
// vcvtne2ps2bf16 and the shuffle behind it.
std::array<Value*, 2> pairs_of(Emitter& e, const Layout& layout, Value* step, const CodeFactors& f) {
  auto& b = e.b();
  auto* words = llvm::FixedVectorType::get(b.getInt32Ty(), 16);
  const std::array<Value*, 4> values = values_of(e, layout, step, f);
  const auto rounded = [&](Value* x) {
    return b.CreateAdd(b.CreateBitCast(x, words), llvm::ConstantInt::get(words, 0x8000));
  };
  std::array<Value*, 2> lines;
  for (int i = 0; i < 2; ++i)
    lines[i] = halves_joined(e, b.CreateLShr(rounded(values[2 * i]), 16), rounded(values[2 * i + 1]));
  return lines;
}

}  // namespace

std::int32_t most_code(const Layout& layout) {
  if (!layout.values().empty()) return *std::max_element(layout.values().begin(), layout.values().end());
  if (layout.index().is_trellis()) return 2 * layout.offset;  // sums of bytes
  std::int32_t most = 0;
  for (const Plane& plane : layout.planes) most += ((1 << plane.bits) - 1) << plane.at;
  return most;
}

CodeFactors code_factors(Emitter& e, const Layout& layout, Value* scale, Value* min) {
  Vec v(e);
  const int from = layout.offset + (fits_mantissa(layout) ? kInMantissa : 0);
  if (from == 0) return {scale, min};
  return {scale, min ? v.fma(scale, v.splat(-from), min) : v.mul(scale, v.splat(-from))};
}

std::array<Value*, 4> values_of(Emitter& e, const Layout& layout, Value* step, const CodeFactors& f) {
  auto& b = e.b();
  Vec v(e);
  const bool in_mantissa = fits_mantissa(layout);
  auto* words = llvm::FixedVectorType::get(b.getInt32Ty(), 16);
  auto* halves = llvm::FixedVectorType::get(b.getInt16Ty(), 32);
  const auto word = [&](std::uint64_t n) { return llvm::ConstantInt::get(words, n); };
  const auto value = [&](Value* x) {
    x = in_mantissa ? b.CreateBitCast(x, v.type()) : b.CreateSIToFP(x, v.type());
    return f.add ? v.fma(x, f.scale, f.add) : v.mul(x, f.scale);
  };
  Value* even = b.CreateAnd(b.CreateBitCast(step, words), word(0x00ff00ff));
  Value* odd = b.CreateBitCast(b.CreateLShr(b.CreateBitCast(step, halves), 8), words);
  std::array<Value*, 4> values;
  for (int i = 0; i < 2; ++i) {
    Value* codes = i == 0 ? even : odd;
    if (in_mantissa) codes = b.CreateOr(codes, word(0x43004300));
    values[2 * i] = value(in_mantissa ? b.CreateShl(codes, 16) : b.CreateAnd(codes, word(0xff)));
    values[2 * i + 1] = value(in_mantissa ? b.CreateAnd(codes, word(0xffff0000)) : b.CreateLShr(codes, 16));
  }
  return values;
}

Value* halves_joined(Emitter& e, Value* low, Value* high) {
  auto* halves = llvm::FixedVectorType::get(e.b().getInt16Ty(), 32);
  std::vector<int> blend;
  for (int w = 0; w < 32; ++w) blend.push_back(w % 2 ? 32 + w : w);
  return e.b().CreateShuffleVector(e.b().CreateBitCast(low, halves), e.b().CreateBitCast(high, halves),
                                   blend);
}

TileUnpack::TileUnpack(Emitter& e, const Layout& layout, std::int64_t k, Value* panel, Value* block,
                       Value* to, Value* ahead)
    : e_(e), layout_(layout), reader_(e, layout, k), to_(to) {
  auto& b = e.b();
  if (layout.is_float()) {
    const std::int64_t bytes = panel_bytes(layout.format, 32);
    const int terms = tile_terms(layout.format);
    floats_ = e.at(panel, b.CreateUDiv(block, e.i64(terms)), bytes);
    rest_ = b.CreateICmpNE(b.CreateURem(block, e.i64(terms)), e.i64(0));
    for (std::int64_t line = 0; ahead && line < bytes; line += 64)
      e.prefetch(e.at(e.at(floats_, ahead), line), 2);
    return;
  }
  Value* g = b.CreateLShr(block, 3);
  base_ = e.at(panel, g, layout.group(kGroupCols).bytes);
  i_ = b.CreateAnd(block, e.i64(7));
  group_ = reader_.group(base_, g);
  supers_ = reader_.supers(base_);
  Value* quants = e.at(group_.quants, i_, layout.quant_bytes());
  steps_ = reader_.steps(group_.quants, i_);
  if (!ahead) return;
  for (std::int64_t line = 0; line < layout.quant_bytes(); line += 64)
    e.prefetch(e.at(e.at(quants, ahead), line), 2);
  e.prefetch(e.at(reader_.scale_at(group_.scales, i_, 0), ahead), 2);
}

CodeFactors TileUnpack::factors(int part) {
  Value* scale = reader_.scale(reader_.scale_at(group_.scales, i_, part), supers_);
  Value* min = layout_.min == ScaleKind::None
                   ? nullptr
                   : reader_.min(reader_.min_at(group_.mins, i_, part), supers_, scale);
  return code_factors(e_, layout_, scale, min);
}

// Columns 4 s to 4 s + 3. F16 has as many bits as two bf16, so both terms are exact.
void TileUnpack::float_step(int s) {
  auto& b = e_.b();
  Vec v(e_);
  auto* words = llvm::FixedVectorType::get(b.getInt32Ty(), 16);
  const auto word = [&](std::uint64_t n) { return llvm::ConstantInt::get(words, n); };
  Value *first, *second;  // columns 0 and 1, 2 and 3, the even one in the low half
  if (layout_.format == Format::BF16) {
    first = e_.load(words, e_.at(floats_, 128 * s), 64);
    second = e_.load(words, e_.at(floats_, 128 * s + 64), 64);
  } else {
    const auto column = [&](int c) {  // the term's bits in the upper half
      Value* w = v.load_f16(e_.at(floats_, 128 * s + 32 * c));
      Value* near = b.CreateAdd(b.CreateBitCast(w, words), word(0x8000));
      near = b.CreateAnd(near, word(0xffff0000));
      Value* rest = b.CreateBitCast(v.sub(w, b.CreateBitCast(near, v.type())), words);
      return b.CreateSelect(rest_, rest, near);
    };
    const auto pair = [&](int c) { return b.CreateOr(b.CreateLShr(column(c), 16), column(c + 1)); };
    first = pair(0);
    second = pair(2);
  }
  Value* even = b.CreateOr(b.CreateAnd(first, word(0xffff)), b.CreateShl(second, 16));
  Value* odd = b.CreateOr(b.CreateLShr(first, 16), b.CreateAnd(second, word(0xffff0000)));
  e_.store(even, e_.at(to_, 2 * s * kTileRowBytes), 64);
  e_.store(odd, e_.at(to_, (2 * s + 1) * kTileRowBytes), 64);
}

void TileUnpack::step(int s) {
  if (floats_) return float_step(s);
  const int per_part = static_cast<int>(layout_.scale_cols) / 4;
  if (s % per_part == 0) factors_ = factors(s / per_part);
  const auto rows = pairs_of(e_, layout_, steps_[s], factors_);
  for (int i = 0; i < 2; ++i) e_.store(rows[i], e_.at(to_, (2 * s + i) * kTileRowBytes), 64);
}

}  // namespace gc::cpu
