#include "codegen_cpu/backend.h"
#include "codegen_cpu/glu_panels.h"
#include "codegen_cpu/heads.h"
#include "codegen_cpu/kernels/matmul/matmul.h"
#include "codegen_cpu/section/parts.h"
#include "compiler/base/error.h"
#include "compiler/quant/layouts.h"
#include "compiler/quant/two_streams.h"

namespace gc::cpu {
namespace {

using ir::OpKind;
using plan::Meet;

class Products : Scope {
 public:
  explicit Products(const Scope& scope) : Scope(scope) {}

  void stored(const Step& step, const Op& op) {
    int64_t total = 0, column = 0;
    const auto biases = op.slot("bias");
    const auto segments = segments_of(op.slot("rows"), &total);
    const Rows x = rows_of(op.inputs[0]), y = rows_of(op.results[0]);
    for (size_t i = 0; i < segments.size(); ++i) {
      const Segment& s = segments[i];
      auto [lo, hi] = share(s, total);
      Value* panels = e_.at(weight(s.use), b_.CreateMul(lo, e_.i64(s.panel)));
      Value* part = e_.at(y.base, b_.CreateAdd(b_.CreateShl(lo, 6), e_.i64(4 * column)));
      b_.CreateCall(matmul(e_, {s.format, s.cols, matmul_input(s.format)}),
                    {panels, x.base, x.stride, part, y.stride, b_.CreateSub(hi, lo), row_count(step)});
      if (i < biases.size() && biases[i].weight.valid()) {
        Value* w = e_.at(weight(biases[i]), b_.CreateShl(lo, 6));
        add_bias_panels(part, y.stride, w, b_.CreateSub(hi, lo), row_count(step));
      }
      column += s.rows;
    }
  }

  // Gate and up of a chunk of columns into scratch, then their joint into the row. The chunk is long for few rows, so
  // that weights stream, and short for many, so that the scratch stays in cache.
  void glu(const Step& step, const Op& op) {
    int64_t gate_total = 0, up_total = 0;
    const auto gates = segments_of(op.slot("gate"), &gate_total), ups = segments_of(op.slot("up"), &up_total);
    GC_CHECK(gates.size() == 1 && ups.size() == 1);
    const Segment &gate = gates[0], &up = ups[0];
    const int64_t unit = glu_unit(op.out()), unit_panels = unit / kPanelRows;
    const int64_t units = (gate.rows + unit - 1) / unit;
    const Rows x = rows_of(op.inputs[0]), y = rows_of(op.results[0]);
    Value* n = row_count(step);
    Value* few = b_.CreateICmpULE(n, e_.i64(GC_REDUNDANT_ROWS));
    Value* chunk =
        b_.CreateSelect(few, e_.i64(kGluColumnsFewRows / unit), e_.i64(kGluColumnsManyRows / unit));
    Value* stride = b_.CreateMul(chunk, e_.i64(4 * unit));
    Value* gate_y = frame_.ptr(Slot::scratch);
    Value* up_y = e_.at(gate_y, b_.CreateMul(stride, n));
    Value* gate_w = weight(gate.use);
    Value* up_w = weight(up.use);
    auto bound = [&](Value* j) {
      return b_.CreateCall(share_units(e_), {e_.i64(units), j, frame_.i64(Slot::workers)});
    };
    Value* lo = bound(frame_.i64(Slot::worker));
    Value* hi = bound(b_.CreateAdd(frame_.i64(Slot::worker), e_.i64(1)));
    llvm::Function* join = glu_panels(e_, {op.fn(), gate.rows, op.out()});
    loop_chunks(lo, hi, chunk, [&](Value* at, Value* count) {
      Value* panels = b_.CreateMul(count, e_.i64(unit_panels));
      Value* first = b_.CreateMul(at, e_.i64(unit_panels));
      auto product = [&](const Segment& s, Value* w, Value* out) {
        b_.CreateCall(
            matmul(e_, {s.format, s.cols, matmul_input(s.format)}),
            {e_.at(w, b_.CreateMul(first, e_.i64(s.panel))), x.base, x.stride, out, stride, panels, n});
      };
      product(gate, gate_w, gate_y);
      product(up, up_w, up_y);
      b_.CreateCall(join, {gate_y, stride, up_y, stride, y.base, y.stride, b_.CreateMul(at, e_.i64(unit)),
                           b_.CreateMul(count, e_.i64(unit)), n});
    });
  }

  void of_heads(const Step& step, const Op& op) {
    const Rows x = rows_of(op.inputs[0]), y = rows_of(op.results[0]);
    const ir::WeightUse use = *op.one("matrices");
    const ir::Weight& w = plan_.graph.weight(use.weight);
    const HeadsSpec spec{w.shape[0], w.shape[1], w.shape[2], w.format, type(op.inputs[0]).elem};
    b_.CreateCall(matmul_heads(e_, spec), {x.base, x.stride, weight(use), y.base, y.stride, row_count(step),
                                           frame_.i64(Slot::worker), frame_.i64(Slot::workers)});
  }

  void warm_up(int32_t from, int32_t end) {
    for (int32_t i = from; i < end && (i == from || plan_.steps[i].before != plan::Meet::Always); ++i) {
      const Op& op = plan_.graph.ops[plan_.steps[i].op];
      if (op.kind == OpKind::matmul) {
        int64_t total = 0;
        for (const Segment& s : segments_of(op.slot("rows"), &total)) {
          auto [lo, hi] = share(s, total);
          prefetch_weights(s, lo);
        }
        return;
      }
      if (op.kind == OpKind::matmul_glu) {
        int64_t total = 0;
        const Segment gate = segments_of(op.slot("gate"), &total)[0];
        const int64_t unit = glu_unit(op.out());
        Value* lo = b_.CreateCall(share_units(e_), {e_.i64((gate.rows + unit - 1) / unit),
                                                    frame_.i64(Slot::worker), frame_.i64(Slot::workers)});
        prefetch_weights(gate, b_.CreateMul(lo, e_.i64(unit / kPanelRows)));
        return;
      }
    }
  }

 private:
  void prefetch_weights(const Segment& s, Value* panel) {
    const bool streams = plan_.packed_of(s.use).two_streams;
    const int64_t bytes = streams ? upper_panel_bytes(s.cols) : s.panel;
    b_.CreateCall(prefetch_panels(e_),
                  {e_.at(weight(s.use), b_.CreateMul(panel, e_.i64(bytes))), e_.i64(bytes)});
  }
};

}  // namespace

void emit_stored_matmul(const Scope& scope, const plan::Step& step, const ir::Op& op) {
  Products(scope).stored(step, op);
}
void emit_matmul_glu(const Scope& scope, const plan::Step& step, const ir::Op& op) {
  Products(scope).glu(step, op);
}
void emit_matmul_heads(const Scope& scope, const plan::Step& step, const ir::Op& op) {
  Products(scope).of_heads(step, op);
}
void warm_up(const Scope& scope, std::int32_t from, std::int32_t end) { Products(scope).warm_up(from, end); }

}  // namespace gc::cpu
