#include "codegen_cpu/vec/dot.h"
#include "compiler/base/error.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace gc::cpu {
namespace {

// vpdpbusd multiplies unsigned by signed bytes: weights are the unsigned ones, the planes of the activations signed.
class VnniPlaneDot : public Dot {
 public:
  using Dot::Dot;
  int latency() const override { return 5; }
  Form form() const override { return Form::Planes; }
  int passes() const override { return 2; }
  int operands() const override { return 1; }
  llvm::Type* operand_type() override { return llvm::FixedVectorType::get(e_.b().getInt8Ty(), 64); }
  Values weights(Value* step, int offset) override {
    GC_CHECK(offset == 0);
    return {step};
  }
  Values activation(Value* block, int pass, int step) override {
    return {load_splat(e_.at(block, 32 * pass + 4 * step), operand_type())};
  }
  Value* mac(Value* acc, const Values& w, const Values& x) override {
    const int bytes = e_.isa().vector_bytes;
    const auto id =
        bytes == 64 ? llvm::Intrinsic::x86_avx512_vpdpbusd_512 : llvm::Intrinsic::x86_avx512_vpdpbusd_256;
    return by_parts(bytes, {acc, w[0], x[0]},
                    [&](const Values& v) { return e_.b().CreateIntrinsic(id, {v[0], v[1], v[2]}); });
  }
  // q = 256 * high + low, low taken as signed: high rounds to the nearest multiple.
  void store_activation(Value* q, Value* block) override {
    auto& b = e_.b();
    auto* bytes = llvm::FixedVectorType::get(b.getInt8Ty(), 32);
    Value* rounded = b.CreateAdd(q, llvm::ConstantInt::get(q->getType(), 128));
    e_.store(b.CreateTrunc(b.CreateAShr(rounded, llvm::ConstantInt::get(q->getType(), 8)), bytes), block, 32);
    e_.store(b.CreateTrunc(q, bytes), e_.at(block, 32), 32);
  }
};

class VnniPairDot : public PairDot {
 public:
  using PairDot::PairDot;
  int latency() const override { return 5; }
  Value* mac_pairs(Value* acc, Value* w, Value* x) override {
    const int bytes = e_.isa().vector_bytes;
    const auto id =
        bytes == 64 ? llvm::Intrinsic::x86_avx512_vpdpwssd_512 : llvm::Intrinsic::x86_avx512_vpdpwssd_256;
    return by_parts(bytes, {acc, w, x},
                    [&](const Values& v) { return e_.b().CreateIntrinsic(id, {v[0], v[1], v[2]}); });
  }
};

}  // namespace

std::unique_ptr<Dot> make_plane_dot_vnni(Emitter& e) { return std::make_unique<VnniPlaneDot>(e); }
std::unique_ptr<PairDot> make_pair_dot_vnni(Emitter& e) { return std::make_unique<VnniPairDot>(e); }

}  // namespace gc::cpu
