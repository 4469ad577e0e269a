#include "codegen_cpu/act_layout.h"

#include <limits>
#include <numeric>
#include <string>

#include "codegen_cpu/vec/dot.h"
#include "codegen_cpu/vec/vec.h"
#include "compiler/base/error.h"
#include "compiler/quant/activation.h"

namespace gc::cpu {

using llvm::Value;

namespace {

Value* joined(Emitter& e, Value* a, Value* b) {
  std::vector<int> mask(32);
  std::iota(mask.begin(), mask.end(), 0);
  return e.b().CreateShuffleVector(a, b, mask);
}

}  // namespace

// The operations of compiler/quant/activation.h one by one, so that the bits agree.
void emit_quantize_block(Emitter& e, Value* row, std::int64_t k, Value* block, Value* x0, Value* x1) {
  auto& b = e.b();
  Vec v(e);
  Value* amax = v.reduce_max(v.max(v.abs(x0), v.abs(x1)));
  Value* limit = e.f32(kActLimit);
  Value* id = b.CreateFDiv(limit, amax);
  // Not for zero blocks nor for values so small that the factor overflows.
  Value* finite = b.CreateFCmpOLT(id, e.f32(std::numeric_limits<double>::infinity()));
  id = b.CreateSelect(finite, id, e.f32(0));
  Value* d = b.CreateSelect(finite, b.CreateFDiv(amax, limit), e.f32(0));

  auto* i32x16 = llvm::FixedVectorType::get(b.getInt32Ty(), 16);
  Value *q[2], *sum[2];
  for (int h = 0; h < 2; ++h) {
    Value* scaled = v.mul(h ? x1 : x0, v.splat(id));
    q[h] = b.CreateFPToSI(b.CreateUnaryIntrinsic(llvm::Intrinsic::rint, scaled), i32x16);
    sum[h] = b.CreateAddReduce(q[h]);
  }
  Value* all = joined(e, q[0], q[1]);
  make_pair_dot(e)->store_activation(all, e.at(row, block, 64));
  const std::unique_ptr<Dot> of_row = Dot::for_row(e);
  if (of_row->form() == Dot::Form::Planes)
    of_row->store_activation(all, e.at(row, block, 64, act_planes_offset(k)));

  Value* meta = e.at(row, block, sizeof(ActMeta), act_meta_offset(k));
  Value* total = b.CreateSIToFP(b.CreateAdd(sum[0], sum[1]), e.f32());
  e.store(d, e.at(meta, offsetof(ActMeta, d)), 4);
  e.store(b.CreateFMul(d, total), e.at(meta, offsetof(ActMeta, d_sum)), 4);
  e.store(sum[0], e.at(meta, offsetof(ActMeta, sum)), 4);
  e.store(sum[1], e.at(meta, offsetof(ActMeta, sum) + 4), 4);
}

llvm::Function* quantize(Emitter& e, std::int64_t k) {
  GC_CHECK(k > 0 && k % kActBlock == 0, k);
  return e.function("quantize_" + std::to_string(k),
                    {in("x"), i64("x_stride"), out("y"), i64("y_stride"), i64("rows")},
                    [&](const Args& args) {
                      Vec v(e);
                      e.for_range(e.i64(0), args["rows"], 1, [&](Value* t) {
                        Value* x = e.at(args["x"], t, args["x_stride"]);
                        Value* y = e.at(args["y"], t, args["y_stride"]);
                        e.for_range(0, k / kActBlock, 1, [&](Value* block) {
                          Value* p = e.at(x, block, 4 * kActBlock);
                          emit_quantize_block(e, y, k, block, v.load(p), v.load(e.at(p, 64)));
                        });
                      });
                    });
}

}  // namespace gc::cpu
