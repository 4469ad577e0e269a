#include "codegen_cpu/decode/planes.h"

#include "compiler/base/error.h"

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
    Value* half = e_.load(llvm::FixedVectorType::get(e_.f16(), 16), e_.at(p, 2 * kPanelRows * i), 32);
    return b.CreateFPExt(half, llvm::FixedVectorType::get(e_.f32(), 16));
  };
  const std::int64_t n = layout_.supers();
  return {n > 0 ? load(0) : nullptr, n > 1 ? load(1) : nullptr};
}

std::int64_t PanelReader::stride(ScaleKind kind) {
  switch (kind) {
    case ScaleKind::None:
      return 0;
    case ScaleKind::F16:
      return 2 * kPanelRows;
    case ScaleKind::U8:
    case ScaleKind::I8:
      return kPanelRows;
  }
  throw_internal("scale kind");
}

Value* PanelReader::factor(ScaleKind kind, Value* p, Value* super, bool subtracted) {
  auto& b = e_.b();
  auto* f32x16 = llvm::FixedVectorType::get(e_.f32(), 16);
  if (kind == ScaleKind::F16) {
    return b.CreateFPExt(e_.load(llvm::FixedVectorType::get(e_.f16(), 16), p, 32), f32x16);
  }
  GC_CHECK(kind == ScaleKind::U8 || kind == ScaleKind::I8);
  Value* bytes = e_.load(llvm::FixedVectorType::get(b.getInt8Ty(), 16), p, 16);
  auto* i32x16 = llvm::FixedVectorType::get(b.getInt32Ty(), 16);
  Value* wide = kind == ScaleKind::U8 ? b.CreateZExt(bytes, i32x16) : b.CreateSExt(bytes, i32x16);
  Value* product = b.CreateFMul(super, b.CreateSIToFP(wide, f32x16));
  return subtracted ? b.CreateFNeg(product) : product;
}

std::vector<Value*> PanelReader::steps(Value* p) {
  auto& b = e_.b();
  auto* words =
      llvm::FixedVectorType::get(b.getInt16Ty(), 32);  // bytes can't be shifted; 16 bits can, masked after
  auto* bytes = llvm::FixedVectorType::get(b.getInt8Ty(), 64);
  std::vector<Value*> steps(8);
  int low = 0;  // bit of the value at which the plane begins
  for (int i = 0; layout_.planes[i] != 0; ++i) {
    const int bits = layout_.planes[i], per_vector = 8 / bits;
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
    low += bits;
    p = e_.at(p, 64 * bits);
  }
  return steps;
}

}  // namespace gc::cpu
