#include "codegen_cpu/vec/dot.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace gc::cpu {
namespace {

class Avx2PairDot : public PairDot {
 public:
  using PairDot::PairDot;
  int latency() const override { return 1; }
  Value* mac_pairs(Value* acc, Value* w, Value* x) override {
    return by_parts(32, {acc, w, x}, [&](const Values& v) {
      Value* products = e_.b().CreateIntrinsic(llvm::Intrinsic::x86_avx2_pmadd_wd, {v[1], v[2]});
      return kept(e_.b().CreateAdd(v[0], products));
    });
  }
};

}  // namespace

std::unique_ptr<PairDot> make_pair_dot_avx2(Emitter& e) { return std::make_unique<Avx2PairDot>(e); }

}  // namespace gc::cpu
