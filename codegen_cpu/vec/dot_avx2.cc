#include "codegen_cpu/vec/dot.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace gc::cpu {
namespace {

class Avx2PairDot : public PairDot {
 public:
  using PairDot::PairDot;
  int latency() const override { return 1; }
  Value* mac(Value* acc, const Values& w, const Values& x) override {
    for (int i = 0; i < 2; ++i) {
      Value* products = by_parts(32, {w[i], x[i]}, [&](const Values& v) {
        return e_.b().CreateIntrinsic(llvm::Intrinsic::x86_avx2_pmadd_wd, {v[0], v[1]});
      });
      acc = e_.b().CreateAdd(acc, products);
    }
    return acc;
  }
};

}  // namespace

std::unique_ptr<Dot> make_pair_dot_avx2(Emitter& e) { return std::make_unique<Avx2PairDot>(e); }

}  // namespace gc::cpu
