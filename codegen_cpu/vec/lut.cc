#include "codegen_cpu/vec/lut.h"

#include <numeric>
#include <vector>

#include "compiler/base/error.h"
#include "llvm/IR/IntrinsicsAArch64.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace gc::cpu {

using llvm::Value;

namespace {

int lanes(Value* v) {
  return static_cast<int>(llvm::cast<llvm::FixedVectorType>(v->getType())->getNumElements());
}

// The table in each 16 bytes of a vector: byte shuffles work within them.
llvm::Constant* repeated(Emitter& e, std::span<const std::uint8_t> table, int bytes) {
  std::vector<std::uint8_t> all;
  for (int i = 0; i < bytes; ++i) all.push_back(table[static_cast<std::size_t>(i % 16)]);
  return llvm::ConstantDataVector::get(e.context(), all);
}

Value* part(Emitter& e, Value* v, int first, int count) {
  std::vector<int> mask(static_cast<std::size_t>(count));
  std::iota(mask.begin(), mask.end(), first);
  return e.b().CreateShuffleVector(v, mask);
}

// tbl gives 0 for indices from 16 on, so bits above the fourth go.
Value* lut16_neon(Emitter& e, Value* codes, std::span<const std::uint8_t> table) {
  auto& b = e.b();
  Value* low = b.CreateAnd(codes, llvm::ConstantInt::get(codes->getType(), 15));
  auto* type = llvm::FixedVectorType::get(b.getInt8Ty(), 16);
  std::vector<Value*> parts;
  for (int i = 0; i < lanes(codes); i += 16)
    parts.push_back(b.CreateIntrinsic(llvm::Intrinsic::aarch64_neon_tbl1, {type},
                                      {repeated(e, table, 16), part(e, low, i, 16)}));
  while (parts.size() > 1) {
    std::vector<Value*> joined;
    for (std::size_t i = 0; i < parts.size(); i += 2) {
      std::vector<int> mask(static_cast<std::size_t>(2 * lanes(parts[i])));
      std::iota(mask.begin(), mask.end(), 0);
      joined.push_back(b.CreateShuffleVector(parts[i], parts[i + 1], mask));
    }
    parts = joined;
  }
  return parts[0];
}

}  // namespace

Value* lut16(Emitter& e, Value* codes, std::span<const std::uint8_t> table) {
  const int n = lanes(codes);
  GC_CHECK(table.size() == 16 && (n == 32 || n == 64), n);
  auto& b = e.b();
  if (e.isa().has_neon) return lut16_neon(e, codes, table);
  if (e.isa().vector_bytes < 32) return lut16_generic(e, codes, table);
  if (n == 64 && e.isa().has_avx512)
    return b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_pshuf_b_512, {repeated(e, table, 64), codes});
  const auto shuffled = [&](Value* v) {
    return b.CreateIntrinsic(llvm::Intrinsic::x86_avx2_pshuf_b, {repeated(e, table, 32), v});
  };
  if (n == 32) return shuffled(codes);
  std::vector<int> mask(64);
  std::iota(mask.begin(), mask.end(), 0);
  return b.CreateShuffleVector(shuffled(part(e, codes, 0, 32)), shuffled(part(e, codes, 32, 32)), mask);
}

Value* lut(Emitter& e, Value* codes, std::span<const std::uint8_t> table) {
  const std::size_t n = table.size();
  if (n == 16) return lut16(e, codes, table);
  GC_CHECK(n == 32 || n == 64);
  auto& b = e.b();
  // Smaller tables take no notice of the higher bits.
  Value* bit = b.CreateAnd(codes, llvm::ConstantInt::get(codes->getType(), n / 2));
  Value* upper = b.CreateICmpNE(bit, llvm::Constant::getNullValue(codes->getType()));
  return b.CreateSelect(upper, lut(e, codes, table.subspan(n / 2)), lut(e, codes, table.first(n / 2)));
}

Value* lut_low_bits(Emitter& e, Value* codes, std::span<const std::uint8_t> table) {
  GC_CHECK(e.isa().has_vbmi && lanes(codes) == 64 && 64 % table.size() == 0);
  std::vector<std::uint8_t> all;
  for (std::size_t i = 0; i < 64; ++i) all.push_back(table[i % table.size()]);
  return e.b().CreateIntrinsic(llvm::Intrinsic::x86_avx512_permvar_qi_512, {},
                               {llvm::ConstantDataVector::get(e.context(), all), codes});
}

Value* lut16_generic(Emitter& e, Value* codes, std::span<const std::uint8_t> table) {
  auto& b = e.b();
  std::vector<Value*> level;
  for (const std::uint8_t entry : table) level.push_back(llvm::ConstantInt::get(codes->getType(), entry));
  for (int bit = 0; bit < 4; ++bit) {
    Value* is_set = b.CreateICmpNE(b.CreateAnd(codes, llvm::ConstantInt::get(codes->getType(), 1 << bit)),
                                   llvm::Constant::getNullValue(codes->getType()));
    std::vector<Value*> next;
    for (std::size_t i = 0; i < level.size(); i += 2)
      next.push_back(b.CreateSelect(is_set, level[i + 1], level[i]));
    level = next;
  }
  return level[0];
}

}  // namespace gc::cpu
