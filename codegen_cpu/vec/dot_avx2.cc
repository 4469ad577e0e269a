#include "codegen_cpu/vec/dot.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace gc::cpu {
namespace {

class Avx2Dot : public Dot {
 public:
  using Dot::Dot;
  int passes() const override { return 1; }
  int operands() const override { return 2; }
  llvm::Type* operand_type() override { return llvm::FixedVectorType::get(e_.b().getInt16Ty(), 32); }
  Values weights(Value* step) override { return even_odd(step); }
  Values activation(Value* block, int, int step) override { return load_pairs(block, step); }
  Value* mac(Value* acc, const Values& w, const Values& x) override {
    for (int i = 0; i < 2; ++i) {
      Value* products = by_parts(32, {w[i], x[i]}, [&](const Values& v) {
        return e_.b().CreateIntrinsic(llvm::Intrinsic::x86_avx2_pmadd_wd, {v[0], v[1]});
      });
      acc = e_.b().CreateAdd(acc, products);
    }
    return acc;
  }
  void store_activation(Value* q, Value* block) override { store_pairs(q, block); }
};

}  // namespace

std::unique_ptr<Dot> make_dot_avx2(Emitter& e) { return std::make_unique<Avx2Dot>(e); }

}  // namespace gc::cpu
