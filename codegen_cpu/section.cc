#include "codegen_cpu/section.h"

#include <cstddef>

#include "codegen_cpu/act_layout.h"
#include "codegen_cpu/backend.h"
#include "codegen_cpu/frame.h"
#include "codegen_cpu/glu_panels.h"
#include "codegen_cpu/kernels/attention/attention.h"
#include "codegen_cpu/kernels/elementwise/elementwise.h"
#include "codegen_cpu/kernels/embed/embed.h"
#include "codegen_cpu/kernels/glu/glu.h"
#include "codegen_cpu/kernels/head/head.h"
#include "codegen_cpu/kernels/head/two_streams.h"
#include "codegen_cpu/kernels/matmul/matmul.h"
#include "codegen_cpu/kernels/norm/norm.h"
#include "codegen_cpu/kernels/rope/rope.h"
#include "codegen_cpu/see.h"
#include "compiler/base/error.h"
#include "compiler/quant/layouts.h"
#include "compiler/quant/two_streams.h"

namespace gc::cpu {
namespace {

using ir::AttrName;
using ir::Elem;
using ir::Op;
using ir::OpKind;
using ir::ValueId;
using llvm::Value;
using plan::Buffer;
using plan::Split;
using plan::Step;

int64_t columns_of(const ir::Type& type) {
  int64_t n = 1;
  for (size_t i = 1; i < type.dims.size(); ++i) n *= type.dims[i].size;
  return n;
}

// Rows of a value: where row 0 begins, and bytes from row to row.
struct Rows {
  Value* base;
  Value* stride;
};

class SectionEmitter {
 public:
  SectionEmitter(Emitter& e, const plan::Plan& plan, int kv_type, Value* frame, Value* table,
                 std::vector<int64_t>& constants)
      : e_(e),
        b_(e.b()),
        plan_(plan),
        kv_type_(kv_type),
        frame_(e, frame),
        table_(table),
        constants_(constants) {}

  void run(int index) {
    for (int32_t i = plan_.section[index]; i < plan_.section[index + 1]; ++i) {
      const Step& step = plan_.steps[i];
      if (step.before == plan::Meet::Always) warm_up(i, plan_.section[index + 1]);
      meet(step.before);
      emit(step, plan_.graph.ops[step.op]);
      show(step);
    }
  }

 private:
  // A constant that may differ between layers of one shape.
  Value* constant(int64_t v) {
    constants_.push_back(v);
    return e_.member_i64(table_, 8 * static_cast<int64_t>(constants_.size() - 1));
  }

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
    auto is_view = [&](OpKind k) {
      return k == OpKind::slice || k == OpKind::heads || k == OpKind::merge_heads;
    };
    while (is_view(plan_.graph.ops[op].kind)) op = plan_.graph.value(plan_.graph.ops[op].inputs[0]).def;
    return op;
  }

  // ---- Operands ----

  Rows rows_of(ValueId id) {
    const Buffer& buffer = plan_.buffers[id.index];
    auto in = [&](Slot base, Slot cap) {
      return e_.at(frame_.ptr(base), b_.CreateMul(constant(buffer.offset), frame_.i64(cap)));
    };
    Value* base = nullptr;
    switch (buffer.place) {
      case Buffer::Place::Rows:
        base = in(Slot::rows, Slot::rows_cap);
        break;
      case Buffer::Place::Prep:
        base = in(Slot::prep, Slot::prep_cap);
        break;
      case Buffer::Place::Outputs:
        base = in(Slot::outputs, Slot::outputs_cap);
        break;
      case Buffer::Place::OutPrep:
        base = in(Slot::out_prep, Slot::out_prep_cap);
        break;
      case Buffer::Place::Sink:
        return {frame_.ptr(Slot::sink), frame_.i64(Slot::sink_stride)};
      case Buffer::Place::None:
        break;
    }
    GC_CHECK(base != nullptr, "value ", plan_.graph.value(id).name, " has no place");
    if (buffer.shift != 0) base = e_.at(base, buffer.shift);
    return {base, e_.i64(buffer.stride)};
  }
  Rows rows_from(ValueId id, Value* lo) {
    Rows r = rows_of(id);
    r.base = e_.at(r.base, b_.CreateMul(lo, r.stride));
    return r;
  }

  Value* weight(const ir::WeightUse& use) {
    return e_.at(frame_.ptr(Slot::weights), constant(plan_.packed_of(use).offset));
  }
  Value* lower_stream(Value* upper, const plan::Packed& p) {
    return e_.at(upper, panels_of(p.rows) * upper_panel_bytes(p.cols));
  }
  // A pointer that the kernel doesn't read when the weight is absent.
  Value* weight_or_null(const Op& op, std::string_view slot) {
    const auto use = op.one(slot);
    return use ? weight(*use) : llvm::ConstantPointerNull::get(b_.getPtrTy());
  }

  const ir::Type& type(ValueId id) const { return plan_.graph.value(id).type; }
  int64_t columns(ValueId id) const { return columns_of(type(id)); }
  static float f(const Op& op, AttrName name) { return static_cast<float>(op.f32(name)); }

  Value* row_lo(const Step& s) { return frame_.i64(s.outputs ? Slot::output_lo : Slot::row_lo); }
  Value* row_hi(const Step& s) { return frame_.i64(s.outputs ? Slot::output_hi : Slot::row_hi); }
  Value* row_count(const Step& s) { return frame_.i64(s.outputs ? Slot::n_outputs : Slot::n_rows); }

  // The row table from row lo on.
  Value* step_rows(Value* lo) {
    Value* rows = e_.member_ptr(frame_.ptr(Slot::step), offsetof(gc_step, rows));
    return e_.at(rows, b_.CreateMul(lo, e_.i64(sizeof(gc_row))));
  }

  // ---- Steps ----

  void emit(const Step& step, const Op& op) {
    switch (op.kind) {
      case OpKind::matmul:
        return emit_matmul(step, op);
      case OpKind::matmul_glu:
        return emit_matmul_glu(step, op);
      case OpKind::attn_block:
        return emit_attn_block(op);
      case OpKind::experts_in:
        return emit_experts_in(step, op);
      case OpKind::experts_out:
        return emit_experts_out(step, op);
      case OpKind::softcap:
        if (step.split == Split::Columns) return emit_softcap_columns(step, op);
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
      case OpKind::route:
        return emit_row_wise(step, op);
      case OpKind::slice:
      case OpKind::heads:
      case OpKind::merge_heads:
        return;
      case OpKind::attention:
        return emit_attention(op);
    }
  }

  // Ops over this worker's rows [lo, hi).
  void emit_row_wise(const Step& step, const Op& op) {
    Value* lo = row_lo(step);
    Value* n = b_.CreateSub(row_hi(step), lo);
    const Rows y = rows_from(op.results[0], lo);
    const int64_t cols = columns(op.results[0]);
    auto x = [&](int i) { return rows_from(op.inputs[i], lo); };
    auto unary = [&](llvm::Function* f) {
      const Rows x0 = x(0);
      b_.CreateCall(f, {x0.base, x0.stride, y.base, y.stride, n});
    };
    auto binary = [&](llvm::Function* f) {
      const Rows x0 = x(0), x1 = x(1);
      b_.CreateCall(f, {x0.base, x0.stride, x1.base, x1.stride, y.base, y.stride, n});
    };
    switch (op.kind) {
      case OpKind::embed: {
        const ir::WeightUse table = *op.one("table");
        const EmbedSpec spec{plan_.graph.weight(table.weight).format, cols,
                             static_cast<float>(op.f32_or(AttrName::scale, 1))};
        if (const plan::Packed& packed = plan_.packed_of(table); packed.two_streams) {
          b_.CreateCall(embed_two_streams(e_, cols, spec.scale),
                        {step_rows(lo), weight(table), lower_stream(weight(table), packed), y.base, y.stride,
                         n, frame_.ptr(Slot::scratch)});
          return;
        }
        b_.CreateCall(embed(e_, spec), {step_rows(lo), weight(table), y.base, y.stride, n});
        return;
      }
      case OpKind::embed_position: {
        const ir::WeightUse table = *op.one("table");
        const Format format = plan_.graph.weight(table.weight).format;
        b_.CreateCall(embed_position(e_, {format, cols}),
                      {step_rows(lo), weight(table), y.base, y.stride, n});
        return;
      }
      case OpKind::rms_norm: {
        const NormSpec spec{last(op), op.one("weight").has_value(), f(op, AttrName::eps), op.out()};
        return emit_last(op, lo, row_hi(step), rms_norm(e_, spec), {weight_or_null(op, "weight")});
      }
      case OpKind::layer_norm: {
        const LayerNormSpec spec{last(op), op.one("weight").has_value(), op.one("bias").has_value(),
                                 f(op, AttrName::eps), op.out()};
        return emit_last(op, lo, row_hi(step), layer_norm(e_, spec),
                         {weight_or_null(op, "weight"), weight_or_null(op, "bias")});
      }
      case OpKind::weigh: {
        const ir::WeightUse w = *op.one("weight");
        const WeighSpec spec{last(op), plan_.graph.weight(w.weight).shape[0],
                             op.i64_or(AttrName::inverse, 0) != 0};
        return emit_last(op, lo, row_hi(step), weigh(e_, spec), {weight(w)});
      }
      case OpKind::shift:
        return emit_last(op, lo, row_hi(step), bias(e_, last(op)), {weight(*op.one("weight"))});
      case OpKind::temper: {
        const TemperSpec spec{f(op, AttrName::by), op.i64(AttrName::period), op.i64_or(AttrName::offset, 0),
                              cols};
        const Rows x0 = x(0);
        b_.CreateCall(temper(e_, spec), {step_rows(lo), x0.base, x0.stride, y.base, y.stride, n});
        return;
      }
      case OpKind::residual_norm: {
        const ResidualNormSpec spec{cols, op.one("post").has_value(), op.one("pre").has_value(),
                                    f(op, AttrName::eps), op.out()};
        const Rows x0 = x(0), x1 = x(1), y1 = rows_from(op.results[1], lo);
        b_.CreateCall(residual_norm(e_, spec),
                      {x0.base, x0.stride, x1.base, x1.stride, weight_or_null(op, "post"),
                       weight_or_null(op, "pre"), y.base, y.stride, y1.base, y1.stride, n});
        return;
      }
      case OpKind::rope: {
        const Rows x0 = x(0);
        b_.CreateCall(rope(e_, rope_kernel_spec(plan_.graph, op)),
                      {step_rows(lo), x0.base, x0.stride, weight_or_null(op, "rope_fine"),
                       weight_or_null(op, "rope_coarse"), y.base, y.stride, n});
        return;
      }
      case OpKind::concat: {
        Value* to = y.base;
        for (int i = 0; i < 2; ++i) {
          const Rows from = x(i);
          const int64_t part = columns(op.inputs[i]);
          b_.CreateCall(scale(e_, 1, part), {from.base, from.stride, to, y.stride, n});
          to = e_.at(to, 4 * part);
        }
        return;
      }
      case OpKind::select: {
        // Any worker's output may come from any row.
        const Rows x0 = rows_of(op.inputs[0]);
        Value* outputs = e_.member_ptr(frame_.ptr(Slot::step), offsetof(gc_step, outputs));
        outputs = e_.at(outputs, b_.CreateShl(lo, 2));
        b_.CreateCall(select(e_, cols), {x0.base, x0.stride, outputs, y.base, y.stride, n});
        return;
      }
      case OpKind::route: {
        const Rows x0 = x(0);
        b_.CreateCall(route(e_, route_spec(plan_.graph, op)),
                      {x0.base, x0.stride, weight_or_null(op, "bias"), y.base, y.stride, n});
        return;
      }
      case OpKind::glu:
        return binary(glu(e_, {op.fn(), cols, op.out()}));
      case OpKind::add:
        return binary(add(e_, cols));
      case OpKind::mul:
        return binary(mul(e_, cols));
      case OpKind::mul_heads:
        return binary(mul_heads(e_, columns(op.inputs[1]), last(op)));
      case OpKind::clamp:
        return unary(clamp(e_, f(op, AttrName::limit), cols));
      case OpKind::act:
        return unary(act(e_, op.fn(), cols));
      case OpKind::scale:
        return unary(scale(e_, f(op, AttrName::by), cols));
      case OpKind::softcap:
        return unary(softcap(e_, f(op, AttrName::cap), cols));
      case OpKind::quantize:
        return unary(quantize(e_, cols));
      default:
        throw_internal("not a row-wise op: ", ir::info(op.kind).name);
    }
  }

  int64_t last(const Op& op) const { return type(op.inputs[0]).dims.back().size; }

  // Kernels over the last dimension, of a row or of each head in it: void(x, xs, weights..., y, ys, rows).
  void emit_last(const Op& op, Value* lo, Value* hi, llvm::Function* kernel,
                 const std::vector<Value*>& weights) {
    const int64_t n = last(op), parts = columns(op.inputs[0]) / n;
    const Rows x = rows_of(op.inputs[0]), y = rows_of(op.results[0]);
    auto call = [&](Value* row, Value* xs, Value* ys, Value* rows) {
      std::vector<Value*> args = {e_.at(x.base, b_.CreateMul(row, x.stride)), xs};
      args.insert(args.end(), weights.begin(), weights.end());
      for (Value* v : {e_.at(y.base, b_.CreateMul(row, y.stride)), ys, rows}) args.push_back(v);
      b_.CreateCall(kernel, args);
    };
    if (parts == 1) return call(lo, x.stride, y.stride, b_.CreateSub(hi, lo));
    e_.for_range(lo, hi, 1, [&](Value* row) { call(row, e_.i64(4 * n), e_.i64(4 * n), e_.i64(parts)); });
  }

  // ---- Matrix products ----

  struct Segment {
    ir::WeightUse use;
    int64_t rows, cols, panel, panels, start;  // start: bytes of the segments before
    Format format;
  };

  std::vector<Segment> segments_of(const std::vector<ir::WeightUse>& uses, int64_t* total) const {
    std::vector<Segment> all;
    *total = 0;
    for (const ir::WeightUse& use : uses) {
      const plan::Packed& p = plan_.packed_of(use);
      const Format format = plan_.graph.weight(use.weight).format;
      const Segment s{use,    p.rows, p.cols, gc::panel_bytes(format, p.cols), panels_of(p.rows),
                      *total, format};
      *total += s.panel * s.panels;
      all.push_back(s);
    }
    return all;
  }

  // This worker's panels of a segment, when workers share the bytes of all segments equally.
  std::pair<Value*, Value*> share(const Segment& s, int64_t total) {
    auto bound = [&](Value* j) {
      return b_.CreateCall(share_panels(e_), {e_.i64(total), e_.i64(s.start), e_.i64(s.panel),
                                              e_.i64(s.panels), j, frame_.i64(Slot::workers)});
    };
    Value* worker = frame_.i64(Slot::worker);
    return {bound(worker), bound(b_.CreateAdd(worker, e_.i64(1)))};
  }

  // Before a worker waits for others, the weights that it will multiply behind the meeting set out: memory works while
  // workers meet, and its latency has passed when they have met.
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
  void prefetch_weights(const Segment& s, Value* panel) {
    const bool streams = plan_.packed_of(s.use).two_streams;
    const int64_t bytes = streams ? upper_panel_bytes(s.cols) : s.panel;
    b_.CreateCall(prefetch_panels(e_),
                  {e_.at(weight(s.use), b_.CreateMul(panel, e_.i64(bytes))), e_.i64(bytes)});
  }

  void emit_matmul(const Step& step, const Op& op) {
    const auto first = plan_.packed_of(op.slot("rows")[0]);
    if (first.two_streams) return emit_split_head(op, first);
    if (plan_.buffers[op.results[0].index].place != Buffer::Place::Sink) return emit_stored_matmul(step, op);
    e_.if_else(
        stores_logits(),
        [&] {
          emit_stored_matmul(step, op);
          return Emitter::Values{};
        },
        [&] {
          emit_choosing_matmul(step, op);
          return Emitter::Values{};
        });
  }

  Value* sink() { return e_.member_ptr(frame_.ptr(Slot::step), offsetof(gc_step, sink)); }
  Value* stores_logits() {
    return b_.CreateICmpEQ(e_.member_i32(sink(), offsetof(gc_sink, kind)), e_.i32(GC_SINK_LOGITS));
  }

  // The head when its sink chooses: panels in chunks into scratch, as many as stay in the first-level cache, each chunk
  // handed over while it is there.
  void emit_choosing_matmul(const Step& step, const Op& op) {
    int64_t total = 0, column = 0;
    const auto biases = op.slot("bias");
    const auto segments = segments_of(op.slot("rows"), &total);
    const Rows x = rows_of(op.inputs[0]);
    Value* n = row_count(step);
    Value* few = b_.CreateICmpULE(n, e_.i64(GC_REDUNDANT_ROWS));
    Value* chunk = b_.CreateSelect(few, e_.i64(kHeadPanelsFewRows), e_.i64(kHeadPanelsManyRows));
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

  // The head in two streams: one row of which a token is chosen by the streams' own way; else panels are put together
  // and multiplied a few at a time.
  void emit_split_head(const Op& op, const plan::Packed& p) {
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
    auto store = [&] {
      const Rows y = rows_of(op.results[0]);
      joined_chunks([&](Value* first, Value* count) {
        multiply(e_.at(y.base, b_.CreateShl(first, 6)), y.stride, count);
      });
      return Emitter::Values{};
    };
    auto choose = [&] {
      Value* choice = e_.member_ptr(sink(), offsetof(gc_sink, choice));
      Value* step = frame_.ptr(Slot::step);
      Value* bound = e_.member_ptr(choice, offsetof(gc_choice, bound));
      Value* no_prompt = b_.CreateICmpEQ(e_.member_i32(step, offsetof(gc_step, n_prompt)), e_.i32(0));
      Value* may_bound = b_.CreateICmpNE(bound, llvm::ConstantPointerNull::get(b_.getPtrTy()));
      Value* one = b_.CreateICmpEQ(n, e_.i64(1));
      e_.if_else(
          b_.CreateAnd(b_.CreateAnd(one, may_bound), no_prompt),
          [&] {
            b_.CreateCall(bound_logits(e_, p.cols, s.panels),
                          {choice, worker, upper, x.base, lo, hi, scratch});
            frame_.meet();
            b_.CreateCall(take_logits(e_, p.cols, s.panels),
                          {choice, worker, upper, lower, x.base, lo, hi, scratch});
            return Emitter::Values{};
          },
          [&] {
            Value* logits = e_.at(scratch, at.bytes);
            Value* stride = e_.i64(64 * kJoinedPanels);
            joined_chunks([&](Value* first, Value* count) {
              multiply(logits, stride, count);
              b_.CreateCall(give_logits(e_),
                            {choice, worker, b_.CreateShl(first, 4), count, logits, stride, n});
            });
            return Emitter::Values{};
          });
      return Emitter::Values{};
    };
    e_.if_else(stores_logits(), store, choose);
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

  void emit_stored_matmul(const Step& step, const Op& op) {
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

  // y[t][0 .. 16 panels) += w, on what this worker has just written.
  void add_bias_panels(Value* y, Value* stride, Value* w, Value* panels, Value* rows) {
    llvm::Function* one = bias(e_, 16);
    e_.for_range(e_.i64(0), panels, 1, [&](Value* p) {
      Value* at = e_.at(y, b_.CreateShl(p, 6));
      b_.CreateCall(one, {at, stride, e_.at(w, b_.CreateShl(p, 6)), at, stride, rows});
    });
  }

  void emit_softcap_columns(const Step& step, const Op& op) {
    if (plan_.buffers[op.results[0].index].place != Buffer::Place::Sink) return emit_stored_softcap(step, op);
    e_.if_then(stores_logits(), [&] { emit_stored_softcap(step, op); });  // else the product has done it
  }
  void emit_stored_softcap(const Step& step, const Op& op) {
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

  // Gate and up of a chunk of columns into scratch, then their joint into the row. The chunk is long for few rows, so
  // that weights stream, and short for many, so that the scratch stays in cache.
  void emit_matmul_glu(const Step& step, const Op& op) {
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

  // body(at, count) over [lo, hi) in chunks of `chunk`, the last shorter.
  void loop_chunks(Value* lo, Value* hi, Value* chunk, const std::function<void(Value*, Value*)>& body) {
    Value* n = b_.CreateUDiv(b_.CreateAdd(b_.CreateSub(hi, lo), b_.CreateSub(chunk, e_.i64(1))), chunk);
    e_.for_range(e_.i64(0), n, 1, [&](Value* i) {
      Value* at = b_.CreateAdd(lo, b_.CreateMul(i, chunk));
      Value* left = b_.CreateSub(hi, at);
      body(at, b_.CreateSelect(b_.CreateICmpULT(left, chunk), left, chunk));
    });
  }

  // ---- Mixtures of experts ----

  void emit_experts_in(const Step& step, const Op& op) {
    const Rows x = rows_of(op.inputs[0]), routing = rows_of(op.inputs[1]), y = rows_of(op.results[0]);
    b_.CreateCall(
        experts_in(e_, experts_in_spec(plan_.graph, op)),
        {x.base, x.stride, routing.base, routing.stride, row_count(step), weight_or_null(op, "gate"),
         weight_or_null(op, "up"), weight_or_null(op, "gate_bias"), weight_or_null(op, "up_bias"), y.base,
         frame_.ptr(Slot::scratch), frame_.i64(Slot::worker), frame_.i64(Slot::workers)});
  }

  void emit_experts_out(const Step& step, const Op& op) {
    const Rows x = rows_of(op.inputs[0]), routing = rows_of(op.inputs[1]), y = rows_of(op.results[0]);
    b_.CreateCall(experts_out(e_, experts_out_spec(plan_.graph, op)),
                  {x.base, routing.base, routing.stride, row_count(step), weight_or_null(op, "down"),
                   weight_or_null(op, "bias"), y.base, y.stride, frame_.ptr(Slot::scratch),
                   frame_.i64(Slot::worker), frame_.i64(Slot::workers)});
  }

  // ---- Attention ----

  // What all attention kernels are given first, and this worker's units of rows x kv heads.
  struct AttnCall {
    AttnSpec spec;
    llvm::SmallVector<Value*, 4> head;  // step, group, block_bytes, state_offset
    Value *lo, *hi;
  };
  AttnCall attn_call(const Op& op) {
    const plan::StatePlan& at = plan_.states[op.state.index];
    AttnCall c;
    c.spec = attn_spec(plan_.graph, op, kv_type_);
    c.head = {frame_.ptr(Slot::step), e_.i64(at.group), e_.i64(plan_.groups[at.group].block_bytes[kv_type_]),
              constant(at.offset[kv_type_])};
    Value* units = b_.CreateMul(frame_.i64(Slot::n_rows), e_.i64(c.spec.kv_heads));
    auto bound = [&](Value* j) {
      return b_.CreateCall(share_units(e_), {units, j, frame_.i64(Slot::workers)});
    };
    c.lo = bound(frame_.i64(Slot::worker));
    c.hi = bound(b_.CreateAdd(frame_.i64(Slot::worker), e_.i64(1)));
    return c;
  }
  void call(llvm::Function* f, llvm::SmallVector<Value*, 4> head, std::initializer_list<Value*> rest) {
    head.append(rest);
    b_.CreateCall(f, head);
  }

  // A row's keys are needed by rows of its own sequence: when each has one row, by the worker that appended them.
  // Else workers meet; and as a later row of a prompt sees more, each takes one share from either end.
  void attend_whole_rows(const AttnCall& c, const std::function<void(Value* lo, Value* hi)>& attend) {
    Value* flags = e_.member_i32(frame_.ptr(Slot::step), offsetof(gc_step, flags));
    Value* alone = b_.CreateICmpNE(b_.CreateAnd(flags, e_.i32(GC_STEP_ONE_ROW_EACH)), e_.i32(0));
    e_.if_then(b_.CreateNot(alone), [&] { frame_.meet(); });
    Value* worker = frame_.i64(Slot::worker);
    Value* shares = b_.CreateShl(frame_.i64(Slot::workers), 1);
    Value* units = b_.CreateMul(frame_.i64(Slot::n_rows), e_.i64(c.spec.kv_heads));
    auto bound = [&](Value* j) { return b_.CreateCall(share_units(e_), {units, j, shares}); };
    Value* one = e_.i64(1);
    Value* other = b_.CreateSub(b_.CreateSub(shares, one), worker);
    e_.for_range(e_.i64(0), b_.CreateSelect(alone, one, e_.i64(2)), 1, [&](Value* i) {
      Value* j = b_.CreateSelect(b_.CreateICmpEQ(i, e_.i64(0)), worker, other);
      attend(b_.CreateSelect(alone, c.lo, bound(j)),
             b_.CreateSelect(alone, c.hi, bound(b_.CreateAdd(j, one))));
    });
  }

  // Attention of the rows, whose keys and values are appended: q at the beginning of q's rows.
  void emit_attention_over(const Op& op, const AttnCall& c, const Rows& q, Value* q_norm, Value* fine,
                           Value* coarse) {
    const Rows y = rows_of(op.results[0]);
    Value* sinks = weight_or_null(op, "sinks");
    auto whole_rows = [&] {
      attend_whole_rows(c, [&](Value* lo, Value* hi) {
        call(attn(e_, c.spec), c.head,
             {q.base, q.stride, q_norm, fine, coarse, sinks, y.base, y.stride, lo, hi,
              frame_.ptr(Slot::scratch)});
      });
    };
    if (c.spec.window > 0 && attn_ranges(c.spec.window - 1, 0) < kSplitRanges) return whole_rows();
    // Fewer units than workers over a long context: workers share the ranges of positions.
    Value* step = frame_.ptr(Slot::step);
    Value* n = frame_.i64(Slot::n_rows);
    Value* units = b_.CreateMul(n, e_.i64(c.spec.kv_heads));
    Value* few = b_.CreateAnd(b_.CreateICmpULE(n, e_.i64(GC_REDUNDANT_ROWS)),
                              b_.CreateICmpULT(units, frame_.i64(Slot::workers)));
    const auto counted = e_.if_else(
        few, [&] { return Emitter::Values{b_.CreateCall(attn_most_ranges(e_, c.spec), {step, n})}; },
        [&] { return Emitter::Values{e_.i64(0)}; });
    Value* ranges = counted[0];
    Value* cap = b_.CreateZExt(e_.member_i32(step, offsetof(gc_step, splits_cap)), b_.getInt64Ty());
    Value* split = b_.CreateAnd(b_.CreateICmpUGE(ranges, e_.i64(kSplitRanges)),
                                b_.CreateICmpULE(b_.CreateMul(ranges, n), cap));
    auto by_ranges = [&] {
      frame_.meet();  // a range's keys may come from any worker
      Value* items = b_.CreateMul(units, ranges);
      auto bound = [&](Value* j) {
        return b_.CreateCall(share_units(e_), {items, j, frame_.i64(Slot::workers)});
      };
      Value* worker = frame_.i64(Slot::worker);
      Value* lo = bound(worker);
      Value* hi = bound(b_.CreateAdd(worker, e_.i64(1)));
      Value* partials = frame_.ptr(Slot::splits);
      call(attn_split(e_, c.spec), c.head,
           {q.base, q.stride, q_norm, fine, coarse, partials, ranges, lo, hi, frame_.ptr(Slot::scratch)});
      frame_.meet();
      b_.CreateCall(attn_merge(e_, c.spec), {step, partials, ranges, sinks, y.base, y.stride, c.lo, c.hi});
    };
    e_.if_else(
        split,
        [&] {
          by_ranges();
          return Emitter::Values{};
        },
        [&] {
          whole_rows();
          return Emitter::Values{};
        });
  }

  void emit_attn_block(const Op& op) {
    const AttnCall c = attn_call(op);
    const Rows qkv = rows_of(op.inputs[0]);
    Value* fine = weight_or_null(op, "rope_fine");
    Value* coarse = weight_or_null(op, "rope_coarse");
    call(attn_append(e_, c.spec), c.head,
         {qkv.base, qkv.stride, weight_or_null(op, "k_norm"), fine, coarse, c.lo, c.hi});
    emit_attention_over(op, c, qkv, weight_or_null(op, "q_norm"), fine, coarse);
  }

  // q, k and v apart, already normed and turned.
  void emit_attention(const Op& op) {
    const AttnCall c = attn_call(op);
    const Rows q = rows_of(op.inputs[0]), k = rows_of(op.inputs[1]), v = rows_of(op.inputs[2]);
    Value* none = llvm::ConstantPointerNull::get(b_.getPtrTy());
    call(kv_append(e_, c.spec), c.head, {k.base, k.stride, v.base, v.stride, none, none, none, c.lo, c.hi});
    emit_attention_over(op, c, q, none, none, none);
  }

  Emitter& e_;
  llvm::IRBuilder<>& b_;
  const plan::Plan& plan_;
  const int kv_type_;
  const Frame frame_;
  Value* const table_;
  std::vector<int64_t>& constants_;
};

}  // namespace

const Op* choosing_head(const plan::Plan& plan) {
  ValueId value = plan.graph.outputs[0];
  for (const Step& step : plan.steps)
    if (step.split == Split::Columns && plan.graph.ops[step.op].results[0] == value)
      value = plan.graph.ops[step.op].inputs[0];
  const Op& op = plan.graph.ops[plan.graph.value(value).def];
  return op.kind == OpKind::matmul && plan.buffers[value.index].place == Buffer::Place::Sink ? &op : nullptr;
}

void emit_section(Emitter& e, const plan::Plan& plan, int index, int kv_type, Value* frame, Value* table,
                  std::vector<int64_t>& constants) {
  SectionEmitter(e, plan, kv_type, frame, table, constants).run(index);
}

}  // namespace gc::cpu
