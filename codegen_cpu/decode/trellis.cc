#include "codegen_cpu/decode/trellis.h"

#include <array>

#include "compiler/base/error.h"
#include "compiler/quant/blocks.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace gc::cpu {
namespace {

using llvm::Value;

constexpr std::uint32_t power(int n) {
  std::uint32_t f = 1;
  for (int i = 0; i < n; ++i) f *= kTrellisFactor;
  return f;
}

unsigned lanes(Value* v) { return llvm::cast<llvm::FixedVectorType>(v->getType())->getNumElements(); }

// Sums of the bytes of each word of `column[c]`, below 256, in byte c of the words.
Value* byte_sums(Emitter& e, const std::array<Value*, 4>& column) {
  auto& b = e.b();
  auto* words = column[0]->getType();
  auto* halves = llvm::FixedVectorType::get(b.getInt16Ty(), 2 * lanes(column[0]));
  const auto either = [&](std::uint32_t of_first, Value* first, Value* second) {
    return b.CreateOr(
        b.CreateAnd(first, llvm::ConstantInt::get(words, of_first)),
        b.CreateAnd(second, llvm::ConstantInt::get(words, static_cast<std::uint32_t>(~of_first))));
  };
  // Bytes 0 and 1 plus bytes 2 and 3: of the first column in the low half of a word, of the second in the high one.
  const auto in_halves = [&](Value* low, Value* high) {
    return either(0xffff, b.CreateAdd(low, b.CreateLShr(low, 16)), b.CreateAdd(high, b.CreateShl(high, 16)));
  };
  Value* even = b.CreateBitCast(in_halves(column[0], column[2]), halves);
  Value* odd = b.CreateBitCast(in_halves(column[1], column[3]), halves);
  even = b.CreateAdd(even, b.CreateLShr(even, 8));
  odd = b.CreateAdd(odd, b.CreateShl(odd, 8));
  return either(0x00ff00ff, b.CreateBitCast(even, words), b.CreateBitCast(odd, words));
}

// The same by dot products with ones.
Value* byte_sums_vnni(Emitter& e, const std::array<Value*, 4>& column, int bytes) {
  auto& b = e.b();
  const auto id =
      bytes == 64 ? llvm::Intrinsic::x86_avx512_vpdpbusd_512 : llvm::Intrinsic::x86_avx512_vpdpbusd_256;
  auto* type = llvm::FixedVectorType::get(b.getInt8Ty(), static_cast<unsigned>(bytes));
  auto* words = llvm::FixedVectorType::get(b.getInt32Ty(), static_cast<unsigned>(bytes / 4));
  Value* sum = llvm::Constant::getNullValue(words);
  for (int c = 3; c >= 0; --c) {
    if (c < 3) sum = b.CreateShl(sum, 8);
    sum = b.CreateIntrinsic(id, {sum, b.CreateBitCast(column[c], type), llvm::ConstantInt::get(type, 1)});
  }
  return sum;
}

// Values first + c of each of `starts` (an index + 4096), plus 126, in byte c of its word. `first` of each lane.
Value* values_of(Emitter& e, Value* starts, const std::vector<int>& first) {
  auto& b = e.b();
  std::array<Value*, 4> column;
  for (int c = 0; c < 4; ++c) {
    std::vector<std::uint32_t> factors;
    for (int f : first) factors.push_back(power(f + c + 1));
    Value* product = b.CreateMul(starts, llvm::ConstantDataVector::get(e.context(), factors));
    column[c] = b.CreateAnd(product, llvm::ConstantInt::get(product->getType(), kTrellisMask));
  }
  const auto n = static_cast<int>(lanes(starts));
  if (!e.isa().has_vnni || n != 16) return byte_sums(e, column);
  if (e.isa().vector_bytes == 64) return byte_sums_vnni(e, column, 64);
  std::vector<int> low, high, all;
  for (int i = 0; i < n; ++i) {
    (i < n / 2 ? low : high).push_back(i);
    all.push_back(i);
  }
  const auto half = [&](const std::vector<int>& of) {
    std::array<Value*, 4> part;
    for (int c = 0; c < 4; ++c) part[c] = b.CreateShuffleVector(column[c], of);
    return byte_sums_vnni(e, part, 32);
  };
  return b.CreateShuffleVector(half(low), half(high), all);
}

// `minus` (bytes, not 0): the value's magnitude stands below zero.
Value* with_signs(Emitter& e, Value* values, Value* minus) {
  auto& b = e.b();
  const auto number = [&](int n) {
    return llvm::ConstantInt::get(values->getType(), static_cast<std::uint64_t>(n));
  };
  Value* magnitude = b.CreateBinaryIntrinsic(llvm::Intrinsic::abs,
                                             b.CreateSub(values, number(kTrellisOffset)), b.getFalse());
  Value* is_minus = b.CreateICmpNE(minus, number(0));
  return b.CreateSelect(is_minus, b.CreateSub(number(kTrellisOffset), magnitude),
                        b.CreateAdd(number(kTrellisOffset), magnitude));
}

// The low or high halves of words, with what is added to every index.
Value* start(Emitter& e, Value* words, int half) {
  auto& b = e.b();
  Value* index = half == 0 ? b.CreateAnd(words, llvm::ConstantInt::get(words->getType(), 0xffff))
                           : b.CreateLShr(words, 16);
  return b.CreateAdd(index, llvm::ConstantInt::get(words->getType(), kTrellisStart));
}

}  // namespace

std::vector<Value*> trellis_steps(Emitter& e, const Layout& layout, Value* p) {
  auto& b = e.b();
  const int n = layout.index().values, steps_of_index = n / 4;
  auto* words = llvm::FixedVectorType::get(b.getInt32Ty(), 16);
  auto* bytes = llvm::FixedVectorType::get(b.getInt8Ty(), 64);
  std::vector<Value*> steps;
  for (int i = 0; i < 32 / n; ++i) {
    Value* starts = start(e, e.load(words, e.at(p, i / 2 * 64), 64), i % 2);
    for (int s = 0; s < steps_of_index; ++s)
      steps.push_back(b.CreateBitCast(values_of(e, starts, std::vector<int>(16, 4 * s)), bytes));
  }
  if (layout.has_signs()) {
    Value* signs = e.load(bytes, e.at(p, layout.index_bytes()), 64);
    for (std::size_t s = 0; s < steps.size(); ++s)
      steps[s] = with_signs(e, steps[s], b.CreateAnd(signs, llvm::ConstantInt::get(bytes, 1u << s)));
  }
  return steps;
}

Value* trellis_row(Emitter& e, const Layout& layout, Value* p) {
  auto& b = e.b();
  const int n = layout.index().values, steps_of_index = n / 4;
  auto* words = llvm::FixedVectorType::get(b.getInt32Ty(), 8);
  auto* bytes = llvm::FixedVectorType::get(b.getInt8Ty(), 32);
  // A lane is a step.
  Value* starts = llvm::PoisonValue::get(words);
  std::vector<int> first;
  for (int s = 0; s < 8; ++s) {
    const int i = s / steps_of_index;
    Value* index = e.load(b.getInt16Ty(), e.at(p, i / 2 * 64 + i % 2 * 2), 2);
    starts = b.CreateInsertElement(starts, b.CreateZExt(index, b.getInt32Ty()), e.i32(s));
    first.push_back(s % steps_of_index * 4);
  }
  starts = b.CreateAdd(starts, llvm::ConstantInt::get(words, kTrellisStart));
  Value* values = b.CreateBitCast(values_of(e, starts, first), bytes);
  if (!layout.has_signs()) return values;
  Value* word = b.CreateVectorSplat(8, e.load(b.getInt32Ty(), e.at(p, layout.index_bytes()), 4));
  std::vector<std::uint8_t> bit;
  for (int c = 0; c < 32; ++c) bit.push_back(static_cast<std::uint8_t>(1 << (c / 4)));
  return with_signs(
      e, values, b.CreateAnd(b.CreateBitCast(word, bytes), llvm::ConstantDataVector::get(e.context(), bit)));
}

}  // namespace gc::cpu
