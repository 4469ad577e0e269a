#include "codegen_cpu/see.h"

#include <cstddef>

#include "codegen_cpu/frame.h"

namespace gc::cpu {

llvm::Function* see_value(Emitter& e) {
  return e.function(
      "see_value", {ptr("frame"), i64("value"), ptr("data"), i64("stride")}, [&](const Args& a) {
        auto& b = e.b();
        const Frame frame(e, a["frame"]);
        llvm::Value* step = frame.ptr(Slot::step);
        llvm::Value* see = e.member_ptr(step, offsetof(gc_step, see));
        e.if_then(b.CreateICmpNE(see, llvm::ConstantPointerNull::get(b.getPtrTy())), [&] {
          frame.meet();
          e.if_then(b.CreateICmpEQ(frame.i64(Slot::worker), e.i64(0)), [&] {
            auto* type = llvm::FunctionType::get(
                b.getVoidTy(), {b.getPtrTy(), b.getInt32Ty(), b.getInt32Ty(), b.getPtrTy(), b.getInt64Ty()},
                false);
            b.CreateCall(type, see,
                         {e.member_ptr(step, offsetof(gc_step, see_context)), e.i32(0),
                          b.CreateTrunc(a["value"], b.getInt32Ty()), a["data"], a["stride"]});
          });
          frame.meet();
        });
      });
}

}  // namespace gc::cpu
