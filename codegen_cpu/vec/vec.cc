#include "codegen_cpu/vec/vec.h"

#include "compiler/base/error.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace gc::cpu {

using llvm::Value;

llvm::Type* Vec::type() { return type(e_.f32()); }
llvm::Type* Vec::type(llvm::Type* of) { return llvm::FixedVectorType::get(of, kLanes); }
Value* Vec::splat(Value* scalar) { return b_.CreateVectorSplat(kLanes, scalar); }
Value* Vec::splat(double c) { return llvm::ConstantFP::get(type(), c); }

namespace {

llvm::Constant* first_lanes(llvm::LLVMContext& context, int count) {
  std::vector<llvm::Constant*> bits;
  for (int i = 0; i < Vec::kLanes; ++i) {
    bits.push_back(llvm::ConstantInt::get(llvm::Type::getInt1Ty(context), i < count));
  }
  return llvm::ConstantVector::get(bits);
}

}  // namespace

// A short vector of 16-bit elements is read element by element: AVX2 has masks for 32-bit elements only, and LLVM
// would make branches of the rest.
Value* Vec::load_any(llvm::Type* element, Value* p, int count, unsigned align) {
  if (count == kLanes) return e_.load(type(element), p, align);
  if (element->getPrimitiveSizeInBits() == 32) {
    return b_.CreateMaskedLoad(type(element), p, llvm::Align(align), first_lanes(e_.context(), count),
                               llvm::Constant::getNullValue(type(element)));
  }
  Value* v = llvm::Constant::getNullValue(type(element));
  for (int i = 0; i < count; ++i) {
    v = b_.CreateInsertElement(v, e_.load(element, e_.at(p, i * std::int64_t{align}), align), i);
  }
  return v;
}

void Vec::store_any(Value* v, Value* p, int count, unsigned align) {
  if (count == kLanes) return e_.store(v, p, align);
  if (v->getType()->getScalarSizeInBits() == 32) {
    b_.CreateMaskedStore(v, p, llvm::Align(align), first_lanes(e_.context(), count));
    return;
  }
  for (int i = 0; i < count; ++i) {
    e_.store(b_.CreateExtractElement(v, i), e_.at(p, i * std::int64_t{align}), align);
  }
}

Value* Vec::load(Value* p, int count) { return load_any(e_.f32(), p, count, 4); }
void Vec::store(Value* v, Value* p, int count) { store_any(v, p, count, 4); }

Value* Vec::load_f16(Value* p, int count) { return b_.CreateFPExt(load_any(e_.f16(), p, count, 2), type()); }

void Vec::store_f16(Value* v, Value* p, int count) { store_any(to_f16(v), p, count, 2); }

Value* Vec::load_bf16(Value* p, int count) {
  Value* bits = b_.CreateZExt(load_any(b_.getInt16Ty(), p, count, 2), type(b_.getInt32Ty()));
  return b_.CreateBitCast(b_.CreateShl(bits, 16), type());
}

Value* Vec::to_f16(Value* v) { return b_.CreateFPTrunc(v, type(e_.f16())); }

void Vec::store_bf16(Value* v, Value* p, int count) { store_any(to_bf16(v), p, count, 2); }

// By integers: without AVX512-BF16 an fptrunc to bfloat would become a library call.
Value* Vec::to_bf16(Value* v) {
  llvm::Type* i32s = type(b_.getInt32Ty());
  auto constant = [&](std::uint32_t c) { return llvm::ConstantInt::get(i32s, c); };
  Value* bits = b_.CreateBitCast(v, i32s);
  Value* odd = b_.CreateAnd(b_.CreateLShr(bits, 16), constant(1));
  Value* rounded = b_.CreateAdd(b_.CreateAdd(bits, constant(0x7fff)), odd);
  Value* quiet_nan = b_.CreateOr(bits, constant(0x400000));
  Value* high = b_.CreateLShr(b_.CreateSelect(b_.CreateFCmpUNO(v, v), quiet_nan, rounded), 16);
  return b_.CreateTrunc(high, type(b_.getInt16Ty()));
}

Value* Vec::bf16_joined(Value* low, Value* high) {
  GC_CHECK(e_.isa().has_bf16dot && e_.isa().has_avx512);
  return b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_cvtne2ps2bf16_512, {}, {high, low});
}

Value* Vec::fma(Value* a, Value* b, Value* c) {
  return b_.CreateIntrinsic(llvm::Intrinsic::fma, {a->getType()}, {a, b, c});
}
Value* Vec::first(Value* a, int count) {
  if (count == kLanes) return a;
  return b_.CreateSelect(first_lanes(e_.context(), count), a, llvm::Constant::getNullValue(a->getType()));
}
Value* Vec::sqrt(Value* a) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, a); }
Value* Vec::abs(Value* a) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, a); }
Value* Vec::copysign(Value* magnitude, Value* sign) {
  return b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, magnitude, sign);
}

Value* Vec::reduce(Value* v, const std::function<Value*(Value*, Value*)>& fold) {
  for (int n = kLanes / 2; n >= 1; n /= 2) {
    std::vector<int> low, high;
    for (int i = 0; i < n; ++i) low.push_back(i), high.push_back(n + i);
    v = fold(b_.CreateShuffleVector(v, low), b_.CreateShuffleVector(v, high));
  }
  return b_.CreateExtractElement(v, std::uint64_t{0});
}

Value* Vec::reduce_add(Value* v) {
  return reduce(v, [&](Value* a, Value* b) { return add(a, b); });
}
Value* Vec::reduce_max(Value* v) {
  return reduce(v, [&](Value* a, Value* b) { return max(a, b); });
}

std::pair<Value*, Value*> Vec::deinterleave(Value* a, Value* b) {
  std::vector<int> even, odd;
  for (int i = 0; i < kLanes; ++i) even.push_back(2 * i), odd.push_back(2 * i + 1);
  return {b_.CreateShuffleVector(a, b, even), b_.CreateShuffleVector(a, b, odd)};
}

std::pair<Value*, Value*> Vec::interleave(Value* even, Value* odd) {
  std::vector<int> low, high;
  for (int i = 0; i < kLanes; ++i) {
    (i < kLanes / 2 ? low : high).push_back(i);
    (i < kLanes / 2 ? low : high).push_back(kLanes + i);
  }
  return {b_.CreateShuffleVector(even, odd, low), b_.CreateShuffleVector(even, odd, high)};
}

void Vec::over(std::int64_t n, const std::function<void(Value*, int)>& body) {
  const std::int64_t whole = n / kLanes * kLanes;
  if (whole > 0) e_.for_range(0, whole, kLanes, [&](Value* i) { body(i, kLanes); });
  if (whole < n) body(e_.i64(whole), static_cast<int>(n - whole));
}

Value* Vec::running(std::int64_t n, Value* init, const std::function<Value*(Value*, int, Value*)>& body,
                    const std::function<Value*(Value*, Value*)>& fold) {
  Values acc(4, init);
  const std::int64_t whole = n / (4 * kLanes) * (4 * kLanes);
  if (whole > 0) {
    acc = e_.for_range(e_.i64(0), e_.i64(whole), 4 * kLanes, acc, [&](Value* i, const Values& in) {
      Values next;
      for (int k = 0; k < 4; ++k) next.push_back(body(b_.CreateAdd(i, e_.i64(k * kLanes)), kLanes, in[k]));
      return next;
    });
  }
  for (std::int64_t i = whole, k = 0; i < n; i += kLanes, ++k) {
    acc[k] = body(e_.i64(i), static_cast<int>(std::min<std::int64_t>(kLanes, n - i)), acc[k]);
  }
  return fold(fold(acc[0], acc[2]), fold(acc[1], acc[3]));
}

}  // namespace gc::cpu
