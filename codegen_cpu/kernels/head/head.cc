#include "codegen_cpu/kernels/head/head.h"

#include <cstddef>

#include "runtime/abi/program.h"

namespace gc::cpu {

using llvm::Value;

llvm::Function* give_logits(Emitter& e) {
  return e.function(
      "give_logits",
      {ptr("choice"), i64("worker"), i64("first"), i64("panels"), ptr("logits"), i64("stride"), i64("rows")},
      [&](const Args& a) {
        auto& b = e.b();
        auto* i32 = b.getInt32Ty();
        auto* type = llvm::FunctionType::get(b.getVoidTy(), {e.ptr(), i32, i32, i32, i32, e.ptr()}, false);
        Value* take = e.member_ptr(a["choice"], offsetof(gc_choice, take));
        Value* context = e.member_ptr(a["choice"], offsetof(gc_choice, context));
        auto word = [&](Value* v) { return b.CreateTrunc(v, i32); };
        e.for_range(e.i64(0), a["rows"], 1, [&](Value* row) {
          b.CreateCall(type, take,
                       {context, word(a["worker"]), word(row), word(a["first"]),
                        word(b.CreateShl(a["panels"], 4)), e.at(a["logits"], row, a["stride"])});
        });
      });
}

}  // namespace gc::cpu
