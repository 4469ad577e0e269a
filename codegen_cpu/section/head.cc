#include "codegen_cpu/kernels/head/head.h"

#include <cstddef>

#include "codegen_cpu/backend.h"
#include "codegen_cpu/kernels/elementwise/elementwise.h"
#include "codegen_cpu/kernels/head/two_streams.h"
#include "codegen_cpu/kernels/matmul/matmul.h"
#include "codegen_cpu/section/parts.h"
#include "codegen_cpu/section/section.h"
#include "compiler/quant/layouts.h"
#include "compiler/quant/two_streams.h"

namespace gc::cpu {
namespace {

using ir::AttrName;
using ir::OpKind;
using plan::Buffer;
using plan::Split;

class Head : Scope {
 public:
  explicit Head(const Scope& scope) : Scope(scope) {}

  void product(const Step& step, const Op& op) {
    const auto first = plan_.packed_of(op.slot("rows")[0]);
    if (first.two_streams) return split(op, first);
    if (plan_.buffers[op.results[0].index].place != Buffer::Place::Sink)
      return emit_stored_matmul(*this, step, op);
    e_.if_else(
        stores_logits(),
        [&] {
          emit_stored_matmul(*this, step, op);
          return Emitter::Values{};
        },
        [&] {
          choosing(step, op);
          return Emitter::Values{};
        });
  }
  void softcap_columns(const Step& step, const Op& op) {
    if (plan_.buffers[op.results[0].index].place != Buffer::Place::Sink) return stored_softcap(step, op);
    e_.if_then(stores_logits(), [&] { stored_softcap(step, op); });  // else the product has done it
  }
  void stored_softcap(const Step& step, const Op& op) {
    const Op& product = plan_.graph.ops[plan_.graph.value(op.inputs[0]).def];
    int64_t total = 0, column = 0;
    const Rows y = rows_of(op.results[0]);
    llvm::Function* one = softcap(e_, f(op, AttrName::cap), 16);
    for (const Segment& s : segments_of(product.slot("rows"), &total)) {
      auto [lo, hi] = share(s, total);
      e_.for_range(lo, hi, 1, [&](Value* p) {
        Value* at = e_.at(y.base, b_.CreateAdd(b_.CreateShl(p, 6), e_.i64(4 * column)));
        b_.CreateCall(one, {at, y.stride, at, y.stride, row_count(step)});
      });
      column += s.rows;
    }
  }

 private:
  // The head when its sink chooses: panels in chunks into scratch, as many as stay in the first-level cache, each chunk
  // handed over while it is there.
  void choosing(const Step& step, const Op& op) {
    int64_t total = 0, column = 0;
    const auto biases = op.slot("bias");
    const auto segments = segments_of(op.slot("rows"), &total);
    const Rows x = rows_of(op.inputs[0]);
    Value* n = row_count(step);
    Value* chunk = panels_at_once(n);
    Value* stride = b_.CreateShl(chunk, 6);
    Value* scratch = frame_.ptr(Slot::scratch);
    Value* choice = e_.member_ptr(sink(), offsetof(gc_sink, choice));
    llvm::Function* cap = cap_of_logits(op);
    llvm::Function* give = give_logits(e_);
    for (size_t i = 0; i < segments.size(); ++i) {
      const Segment& s = segments[i];
      auto [lo, hi] = share(s, total);
      Value* w = weight(s.use);
      Value* bias_w = i < biases.size() && biases[i].weight.valid() ? weight(biases[i]) : nullptr;
      loop_chunks(lo, hi, chunk, [&](Value* at, Value* count) {
        b_.CreateCall(
            matmul(e_, {s.format, s.cols, matmul_input(s.format)}),
            {e_.at(w, b_.CreateMul(at, e_.i64(s.panel))), x.base, x.stride, scratch, stride, count, n});
        if (bias_w) add_bias_panels(scratch, stride, e_.at(bias_w, b_.CreateShl(at, 6)), count, n);
        if (cap) cap_panels(cap, scratch, stride, count, n);
        Value* first = b_.CreateAdd(b_.CreateShl(at, 4), e_.i64(column));
        b_.CreateCall(give, {choice, frame_.i64(Slot::worker), first, count, scratch, stride, n});
      });
      column += s.rows;
    }
  }

  // The head in two streams: one row of which a token is chosen by the streams' own way; several are multiplied from the
  // streams; else panels are put together and multiplied a few at a time.
  void split(const Op& op, const plan::Packed& p) {
    int64_t total = 0;
    const Segment s = segments_of(op.slot("rows"), &total)[0];
    auto [lo, hi] = share(s, total);
    const Rows x = rows_of(op.inputs[0]);
    Value* n = frame_.i64(Slot::n_outputs);
    Value* upper = weight(s.use);
    Value* lower = lower_stream(upper, p);
    Value* scratch = frame_.ptr(Slot::scratch);
    Value* worker = frame_.i64(Slot::worker);
    const TwoStreamScratch at(p.cols, s.panels);
    auto joined_chunks = [&](const std::function<void(Value*, Value*)>& then) {
      loop_chunks(lo, hi, e_.i64(kJoinedPanels), [&](Value* first, Value* count) {
        b_.CreateCall(join_panels(e_, p.cols),
                      {e_.at(upper, first, upper_panel_bytes(p.cols)),
                       e_.at(lower, first, lower_panel_bytes(p.cols)), count, scratch});
        then(first, count);
      });
    };
    auto multiply = [&](Value* to, Value* stride, Value* count) {
      b_.CreateCall(matmul(e_, {s.format, p.cols, matmul_input(s.format)}),
                    {scratch, x.base, x.stride, to, stride, count, n});
    };
    // Several rows: straight from the streams.
    auto from_streams = [&](Value* first, Value* count, Value* to, Value* stride) {
      b_.CreateCall(two_stream_matmul(e_, p.cols),
                    {e_.at(upper, first, upper_panel_bytes(p.cols)),
                     e_.at(lower, first, lower_panel_bytes(p.cols)), x.base, x.stride, to, stride, count, n});
    };
    auto by_rows = [&](const std::function<void()>& of_many, const std::function<void()>& of_few) {
      auto run = [](const std::function<void()>& f) { return [&f] { return f(), Emitter::Values{}; }; };
      e_.if_else(b_.CreateICmpSGE(n, e_.i64(kTwoStreamRows)), run(of_many), run(of_few));
    };
    auto store = [&] {
      const Rows y = rows_of(op.results[0]);
      auto of_many = [&] {
        from_streams(lo, b_.CreateSub(hi, lo), e_.at(y.base, b_.CreateShl(lo, 6)), y.stride);
      };
      by_rows(of_many, [&] {
        joined_chunks([&](Value* first, Value* count) {
          multiply(e_.at(y.base, b_.CreateShl(first, 6)), y.stride, count);
        });
      });
      return Emitter::Values{};
    };
    auto choose = [&] {
      Value* choice = e_.member_ptr(sink(), offsetof(gc_sink, choice));
      Value* bound = e_.member_ptr(choice, offsetof(gc_choice, bound));
      Value* may_bound = b_.CreateICmpNE(bound, llvm::ConstantPointerNull::get(b_.getPtrTy()));
      Value* one = b_.CreateICmpEQ(n, e_.i64(1));
      Value* logits = e_.at(scratch, at.bytes);
      auto give = [&](Value* first, Value* count, Value* stride) {
        b_.CreateCall(give_logits(e_), {choice, worker, b_.CreateShl(first, 4), count, logits, stride, n});
      };
      auto all = [&] {
        auto of_many = [&] {
          Value* chunk = panels_at_once(n);
          Value* stride = b_.CreateShl(chunk, 6);
          loop_chunks(lo, hi, chunk, [&](Value* first, Value* count) {
            from_streams(first, count, logits, stride);
            give(first, count, stride);
          });
        };
        by_rows(of_many, [&] {
          Value* stride = e_.i64(64 * kJoinedPanels);
          joined_chunks([&](Value* first, Value* count) {
            multiply(logits, stride, count);
            give(first, count, stride);
          });
        });
        return Emitter::Values{};
      };
      auto by_bounds = [&] {
        b_.CreateCall(bound_logits(e_, p.cols, s.panels), {choice, worker, upper, x.base, lo, hi, scratch});
        frame_.meet();
        b_.CreateCall(take_logits(e_, p.cols, s.panels),
                      {choice, worker, upper, lower, x.base, lo, hi, scratch});
        return Emitter::Values{};
      };
      e_.if_else(b_.CreateAnd(one, may_bound), by_bounds, all);
      return Emitter::Values{};
    };
    e_.if_else(stores_logits(), store, choose);
  }

  // Panels of the head for n rows between two times that they are given away.
  Value* panels_at_once(Value* n) {
    Value* few = b_.CreateICmpULE(n, e_.i64(GC_REDUNDANT_ROWS));
    return b_.CreateSelect(few, e_.i64(kHeadPanelsFewRows), e_.i64(kHeadPanelsManyRows));
  }

  // What is done to logits in place behind the product, or null.
  llvm::Function* cap_of_logits(const Op& product) {
    for (const Step& step : plan_.steps) {
      const Op& op = plan_.graph.ops[step.op];
      if (step.split == Split::Columns && op.inputs[0] == product.results[0])
        return softcap(e_, f(op, AttrName::cap), 16);
    }
    return nullptr;
  }
  void cap_panels(llvm::Function* cap, Value* y, Value* stride, Value* panels, Value* rows) {
    e_.for_range(e_.i64(0), panels, 1, [&](Value* p) {
      Value* at = e_.at(y, b_.CreateShl(p, 6));
      b_.CreateCall(cap, {at, stride, at, stride, rows});
    });
  }
};

}  // namespace

void emit_matmul(const Scope& scope, const plan::Step& step, const ir::Op& op) {
  Head(scope).product(step, op);
}
void emit_softcap_columns(const Scope& scope, const plan::Step& step, const ir::Op& op) {
  Head(scope).softcap_columns(step, op);
}

const ir::Op* choosing_head(const plan::Plan& plan) {
  if (plan.graph.encoder) return nullptr;
  ir::ValueId value = plan.graph.outputs[0];
  for (const plan::Step& step : plan.steps)
    if (step.split == Split::Columns && plan.graph.ops[step.op].results[0] == value)
      value = plan.graph.ops[step.op].inputs[0];
  const ir::Op& op = plan.graph.ops[plan.graph.value(value).def];
  return op.kind == OpKind::matmul && plan.buffers[value.index].place == Buffer::Place::Sink ? &op : nullptr;
}

}  // namespace gc::cpu
