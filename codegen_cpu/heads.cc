#include "codegen_cpu/heads.h"

#include "codegen_cpu/act_layout.h"
#include "codegen_cpu/frame.h"
#include "codegen_cpu/kernels/matmul/matmul.h"
#include "codegen_cpu/kernels/row_out/row_out.h"
#include "compiler/base/error.h"
#include "compiler/base/strings.h"
#include "compiler/quant/layouts.h"

namespace gc::cpu {

using llvm::Value;

llvm::Function* matmul_heads(Emitter& e, const HeadsSpec& s) {
  GC_CHECK(s.n % kPanelRows == 0, "a head's matrix of ", s.n, " rows");
  const std::string name =
      cat("matmul_heads_", s.heads, "_", matmul_name({s.format, s.k, s.input}), "_", s.n);
  const std::vector<Arg> args = {ptr("x"),  i64("xs"),   ptr("matrices"), ptr("y"),
                                 i64("ys"), i64("rows"), i64("worker"),   i64("workers")};
  return e.function(name, args, [&](const Args& a) {
    auto& b = e.b();
    const std::int64_t panels = s.n / kPanelRows, bytes = panel_bytes(s.format, s.k);
    const std::int64_t part = s.input == ir::Elem::Q16 ? act_row_bytes(s.k) : 4 * s.k;
    auto bound = [&](Value* j) {
      return b.CreateCall(share_units(e), {e.i64(s.heads * panels), j, a["workers"]});
    };
    Value* lo = bound(a["worker"]);
    Value* hi = bound(b.CreateAdd(a["worker"], e.i64(1)));
    auto within = [&](Value* at,
                      Value* head) {  // of the head's panels, the first that is not before panel `at` of all
      Value* i = b.CreateSub(at, b.CreateMul(head, e.i64(panels)));
      i = b.CreateSelect(b.CreateICmpSLT(i, e.i64(0)), e.i64(0), i);
      return b.CreateSelect(b.CreateICmpSGT(i, e.i64(panels)), e.i64(panels), i);
    };
    e.for_range(0, s.heads, 1, [&](Value* head) {
      Value *first = within(lo, head), *end = within(hi, head);
      e.if_then(b.CreateICmpSLT(first, end), [&] {
        Value* at = b.CreateAdd(b.CreateMul(head, e.i64(panels)), first);
        b.CreateCall(matmul(e, {s.format, s.k, s.input}),
                     {e.at(a["matrices"], at, bytes), e.at(a["x"], head, part), a["xs"],
                      e.at(a["y"], at, std::int64_t{64}), a["ys"], b.CreateSub(end, first), a["rows"]});
      });
    });
  });
}

}  // namespace gc::cpu
