#include "codegen_cpu/vec/dot.h"

#include <numeric>

#include "compiler/base/error.h"

namespace gc::cpu {

using llvm::Value;
using Values = Dot::Values;

Dot::~Dot() = default;

llvm::Type* Dot::acc_type() { return llvm::FixedVectorType::get(e_.b().getInt32Ty(), 16); }

Value* Dot::load_splat(Value* p, llvm::Type* type) {
  Value* word = e_.load(e_.b().getInt32Ty(), p, 4);
  return e_.b().CreateBitCast(e_.b().CreateVectorSplat(16, word), type);
}

Value* Dot::by_parts(int bytes, const Values& whole, const std::function<Value*(const Values&)>& f) {
  GC_CHECK(bytes == 64 || bytes == 32);
  if (bytes == 64) return f(whole);
  Value* halves[2];
  for (int h = 0; h < 2; ++h) {
    Values parts;
    for (Value* v : whole) {
      const auto lanes = llvm::cast<llvm::FixedVectorType>(v->getType())->getNumElements();
      std::vector<int> mask(lanes / 2);
      std::iota(mask.begin(), mask.end(), h * static_cast<int>(lanes / 2));
      parts.push_back(e_.b().CreateShuffleVector(v, mask));
    }
    halves[h] = f(parts);
  }
  const auto lanes = llvm::cast<llvm::FixedVectorType>(halves[0]->getType())->getNumElements();
  std::vector<int> mask(2 * lanes);
  std::iota(mask.begin(), mask.end(), 0);
  return e_.b().CreateShuffleVector(halves[0], halves[1], mask);
}

void Dot::store_pairs(Value* q, Value* block) {
  auto& b = e_.b();
  Value* words = b.CreateTrunc(q, llvm::FixedVectorType::get(b.getInt16Ty(), 32));
  std::vector<int> order;
  for (int s = 0; s < 8; ++s) {
    for (int c : {0, 2, 1, 3}) order.push_back(4 * s + c);
  }
  e_.store(b.CreateShuffleVector(words, order), block, 64);
}

Values Dot::even_odd(Value* step) {
  auto& b = e_.b();
  auto* type = llvm::FixedVectorType::get(b.getInt16Ty(), 32);
  Value* words = b.CreateBitCast(step, type);
  return {b.CreateAnd(words, llvm::ConstantInt::get(type, 0xff)),
          b.CreateLShr(words, llvm::ConstantInt::get(type, 8))};
}

Values Dot::load_pairs(Value* block, int step) {
  auto* type = llvm::FixedVectorType::get(e_.b().getInt16Ty(), 32);
  return {load_splat(e_.at(block, 8 * step), type), load_splat(e_.at(block, 8 * step + 4), type)};
}

namespace {

// Pairs as pmaddwd multiplies them, in plain IR: LLVM may or may not find the instruction.
class GenericDot : public Dot {
 public:
  using Dot::Dot;
  int passes() const override { return 1; }
  int operands() const override { return 2; }
  llvm::Type* operand_type() override { return llvm::FixedVectorType::get(e_.b().getInt16Ty(), 32); }
  Values weights(Value* step) override { return even_odd(step); }
  Values activation(Value* block, int, int step) override { return load_pairs(block, step); }
  Value* mac(Value* acc, const Values& w, const Values& x) override {
    auto& b = e_.b();
    for (int i = 0; i < 2; ++i) {
      for (int odd = 0; odd < 2; ++odd) {
        std::vector<int> lanes;
        for (int l = 0; l < 16; ++l) lanes.push_back(2 * l + odd);
        Value* a = b.CreateSExt(b.CreateShuffleVector(w[i], lanes), acc_type());
        Value* c = b.CreateSExt(b.CreateShuffleVector(x[i], lanes), acc_type());
        acc = b.CreateAdd(acc, b.CreateMul(a, c));
      }
    }
    return acc;
  }
  void store_activation(Value* q, Value* block) override { store_pairs(q, block); }
};

}  // namespace

std::unique_ptr<Dot> Dot::generic(Emitter& e) { return std::make_unique<GenericDot>(e); }

std::unique_ptr<Dot> Dot::make(Emitter& e) {
  const Isa& isa = e.isa();
  if (isa.has_vnni) return make_dot_vnni(e);
  if (isa.has_avx512) return make_dot_avx512(e);
  if (isa.vector_bytes == 32) return make_dot_avx2(e);
  return generic(e);
}

}  // namespace gc::cpu
