#include "codegen_cpu/decode/planes.h"

#include "codegen_cpu/decode/grid.h"
#include "codegen_cpu/decode/trellis.h"
#include "codegen_cpu/vec/lut.h"
#include "compiler/base/error.h"
#include "compiler/quant/two_streams.h"

namespace gc::cpu {

using llvm::Value;

GroupParts PanelReader::group(Value* base, Value* g) {
  const Layout::Group full = layout_.group(kGroupCols);
  const std::int64_t tail_cols = k_ % kGroupCols;
  if (tail_cols == 0) {
    return {base,
            e_.at(base, full.scales),
            e_.at(base, full.mins),
            e_.at(base, full.quants),
            e_.i64(kGroupCols / 32),
            e_.i64(full.bytes)};
  }
  const Layout::Group tail = layout_.group(tail_cols);
  auto& b = e_.b();
  Value* is_tail = b.CreateICmpEQ(g, e_.i64(groups() - 1));
  const auto pick = [&](std::int64_t of_tail, std::int64_t of_full) {
    return b.CreateSelect(is_tail, e_.i64(of_tail), e_.i64(of_full));
  };
  return {base,
          e_.at(base, full.scales),
          e_.at(base, pick(tail.mins, full.mins)),
          e_.at(base, pick(tail.quants, full.quants)),
          pick(tail_cols / 32, kGroupCols / 32),
          pick(tail.bytes, full.bytes)};
}

PanelReader::Supers PanelReader::supers(Value* p) {
  auto& b = e_.b();
  const auto load = [&](int i) -> Value* {
    auto* floats = llvm::FixedVectorType::get(e_.f32(), 16);
    Value* wide;
    if (layout_.super_bytes() == 4) {
      wide = e_.load(floats, e_.at(p, 4 * kPanelRows * i), 64);
    } else {
      wide = b.CreateFPExt(
          e_.load(llvm::FixedVectorType::get(e_.f16(), 16), e_.at(p, 2 * kPanelRows * i), 32), floats);
    }
    if (layout_.unit == 1) return wide;
    return b.CreateFMul(wide, llvm::ConstantFP::get(wide->getType(), layout_.unit));
  };
  const std::int64_t n = layout_.supers();
  Value* scale = n > 0 ? load(0) : nullptr;
  if (layout_.min_is_shift() && layout_.min != ScaleKind::Mask)
    return {scale, b.CreateFMul(scale, llvm::ConstantFP::get(scale->getType(), layout_.shift()))};
  return {scale, n > 1 ? load(1) : nullptr};
}

Value* PanelReader::entry_at(ScaleKind kind, Value* base, Value* i, int part) {
  const std::int64_t stride = entry_stride(kind);
  if (layout_.entry_cols < 32) return e_.at(base, i, 2 * stride, part * stride);
  GC_CHECK(part == 0);
  // 1, 2, 4 or 8 blocks of 32 columns share an entry.
  Value* entry = layout_.entry_cols == 32 ? i : e_.b().CreateUDiv(i, e_.i64(layout_.entry_cols / 32));
  return e_.at(base, entry, stride);
}

Value* PanelReader::factor_value(Emitter& e, ScaleKind kind, Value* entry) {
  auto& b = e.b();
  const auto of = [&](llvm::Type* element) -> llvm::Type* {
    auto* vector = llvm::dyn_cast<llvm::VectorType>(entry->getType());
    return vector ? llvm::VectorType::get(element, vector->getElementCount()) : element;
  };
  const auto number = [&](Value* v, std::uint64_t n) { return llvm::ConstantInt::get(v->getType(), n); };
  switch (kind) {
    case ScaleKind::None:
    case ScaleKind::Mask:
      break;
    case ScaleKind::F16:
      return b.CreateFPExt(entry, of(e.f32()));
    case ScaleKind::U8:
      return b.CreateSIToFP(b.CreateZExt(entry, of(b.getInt32Ty())), of(e.f32()));
    case ScaleKind::I8:
      return b.CreateSIToFP(b.CreateSExt(entry, of(b.getInt32Ty())), of(e.f32()));
    case ScaleKind::Low4: {
      Value* wide = b.CreateZExt(entry, of(b.getInt32Ty()));
      return b.CreateSIToFP(b.CreateAnd(wide, number(wide, 15)), of(e.f32()));
    }
    case ScaleKind::High4: {
      Value* wide = b.CreateZExt(entry, of(b.getInt32Ty()));
      return b.CreateSIToFP(b.CreateLShr(wide, number(wide, 4)), of(e.f32()));
    }
    case ScaleKind::I7: {
      Value* wide = b.CreateSExt(entry, of(b.getInt32Ty()));
      return b.CreateSIToFP(b.CreateAShr(wide, number(wide, 1)), of(e.f32()));
    }
    case ScaleKind::Bit: {  // the 7 bits above it, or 0
      Value* wide = b.CreateSExt(entry, of(b.getInt32Ty()));
      Value* is_set = b.CreateTrunc(wide, of(b.getInt1Ty()));
      Value* scale = b.CreateAShr(wide, number(wide, 1));
      return b.CreateSIToFP(b.CreateSelect(is_set, scale, number(wide, 0)), of(e.f32()));
    }
    case ScaleKind::Odd7: {
      Value* wide = b.CreateZExt(entry, of(b.getInt32Ty()));
      return b.CreateSIToFP(b.CreateSub(b.CreateAnd(wide, number(wide, 254)), number(wide, 127)),
                            of(e.f32()));
    }
    case ScaleKind::OddBit: {  // the scale of Odd7, or 0
      Value* wide = b.CreateZExt(entry, of(b.getInt32Ty()));
      Value* is_set = b.CreateTrunc(wide, of(b.getInt1Ty()));
      Value* scale = b.CreateSub(wide, number(wide, 128));
      return b.CreateSIToFP(b.CreateSelect(is_set, scale, number(wide, 0)), of(e.f32()));
    }
    case ScaleKind::E8M0: {  // 2^(e - 128), below 2^-126 subnormal
      Value* wide = b.CreateZExt(entry, of(b.getInt32Ty()));
      Value* normal = b.CreateShl(b.CreateSub(wide, number(wide, 1)), number(wide, 23));
      Value* small = b.CreateAdd(b.CreateShl(wide, number(wide, 21)), number(wide, 0x200000));
      Value* is_small = b.CreateICmpULT(wide, number(wide, 2));
      return b.CreateBitCast(b.CreateSelect(is_small, small, normal), of(e.f32()));
    }
    case ScaleKind::UE4M3: {  // half of it: the bits of an f16 whose exponent is less by 7
      Value* wide = b.CreateZExt(entry, of(b.getInt16Ty()));
      Value* bits = b.CreateAnd(b.CreateShl(wide, number(wide, 7)), number(wide, 0x3f80));
      Value* value = b.CreateFPExt(b.CreateBitCast(bits, of(e.f16())), of(e.f32()));
      return b.CreateFMul(value, llvm::ConstantFP::get(value->getType(), 128));
    }
  }
  throw_internal("scale kind");
}

Value* PanelReader::factor(ScaleKind kind, Value* p, Value* super, bool subtracted) {
  auto& b = e_.b();
  const bool half = kind == ScaleKind::F16;
  auto* type = llvm::FixedVectorType::get(half ? e_.f16() : b.getInt8Ty(), 16);
  Value* value = factor_value(e_, kind, e_.load(type, p, half ? 32 : 16));
  if (!Layout::needs_super(kind)) return value;
  Value* product = b.CreateFMul(super, value);
  return subtracted ? b.CreateFNeg(product) : product;
}

// The shift's part of rows whose bit is set. Where vectors have masks, the 16 bits are one; elsewhere each lane tests its own.
Value* PanelReader::masked_min(Value* p, Value* scale) {
  auto& b = e_.b();
  Value* bits = e_.load(b.getInt16Ty(), p, 2);
  Value* is_set;
  if (e_.isa().has_avx512) {
    is_set = b.CreateBitCast(bits, llvm::FixedVectorType::get(b.getInt1Ty(), kPanelRows));
  } else {
    std::vector<llvm::Constant*> own;
    for (int r = 0; r < kPanelRows; ++r) own.push_back(b.getInt32(1u << r));
    Value* lanes = b.CreateVectorSplat(kPanelRows, b.CreateZExt(bits, b.getInt32Ty()));
    lanes = b.CreateAnd(lanes, llvm::ConstantVector::get(own));
    is_set = b.CreateICmpNE(lanes, llvm::Constant::getNullValue(lanes->getType()));
  }
  Value* min = layout_.shift() == 1
                   ? scale
                   : b.CreateFMul(scale, llvm::ConstantFP::get(scale->getType(), layout_.shift()));
  return b.CreateSelect(is_set, min, llvm::Constant::getNullValue(min->getType()));
}

std::vector<Value*> PanelReader::steps(Value* quants, Value* i) {
  Value* p = e_.at(quants, i, layout_.quant_bytes());
  if (layout_.index().is_trellis()) return trellis_steps(e_, layout_, p);
  auto& b = e_.b();
  auto* words =
      llvm::FixedVectorType::get(b.getInt16Ty(), 32);  // bytes can't be shifted; 16 bits can, masked after
  auto* bytes = llvm::FixedVectorType::get(b.getInt8Ty(), 64);
  std::vector<Value*> steps(8);
  if (layout_.index().is_grid() && e_.isa().has_vbmi) return grid_values(e_, layout_, quants, i);
  if (layout_.index().is_grid()) steps = grid_steps(e_, layout_, quants, i);
  p = e_.at(p, layout_.index_bytes());
  for (int i = layout_.index().is_grid() ? 1 : 0; layout_.planes[i].bits != 0; ++i) {
    const int bits = layout_.planes[i].bits, low = layout_.planes[i].at, per_vector = 8 / bits;
    for (int v = 0; v < bits; ++v) {
      Value* vector = e_.load(words, e_.at(p, 64 * v), 64);
      for (int s = 0; s < per_vector; ++s) {
        const int right = bits * s - low;
        Value* moved = right > 0   ? b.CreateLShr(vector, llvm::ConstantInt::get(words, right))
                       : right < 0 ? b.CreateShl(vector, llvm::ConstantInt::get(words, -right))
                                   : vector;
        Value* part = b.CreateBitCast(moved, bytes);
        if (bits < 8) part = b.CreateAnd(part, llvm::ConstantInt::get(bytes, ((1 << bits) - 1) << low));
        Value*& step = steps[v * per_vector + s];
        step = step ? b.CreateOr(step, part) : part;
      }
    }
    p = e_.at(p, 64 * bits);
  }
  if (layout_.table != ValueTable::Linear) {
    for (Value*& step : steps) step = lut(e_, step, layout_.values());
  }
  return steps;
}

std::vector<Value*> PanelReader::joined(Emitter& e, const std::vector<Value*>& upper,
                                        const std::vector<Value*>& lower) {
  auto& b = e.b();
  auto* words = llvm::FixedVectorType::get(b.getInt16Ty(), 32);
  std::vector<Value*> steps;
  for (std::size_t s = 0; s < upper.size(); ++s) {
    Value* moved = b.CreateShl(b.CreateBitCast(upper[s], words), llvm::ConstantInt::get(words, kLowerBits));
    steps.push_back(b.CreateOr(b.CreateBitCast(moved, upper[s]->getType()), lower[s]));
  }
  return steps;
}

}  // namespace gc::cpu
