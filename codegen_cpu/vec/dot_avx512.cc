#include "codegen_cpu/vec/dot.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace gc::cpu {
namespace {

class Avx512PairDot : public PairDot {
 public:
  using PairDot::PairDot;
  int latency() const override { return 1; }
  Value* mac(Value* acc, const Values& w, const Values& x) override {
    for (int i = 0; i < 2; ++i) {
      Value* products = e_.b().CreateIntrinsic(llvm::Intrinsic::x86_avx512_pmaddw_d_512, {w[i], x[i]});
      acc = e_.b().CreateAdd(acc, products);
    }
    return acc;
  }
};

}  // namespace

std::unique_ptr<Dot> make_pair_dot_avx512(Emitter& e) { return std::make_unique<Avx512PairDot>(e); }

}  // namespace gc::cpu
