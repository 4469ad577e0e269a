// A small vocabulary of f32 vectors that emits LLVM IR.
//
// Vectors have 16 lanes on every ISA (LLVM makes one zmm or two ymm of them): sums then run in one order everywhere,
// and a kernel's bits don't depend on the ISA. Every operation is the IEEE one: a product is fused with a sum only by
// fma(), nothing is reassociated. Reductions fold the upper half of the lanes onto the lower half until one is left.
//
// Plain LLVM IR throughout; the few places where an ISA has something that LLVM doesn't find give the same bits.
#pragma once

#include <functional>

#include "codegen_cpu/emitter.h"

namespace gc::cpu {

class Vec {
 public:
  static constexpr int kLanes = 16;
  using Value = llvm::Value;
  using Values = Emitter::Values;

  explicit Vec(Emitter& e) : e_(e), b_(e.b()) {}
  Emitter& e() { return e_; }

  llvm::Type* type();                // <16 x float>
  llvm::Type* type(llvm::Type* of);  // <16 x of>
  Value* splat(Value* scalar);
  Value* splat(double c);
  Value* zero() { return splat(0.0); }

  // 16 values at p; `count` < 16: the first of them, the others 0 on a load and left alone by a store.
  Value* load(Value* p, int count = kLanes);
  void store(Value* v, Value* p, int count = kLanes);
  Value* load_f16(Value* p, int count = kLanes);
  Value* load_bf16(Value* p, int count = kLanes);
  // Rounded to nearest even.
  void store_f16(Value* v, Value* p, int count = kLanes);
  void store_bf16(Value* v, Value* p, int count = kLanes);
  Value* to_f16(Value* v);   // <16 x half>
  Value* to_bf16(Value* v);  // <16 x i16>, the bits
  // 16 and 16 values rounded to bf16, nearest even, lanes of `low` first: <32 x bfloat>. Needs isa.has_bf16dot.
  // Subnormals become 0, as bf16 products take them.
  Value* bf16_joined(Value* low, Value* high);
  // One f32 at p in all lanes.
  Value* load_splat(Value* p) { return splat(e_.load(e_.f32(), p, 4)); }

  Value* add(Value* a, Value* b) { return b_.CreateFAdd(a, b); }
  Value* sub(Value* a, Value* b) { return b_.CreateFSub(a, b); }
  Value* mul(Value* a, Value* b) { return b_.CreateFMul(a, b); }
  Value* div(Value* a, Value* b) { return b_.CreateFDiv(a, b); }
  Value* neg(Value* a) { return b_.CreateFNeg(a); }
  Value* fma(Value* a, Value* b, Value* c);  // a * b + c, rounded once
  Value* first(Value* a, int count);         // the lanes from `count` on as 0
  Value* sqrt(Value* a);
  Value* abs(Value* a);
  Value* copysign(Value* magnitude, Value* sign);
  // a > b ? a : b, and a < b ? a : b: b where either is NaN, as the machine's instructions.
  Value* max(Value* a, Value* b) { return b_.CreateSelect(b_.CreateFCmpOGT(a, b), a, b); }
  Value* min(Value* a, Value* b) { return b_.CreateSelect(b_.CreateFCmpOLT(a, b), a, b); }

  Value* reduce_add(Value* v);  // f32
  Value* reduce_max(Value* v);

  // Lanes of a then of b: of [a0..a15 b0..b15] the even and the odd ones, and the inverse.
  std::pair<Value*, Value*> deinterleave(Value* a, Value* b);
  std::pair<Value*, Value*> interleave(Value* even, Value* odd);

  // body(i, count) for i = 0, 16, ... < n; count is 16 but for a tail.
  void over(std::int64_t n, const std::function<void(Value*, int)>& body);
  // Four running values over the same parts, vector k into running value k % 4: folded as (0+2)+(1+3) by `fold`.
  Value* running(std::int64_t n, Value* init,
                 const std::function<Value*(Value* i, int count, Value* acc)>& body,
                 const std::function<Value*(Value*, Value*)>& fold);

 private:
  Value* load_any(llvm::Type* element, Value* p, int count, unsigned align);
  void store_any(Value* v, Value* p, int count, unsigned align);
  Value* reduce(Value* v, const std::function<Value*(Value*, Value*)>& fold);

  Emitter& e_;
  llvm::IRBuilder<>& b_;
};

}  // namespace gc::cpu
