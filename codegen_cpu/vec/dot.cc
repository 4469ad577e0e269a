#include "codegen_cpu/vec/dot.h"

#include <numeric>

#include "compiler/base/error.h"
#include "llvm/IR/InlineAsm.h"

namespace gc::cpu {

using llvm::Value;
using Values = Dot::Values;

Value* opaque_pointer(Emitter& e, Value* p) {
  auto* type = llvm::FunctionType::get(e.ptr(), {e.ptr()}, false);
  return e.b().CreateCall(llvm::InlineAsm::get(type, "", "=r,0", /*hasSideEffects=*/false), {p});
}

Dot::~Dot() = default;

llvm::Type* Dot::acc_type() { return llvm::FixedVectorType::get(e_.b().getInt32Ty(), 16); }

Value* Dot::load_splat(Value* p, llvm::Type* type) {
  Value* word = e_.load(e_.b().getInt32Ty(), p, 4);
  return e_.b().CreateBitCast(e_.b().CreateVectorSplat(16, word), type);
}

Value* Dot::by_parts(int bytes, const Values& whole, const std::function<Value*(const Values&)>& f) {
  GC_CHECK(bytes == 64 || bytes == 32 || bytes == 16);
  if (bytes == 64) return f(whole);
  const auto lanes_of = [](Value* v) {
    return static_cast<int>(llvm::cast<llvm::FixedVectorType>(v->getType())->getNumElements());
  };
  const auto lanes = [](int first, int count) {
    std::vector<int> mask(static_cast<std::size_t>(count));
    std::iota(mask.begin(), mask.end(), first);
    return mask;
  };
  Values done;
  for (int p = 0; p < 64 / bytes; ++p) {
    Values parts;
    for (Value* v : whole) {
      const int n = lanes_of(v) * bytes / 64;
      parts.push_back(e_.b().CreateShuffleVector(v, lanes(p * n, n)));
    }
    done.push_back(f(parts));
  }
  while (done.size() > 1) {
    Values joined;
    for (std::size_t i = 0; i < done.size(); i += 2)
      joined.push_back(e_.b().CreateShuffleVector(done[i], done[i + 1], lanes(0, 2 * lanes_of(done[i]))));
    done = joined;
  }
  return done[0];
}

llvm::Type* PlaneDot::operand_type() { return llvm::FixedVectorType::get(e_.b().getInt8Ty(), 64); }

Values PlaneDot::weights(Value* step, int offset) {
  GC_CHECK(offset == 0);
  return {step};
}

Values PlaneDot::activation(Value* block, int pass, int step) {
  return {load_splat(e_.at(block, 32 * pass + 4 * step), operand_type())};
}

// q = 256 * high + low, low taken as signed: high rounds to the nearest multiple.
void PlaneDot::store_activation(Value* q, Value* block) {
  auto& b = e_.b();
  auto* bytes = llvm::FixedVectorType::get(b.getInt8Ty(), 32);
  Value* rounded = b.CreateAdd(q, llvm::ConstantInt::get(q->getType(), 128));
  e_.store(b.CreateTrunc(b.CreateAShr(rounded, llvm::ConstantInt::get(q->getType(), 8)), bytes), block, 32);
  e_.store(b.CreateTrunc(q, bytes), e_.at(block, 32), 32);
}

llvm::Type* PairDot::operand_type() { return llvm::FixedVectorType::get(e_.b().getInt16Ty(), 32); }

void PairDot::store_activation(Value* q, Value* block) {
  auto& b = e_.b();
  std::vector<int> order;
  for (int s = 0; s < 8; ++s) {
    for (int c : {0, 2, 1, 3}) order.push_back(4 * s + c);
  }
  e_.store(b.CreateShuffleVector(b.CreateTrunc(q, operand_type()), order), block, 64);
}

Values PairDot::weights(Value* step, int offset) {
  auto& b = e_.b();
  Value* words = b.CreateBitCast(step, operand_type());
  const auto constant = [&](int c) {
    return llvm::ConstantInt::get(operand_type(), static_cast<std::uint64_t>(c));
  };
  Value* even = b.CreateAnd(words, constant(0xff));
  Value* odd = b.CreateLShr(words, constant(8));
  if (offset == 0) return {even, odd};
  return {b.CreateSub(even, constant(offset)), b.CreateSub(odd, constant(offset))};
}

Values PairDot::activation(Value* block, int, int step) {
  return {load_splat(e_.at(block, 8 * step), operand_type()),
          load_splat(e_.at(block, 8 * step + 4), operand_type())};
}

Value* PairDot::mac(Value* acc, const Values& w, const Values& x) {
  for (int i = 0; i < 2; ++i) acc = mac_pairs(acc, w[i], x[i]);
  return acc;
}

Value* PairDot::kept(Value* x) {
  auto* type = llvm::FunctionType::get(x->getType(), {x->getType()}, false);
  return e_.b().CreateCall(llvm::InlineAsm::get(type, "", e_.isa().has_avx512 ? "=v,0" : "=x,0", false), {x});
}

namespace {

// As pmaddwd multiplies, in plain IR: LLVM may or may not find the instruction.
class GenericDot : public PairDot {
 public:
  using PairDot::PairDot;
  int latency() const override { return 1; }
  Value* mac_pairs(Value* acc, Value* w, Value* x) override {
    auto& b = e_.b();
    for (int odd = 0; odd < 2; ++odd) {
      std::vector<int> lanes;
      for (int l = 0; l < 16; ++l) lanes.push_back(2 * l + odd);
      Value* a = b.CreateSExt(b.CreateShuffleVector(w, lanes), acc_type());
      Value* c = b.CreateSExt(b.CreateShuffleVector(x, lanes), acc_type());
      acc = b.CreateAdd(acc, b.CreateMul(a, c));
    }
    return acc;
  }
};

}  // namespace

std::unique_ptr<Dot> Dot::generic(Emitter& e) { return std::make_unique<GenericDot>(e); }

std::unique_ptr<PairDot> make_pair_dot(Emitter& e) {
  const Isa& isa = e.isa();
  if (isa.has_vnni) return make_pair_dot_vnni(e);
  if (isa.has_avx512) return make_pair_dot_avx512(e);
  if (isa.vector_bytes == 32) return make_pair_dot_avx2(e);
  if (isa.has_neon) return make_pair_dot_neon(e);
  return std::make_unique<GenericDot>(e);
}

// On aarch64 planes are better for many rows too: 8 products of pairs are four instructions (smull twice, addp, add), 16 of
// planes two.
std::unique_ptr<Dot> Dot::for_tiles(Emitter& e) {
  if (e.isa().has_dotprod) return make_plane_dot_neon(e);
  return make_pair_dot(e);
}

std::unique_ptr<Dot> Dot::for_row(Emitter& e) {
  if (e.isa().has_vnni) return make_plane_dot_vnni(e);
  if (e.isa().has_dotprod) return make_plane_dot_neon(e);
  return for_tiles(e);
}

}  // namespace gc::cpu
