// aarch64: products of 16-bit pairs widen (smull) and are added in pairs; sdot and usdot take planes.
//
// sdot multiplies signed by signed bytes, so 128 is taken off the weights; what that does to the sums is a multiple of the
// activations' own sum, which rows put right anyway (bias()). usdot of I8MM is vpdpbusd.
#include "codegen_cpu/vec/dot.h"
#include "llvm/IR/IntrinsicsAArch64.h"

namespace gc::cpu {
namespace {

constexpr int kBytes = 16;  // of a register

class NeonPairDot : public PairDot {
 public:
  using PairDot::PairDot;
  int latency() const override { return 1; }
  Value* mac_pairs(Value* acc, Value* w, Value* x) override {
    auto& b = e_.b();
    auto* words = llvm::FixedVectorType::get(b.getInt32Ty(), 4);
    const auto product = [&](const Values& v, int first) {
      const std::vector<int> half = {first, first + 1, first + 2, first + 3};
      const auto wide = [&](Value* s) { return b.CreateSExt(b.CreateShuffleVector(s, half), words); };
      return b.CreateMul(wide(v[0]), wide(v[1]));
    };
    Value* sums = by_parts(kBytes, {w, x}, [&](const Values& v) {
      return b.CreateIntrinsic(llvm::Intrinsic::aarch64_neon_addp, {words}, {product(v, 0), product(v, 4)});
    });
    return b.CreateAdd(acc, sums);
  }
};

class NeonPlaneDot : public PlaneDot {
 public:
  using PlaneDot::PlaneDot;
  int latency() const override { return 4; }
  int bias() const override { return has_usdot() ? 0 : 128; }
  Values weights(Value* step, int offset) override {
    const Values w = PlaneDot::weights(step, offset);
    return has_usdot() ? w : Values{e_.b().CreateXor(w[0], llvm::ConstantInt::get(w[0]->getType(), 128))};
  }
  Value* mac(Value* acc, const Values& w, const Values& x) override {
    const auto id = has_usdot() ? llvm::Intrinsic::aarch64_neon_usdot : llvm::Intrinsic::aarch64_neon_sdot;
    return by_parts(kBytes, {acc, w[0], x[0]}, [&](const Values& v) {
      return e_.b().CreateIntrinsic(id, {v[0]->getType(), v[1]->getType()}, {v[0], v[1], v[2]});
    });
  }

 private:
  bool has_usdot() const { return e_.isa().has_i8mm; }
};

}  // namespace

std::unique_ptr<PairDot> make_pair_dot_neon(Emitter& e) { return std::make_unique<NeonPairDot>(e); }
std::unique_ptr<Dot> make_plane_dot_neon(Emitter& e) { return std::make_unique<NeonPlaneDot>(e); }

}  // namespace gc::cpu
