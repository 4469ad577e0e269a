#include "codegen_cpu/kernels/row_decode/row_decode.h"

#include <string>

#include "codegen_cpu/decode/grid.h"
#include "codegen_cpu/decode/planes.h"
#include "codegen_cpu/decode/trellis.h"
#include "codegen_cpu/vec/lut.h"
#include "codegen_cpu/vec/vec.h"
#include "compiler/base/error.h"
#include "compiler/quant/layouts.h"

namespace gc::cpu {
namespace {

using llvm::Value;
using Values = Emitter::Values;

// A row's values lie 16 apart: gathered one by one, 16 columns to a vector.
void decode_floats(Emitter& e, Format format, std::int64_t k, Value* panel, Value* row, const Args& args) {
  auto& b = e.b();
  Vec v(e);
  const bool f32 = format == Format::F32 || format == Format::F64;
  const std::int64_t size = f32 ? 4 : 2;
  auto* element = f32 ? e.f32() : format == Format::F16 ? e.f16() : llvm::Type::getBFloatTy(e.context());
  Value* scale = v.splat(args["scale"]);
  v.over(k, [&](Value* c, int count) {
    Value* values = llvm::PoisonValue::get(llvm::FixedVectorType::get(element, 16));
    for (int i = 0; i < count; ++i) {
      // BF16 keeps pairs of columns of a row together; c is a multiple of 16.
      const std::int64_t at = format == Format::BF16 ? (i / 2 * kPanelRows) * 2 + i % 2 : i * kPanelRows;
      Value* first = e.at(e.at(panel, c, kPanelRows * size), row, format == Format::BF16 ? 2 * size : size);
      values = b.CreateInsertElement(values, e.load(element, e.at(first, at * size), 2), e.i32(i));
    }
    if (format == Format::BF16) {
      auto* i16x16 = llvm::FixedVectorType::get(b.getInt16Ty(), 16);
      auto* i32x16 = llvm::FixedVectorType::get(b.getInt32Ty(), 16);
      Value* bits = b.CreateZExt(b.CreateBitCast(values, i16x16), i32x16);
      values = b.CreateBitCast(b.CreateShl(bits, llvm::ConstantInt::get(i32x16, 16)), v.type());
    } else if (format == Format::F16) {
      values = b.CreateFPExt(values, v.type());
    }
    v.store(v.mul(values, scale), e.at(args["out"], c, std::int64_t{4}), count);
  });
}

// The row's values (0..255) in the planes of the i-th 32 columns of a group whose quants are at `quants`: a step of the row
// is one word.
Value* row_values(Emitter& e, const Layout& layout, Value* quants, Value* i, Value* row) {
  Value* p = e.at(e.at(quants, i, layout.quant_bytes()), row, 4);
  if (layout.index().is_trellis()) return trellis_row(e, layout, p);
  auto& b = e.b();
  auto* words = llvm::FixedVectorType::get(b.getInt32Ty(), 8);
  Value* all = nullptr;
  const bool grid = layout.index().is_grid();
  if (grid) all = b.CreateBitCast(grid_row(e, layout, quants, i, row), words);
  p = e.at(p, layout.index_bytes());
  for (int i = grid ? 1 : 0; layout.planes[i].bits != 0; ++i) {
    const int bits = layout.planes[i].bits, per_vector = 8 / bits;
    Value* plane = llvm::PoisonValue::get(words);
    std::vector<llvm::Constant*> shifts;
    for (int v = 0; v < bits; ++v) {
      Value* word = e.load(b.getInt32Ty(), e.at(p, 64 * v), 4);
      for (int s = 0; s < per_vector; ++s) {
        plane = b.CreateInsertElement(plane, word, e.i32(v * per_vector + s));
        shifts.push_back(b.getInt32(static_cast<std::uint32_t>(bits * s)));
      }
    }
    plane = b.CreateLShr(plane, llvm::ConstantVector::get(shifts));
    const std::uint32_t mask = ((1u << bits) - 1) * 0x01010101u;
    plane = b.CreateShl(b.CreateAnd(plane, llvm::ConstantInt::get(words, mask)),
                        llvm::ConstantInt::get(words, layout.planes[i].at));
    all = all ? b.CreateOr(all, plane) : plane;
    p = e.at(p, 64 * bits);
  }
  Value* codes = b.CreateBitCast(all, llvm::FixedVectorType::get(b.getInt8Ty(), 32));
  return layout.table == ValueTable::Linear ? codes : lut(e, codes, layout.values());
}

// One scale or min of the row: its entry at p.
Value* row_factor(Emitter& e, ScaleKind kind, Value* p, Value* super) {
  const bool half = kind == ScaleKind::F16;
  Value* entry = e.load(half ? e.f16() : e.b().getInt8Ty(), p, half ? 2 : 1);
  Value* value = PanelReader::factor_value(e, kind, entry);
  return Layout::needs_super(kind) ? e.b().CreateFMul(super, value) : value;
}

// i1, whether the row's bit among a block's mins at p is set.
Value* is_shifted(Emitter& e, ScaleKind kind, Value* p, Value* row) {
  auto& b = e.b();
  if (kind == ScaleKind::Mask)
    return b.CreateTrunc(b.CreateLShr(e.load(b.getInt16Ty(), p, 2), b.CreateTrunc(row, b.getInt16Ty())),
                         b.getInt1Ty());
  return b.CreateTrunc(e.load(b.getInt8Ty(), e.at(p, row, 1), 1), b.getInt1Ty());  // Bit, OddBit
}

void decode_blocks(Emitter& e, Format format, std::int64_t k, Value* panel, Value* row, const Args& args) {
  auto& b = e.b();
  Vec v(e);
  const Layout& layout = layout_for(format);
  PanelReader reader(e, layout, k);
  const int parts = static_cast<int>(32 / layout.scale_cols);
  Value* out_scale = v.splat(args["scale"]);
  e.for_range(e.i64(0), e.i64(reader.groups()), 1, {panel}, [&](Value* g, const Values& at) {
    const GroupParts group = reader.group(at[0], g);
    const auto super = [&](int i) -> Value* {
      if (layout.supers() <= i) return nullptr;
      const std::int64_t bytes = layout.super_bytes();
      Value* at = e.at(group.supers, row, bytes, bytes * kPanelRows * i);
      Value* value = bytes == 4 ? e.load(e.f32(), at, 4) : b.CreateFPExt(e.load(e.f16(), at, 2), e.f32());
      return b.CreateFMul(value, e.f32(layout.unit));
    };
    Value *d = super(0), *dmin = super(1);
    // A panel's entries lie row by row.
    const auto of_row = [&](ScaleKind kind, Value* entries) {
      return e.at(entries, row, entry_stride(kind) / kPanelRows);
    };
    e.for_range(e.i64(0), group.blocks32, 1, [&](Value* i) {
      Value* q = row_values(e, layout, group.quants, i, row);
      Value* to = e.at(e.at(args["out"], g, 4 * kGroupCols), i, 128);
      for (int half = 0; half < 2; ++half) {
        const int part = half * parts / 2;
        std::vector<int> lanes;
        for (int l = 0; l < 16; ++l) lanes.push_back(16 * half + l);
        auto* i32x16 = llvm::FixedVectorType::get(b.getInt32Ty(), 16);
        Value* wide = b.CreateZExt(b.CreateShuffleVector(q, lanes), i32x16);
        wide = b.CreateSub(wide, llvm::ConstantInt::get(i32x16, layout.offset));
        Value* scale =
            row_factor(e, layout.scale, of_row(layout.scale, reader.scale_at(group.scales, i, part)), d);
        if (layout.min_is_shift()) {
          // A scale of 0 shifts nothing: so has unpack_row, whose zeros then have the same sign.
          Value* is_set = b.CreateAnd(is_shifted(e, layout.min, reader.min_at(group.mins, i, part), row),
                                      b.CreateFCmpUNE(scale, e.f32(0)));
          wide = b.CreateAdd(
              wide, b.CreateVectorSplat(16, b.CreateSelect(is_set, e.i32(layout.shift()), e.i32(0))));
        }
        Value* y = v.mul(v.splat(scale), b.CreateSIToFP(wide, v.type()));
        if (layout.min != ScaleKind::None && !layout.min_is_shift()) {
          Value* min = v.splat(
              row_factor(e, layout.min, of_row(layout.min, reader.min_at(group.mins, i, part)), dmin));
          y = layout.min_is_subtracted() ? v.sub(y, min) : v.add(y, min);
        }
        v.store(v.mul(y, out_scale), e.at(to, 64 * half));
      }
    });
    return Values{e.at(at[0], group.bytes)};
  });
}

}  // namespace

llvm::Function* row_decode(Emitter& e, Format format, std::int64_t k) {
  const std::string name = "row_decode_" + std::string(info(format).text_name) + "_" + std::to_string(k);
  return e.function(
      name, {in("panels"), i64("row"), out("out"), {"scale", Arg::Kind::F32}}, [&](const Args& args) {
        Value* panel = e.at(args["panels"], e.b().CreateLShr(args["row"], e.i64(4)), panel_bytes(format, k));
        Value* row = e.b().CreateAnd(args["row"], e.i64(kPanelRows - 1));
        if (layout_for(format).is_float()) {
          decode_floats(e, format, k, panel, row, args);
        } else {
          decode_blocks(e, format, k, panel, row, args);
        }
      });
}

}  // namespace gc::cpu
