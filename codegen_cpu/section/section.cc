#include "codegen_cpu/section/section.h"

#include "codegen_cpu/section/parts.h"
#include "codegen_cpu/see.h"

namespace gc::cpu {
namespace {

using ir::Elem;
using ir::OpKind;
using ir::ValueId;
using plan::Buffer;
using plan::Split;

class SectionEmitter : Scope {
 public:
  explicit SectionEmitter(const Scope& scope) : Scope(scope) {}

  void run(int index) {
    for (int32_t i = plan_.section[index]; i < plan_.section[index + 1]; ++i) {
      const Step& step = plan_.steps[i];
      if (step.before == plan::Meet::Always) warm_up(*this, i, plan_.section[index + 1]);
      meet(step.before);
      emit(step, plan_.graph.ops[step.op]);
      show(step);
    }
  }

 private:
  void meet(plan::Meet meet) {
    auto if_set = [&](Slot flag) {
      e_.if_then(b_.CreateICmpNE(frame_.i64(flag), e_.i64(0)), [&] { frame_.meet(); });
    };
    switch (meet) {
      case plan::Meet::None:
        return;
      case plan::Meet::IfShared:
        return if_set(Slot::rows_shared);
      case plan::Meet::IfOutputsShared:
        return if_set(Slot::outputs_shared);
      case plan::Meet::Always:
        return frame_.meet();
    }
  }

  // What the step made, and views of it, to whoever asked. Quantized rows are the kernels' own affair, and so are rows
  // in the order of experts.
  void show(const Step& step) {
    if (step.split == Split::Experts) return;
    for (size_t i = 0; i < plan_.graph.values.size(); ++i) {
      const ir::Value& value = plan_.graph.values[i];
      if (value.type.elem != Elem::F32 || value.def < step.op || made_by(value.def) != step.op) continue;
      const auto see = [&] {
        const Rows r = rows_of(ValueId{static_cast<int32_t>(i)});
        b_.CreateCall(see_value(e_), {frame_.pointer(), constant(static_cast<int64_t>(i)), r.base, r.stride});
      };
      if (plan_.buffers[i].place == Buffer::Place::Sink)
        e_.if_then(stores_logits(), see);
      else
        see();
    }
  }
  // The op that stores what this op gives: itself, unless it makes a view.
  int32_t made_by(int32_t op) const {
    const auto& ops = plan_.graph.ops;
    while (ir::is_view(ops[op].kind)) op = plan_.graph.value(ops[op].inputs[0]).def;
    return op;
  }

  void emit(const Step& step, const Op& op) {
    switch (op.kind) {
      case OpKind::matmul:
        return emit_matmul(*this, step, op);
      case OpKind::matmul_glu:
        return emit_matmul_glu(*this, step, op);
      case OpKind::matmul_heads:
        return emit_matmul_heads(*this, step, op);
      case OpKind::attn_block:
      case OpKind::attention:
      case OpKind::attention_again:
      case OpKind::attention_sums:
      case OpKind::attention_chosen:
      case OpKind::choose_positions:
        return emit_attention(*this, op);
      case OpKind::conv:
      case OpKind::compress:
      case OpKind::ngram_embed:
      case OpKind::ssm_scan:
      case OpKind::delta_rule:
      case OpKind::decay_attention:
      case OpKind::token_shift:
      case OpKind::wkv:
      case OpKind::wkv7:
        return emit_recurrent(*this, op);
      case OpKind::experts_in:
      case OpKind::experts_out:
        return emit_experts(*this, step, op);
      case OpKind::softcap:
        if (step.split == Split::Columns) return emit_softcap_columns(*this, step, op);
        [[fallthrough]];
      case OpKind::embed:
      case OpKind::embed_position:
      case OpKind::rms_norm:
      case OpKind::layer_norm:
      case OpKind::weigh:
      case OpKind::shift:
      case OpKind::clamp:
      case OpKind::temper:
      case OpKind::mul_heads:
      case OpKind::dot_heads:
      case OpKind::mix:
      case OpKind::rescale:
      case OpKind::add_heads:
      case OpKind::sinkhorn:
      case OpKind::sparsify:
      case OpKind::scale:
      case OpKind::add:
      case OpKind::mul:
      case OpKind::act:
      case OpKind::select:
      case OpKind::quantize:
      case OpKind::glu:
      case OpKind::residual_norm:
      case OpKind::rope:
      case OpKind::concat:
      case OpKind::slice_heads:
      case OpKind::concat_heads:
      case OpKind::route:
      case OpKind::route_by_token:
        return emit_row_wise(*this, step, op);
      case OpKind::slice:
      case OpKind::heads:
      case OpKind::merge_heads:
        return;
    }
  }
};

}  // namespace

void emit_section(Emitter& e, const plan::Plan& plan, int index, int kv_type, llvm::Value* frame,
                  llvm::Value* table, std::vector<int64_t>& constants) {
  SectionEmitter(Scope(e, plan, kv_type, frame, table, constants)).run(index);
}

}  // namespace gc::cpu
