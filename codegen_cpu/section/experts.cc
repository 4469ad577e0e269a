#include "codegen_cpu/experts.h"

#include "codegen_cpu/backend.h"
#include "codegen_cpu/section/parts.h"

namespace gc::cpu {
namespace {

using ir::OpKind;

class Experts : Scope {
 public:
  explicit Experts(const Scope& scope) : Scope(scope) {}

  void emit(const Step& step, const Op& op) {
    if (op.kind == OpKind::experts_in) return in(step, op);
    return out(step, op);
  }

 private:
  void in(const Step& step, const Op& op) {
    const Rows x = rows_of(op.inputs[0]), routing = rows_of(op.inputs[1]), y = rows_of(op.results[0]);
    b_.CreateCall(
        experts_in(e_, experts_in_spec(plan_.graph, op)),
        {x.base, x.stride, routing.base, routing.stride, row_count(step), weight_or_null(op, "gate"),
         weight_or_null(op, "up"), weight_or_null(op, "gate_scale"), weight_or_null(op, "up_scale"),
         weight_or_null(op, "gate_bias"), weight_or_null(op, "up_bias"), y.base, frame_.ptr(Slot::scratch),
         frame_.i64(Slot::worker), frame_.i64(Slot::workers)});
  }

  void out(const Step& step, const Op& op) {
    const Rows x = rows_of(op.inputs[0]), routing = rows_of(op.inputs[1]), y = rows_of(op.results[0]);
    b_.CreateCall(experts_out(e_, experts_out_spec(plan_.graph, op)),
                  {x.base, routing.base, routing.stride, row_count(step), weight_or_null(op, "down"),
                   weight_or_null(op, "bias"), y.base, y.stride, frame_.ptr(Slot::scratch),
                   frame_.i64(Slot::worker), frame_.i64(Slot::workers)});
  }
};

}  // namespace

void emit_experts(const Scope& scope, const plan::Step& step, const ir::Op& op) {
  Experts(scope).emit(step, op);
}

}  // namespace gc::cpu
