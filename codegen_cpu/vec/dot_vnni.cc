#include "codegen_cpu/vec/dot.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace gc::cpu {
namespace {

// vpdpbusd multiplies unsigned by signed bytes: weights are the unsigned ones, the planes of the activations signed.
class VnniPlaneDot : public PlaneDot {
 public:
  using PlaneDot::PlaneDot;
  int latency() const override { return 5; }
  Value* mac(Value* acc, const Values& w, const Values& x) override {
    const int bytes = e_.isa().vector_bytes;
    const auto id =
        bytes == 64 ? llvm::Intrinsic::x86_avx512_vpdpbusd_512 : llvm::Intrinsic::x86_avx512_vpdpbusd_256;
    return by_parts(bytes, {acc, w[0], x[0]},
                    [&](const Values& v) { return e_.b().CreateIntrinsic(id, {v[0], v[1], v[2]}); });
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
