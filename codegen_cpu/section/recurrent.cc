#include "codegen_cpu/kernels/recurrent/recurrent.h"

#include "codegen_cpu/backend.h"
#include "codegen_cpu/section/parts.h"
#include "llvm/ADT/SmallVector.h"

namespace gc::cpu {
namespace {

using ir::OpKind;

class Recurrent : Scope {
 public:
  explicit Recurrent(const Scope& scope) : Scope(scope) {}

  void emit(const Op& op) {
    if (op.kind == OpKind::conv) return convolve(op);
    if (op.kind == OpKind::compress) return pool(op);
    if (op.kind == OpKind::ngram_embed) return look_up(op);
    if (op.kind == OpKind::token_shift) return shift(op);
    return advance(op);
  }

 private:
  using Values = llvm::SmallVector<Value*, 24>;

  // step, group, slot_bytes, offset.
  Values head(const Op& op) {
    const plan::StatePlan& at = plan_.states[op.state.index];
    return {frame_.ptr(Slot::step), e_.i64(at.group), e_.i64(plan_.groups[at.group].seq_bytes),
            constant(at.offset[kv_type_])};
  }
  void result_and_units(const Op& op, std::int64_t units, Values& args) {
    auto bound = [&](Value* j) {
      return b_.CreateCall(share_units(e_), {e_.i64(units), j, frame_.i64(Slot::workers)});
    };
    const Rows y = rows_of(op.results[0]);
    Value* worker = frame_.i64(Slot::worker);
    args.append({y.base, y.stride, bound(worker), bound(b_.CreateAdd(worker, e_.i64(1)))});
  }

  void convolve(const Op& op) {
    const ConvSpec spec = conv_spec(plan_.graph, op);
    Values args = head(op);
    const Rows x = rows_of(op.inputs[0]);
    args.append({x.base, x.stride, weight_or_null(op, "taps"), weight_or_null(op, "bias")});
    result_and_units(op, spec.units(), args);
    b_.CreateCall(conv(e_, spec), args);
  }

  void pool(const Op& op) {
    const CompressSpec spec = compress_spec(plan_.graph, op);
    Values args = head(op);
    for (const ir::ValueId input : op.inputs) {
      const Rows x = rows_of(input);
      args.append({x.base, x.stride});
    }
    args.push_back(weight(*op.one("ape")));
    result_and_units(op, spec.units(), args);
    b_.CreateCall(compress(e_, spec), args);
  }

  void look_up(const Op& op) {
    Values args = head(op);
    args.push_back(weight(*op.one("table")));
    result_and_units(op, 1, args);
    b_.CreateCall(ngram_embed(e_, ngram_spec(plan_.graph, op)), args);
  }

  void shift(const Op& op) {
    const ShiftSpec spec = shift_spec(plan_.graph, op);
    Values args = head(op);
    const Rows x = rows_of(op.inputs[0]);
    args.append({x.base, x.stride, weight_or_null(op, "mix")});
    result_and_units(op, spec.units(), args);
    b_.CreateCall(token_shift(e_, spec), args);
  }

  void advance(const Op& op) {
    const ScanSpec spec = scan_spec(plan_.graph, op);
    Value* none = llvm::ConstantPointerNull::get(b_.getPtrTy());
    Values args = head(op);
    for (std::size_t i = 0; i < 6; ++i) {
      const Rows x = i < op.inputs.size() ? rows_of(op.inputs[i]) : Rows{none, e_.i64(0)};
      args.append({x.base, x.stride});
    }
    const bool ssm = op.kind == OpKind::ssm_scan, wkv = op.kind == OpKind::wkv;
    args.push_back(ssm || wkv ? weight_or_null(op, wkv ? "bonus" : "a") : none);
    for (const char* slot : {"dt_bias", "d"}) args.push_back(ssm ? weight_or_null(op, slot) : none);
    result_and_units(op, spec.units(e_.isa()), args);
    b_.CreateCall(scan(e_, spec), args);
  }
};

}  // namespace

void emit_recurrent(const Scope& scope, const ir::Op& op) { Recurrent(scope).emit(op); }

}  // namespace gc::cpu
