#include <cstddef>

#include "codegen_cpu/act_layout.h"
#include "codegen_cpu/backend.h"
#include "codegen_cpu/kernels/elementwise/elementwise.h"
#include "codegen_cpu/kernels/embed/embed.h"
#include "codegen_cpu/kernels/glu/glu.h"
#include "codegen_cpu/kernels/head/two_streams.h"
#include "codegen_cpu/kernels/norm/norm.h"
#include "codegen_cpu/kernels/rope/rope.h"
#include "codegen_cpu/kernels/row_out/row_out.h"
#include "codegen_cpu/kernels/streams/streams.h"
#include "codegen_cpu/section/parts.h"
#include "compiler/base/error.h"
#include "compiler/quant/two_streams.h"

namespace gc::cpu {
namespace {

using ir::AttrName;
using ir::OpKind;

class RowWise : Scope {
 public:
  explicit RowWise(const Scope& scope) : Scope(scope) {}

  // Ops over this worker's rows. What a product reads is an op's last result, or none.
  void emit(const Step& step, const Op& op) {
    const ir::ValueId made = op.results.back();
    over_roles({made}, row_lo(step), row_hi(step), [&](const Span& rows) {
      over_blocks(made, rows, [&](const Span& part) { emit_rows(part, op); });
    });
  }

 private:
  void emit_rows(const Span& rows, const Op& op) {
    Value* lo = rows.lo;
    Value* n = b_.CreateSub(rows.hi, lo);
    const ir::Elem out = form(op.results.back(), rows);
    const Rows y = rows_from(op.results[0], rows);
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
        const NormSpec spec{last(op), op.one("weight").has_value(), f(op, AttrName::eps), out};
        return emit_last(op, rows, rms_norm(e_, spec), {weight_or_null(op, "weight")});
      }
      case OpKind::layer_norm: {
        const LayerNormSpec spec{last(op), op.one("weight").has_value(), op.one("bias").has_value(),
                                 f(op, AttrName::eps), out};
        return emit_last(op, rows, layer_norm(e_, spec),
                         {weight_or_null(op, "weight"), weight_or_null(op, "bias")});
      }
      case OpKind::weigh: {
        const ir::WeightUse w = *op.one("weight");
        const WeighSpec spec{last(op), plan_.graph.weight(w.weight).shape[0],
                             op.i64_or(AttrName::inverse, 0) != 0};
        return emit_last(op, rows, weigh(e_, spec), {weight(w)});
      }
      case OpKind::shift:
        return emit_last(op, rows, bias(e_, last(op)), {weight(*op.one("weight"))});
      case OpKind::temper: {
        const TemperSpec spec{f(op, AttrName::by), op.i64(AttrName::period), op.i64_or(AttrName::offset, 0),
                              cols};
        const Rows x0 = x(0);
        b_.CreateCall(temper(e_, spec), {step_rows(lo), x0.base, x0.stride, y.base, y.stride, n});
        return;
      }
      case OpKind::residual_norm: {
        const ResidualNormSpec spec{cols, op.one("post").has_value(), op.one("pre").has_value(),
                                    f(op, AttrName::eps), out};
        const Rows x0 = x(0), x1 = x(1), y1 = rows_from(op.results[1], rows);
        b_.CreateCall(residual_norm(e_, spec),
                      {x0.base, x0.stride, x1.base, x1.stride, weight_or_null(op, "post"),
                       weight_or_null(op, "pre"), y.base, y.stride, y1.base, y1.stride, n});
        return;
      }
      case OpKind::rope: {
        const Rows x0 = x(0);
        b_.CreateCall(rope(e_, rope_kernel_spec(plan_.graph, op)),
                      {step_rows(lo), x0.base, x0.stride, rope_table(op, "rope_fine"),
                       rope_table(op, "rope_coarse"), y.base, y.stride, n});
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
      case OpKind::slice_heads: {
        // A slice of one head is rows of a longer stride.
        const int64_t d = last(op), part = type(op.results[0]).dims[2].size;
        const Rows from = rows_of(op.inputs[0]), to = rows_of(op.results[0]);
        e_.for_range(lo, rows.hi, 1, [&](Value* row) {
          Value* x0 = e_.at(from.base, b_.CreateMul(row, from.stride));
          b_.CreateCall(scale(e_, 1, part), {e_.at(x0, 4 * op.i64(AttrName::begin)), e_.i64(4 * d),
                                             e_.at(to.base, b_.CreateMul(row, to.stride)), e_.i64(4 * part),
                                             e_.i64(type(op.results[0]).dims[1].size)});
        });
        return;
      }
      case OpKind::concat_heads: {
        const auto &a = type(op.inputs[0]).dims, &b = type(op.inputs[1]).dims;
        return binary(
            concat_heads(e_, {op.i64(AttrName::heads), a[1].size, a[2].size, b[1].size, b[2].size}));
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
      case OpKind::route_by_token: {
        const Rows x0 = x(0);
        b_.CreateCall(route_by_token(e_, route_spec(plan_.graph, op)),
                      {step_rows(lo), x0.base, x0.stride, weight(*op.one("table")), y.base, y.stride, n});
        return;
      }
      case OpKind::glu:
        return binary(glu(e_, {op.fn(), cols, out}));
      case OpKind::add:
        return binary(add(e_, cols));
      case OpKind::mul:
        return binary(mul(e_, cols));
      case OpKind::mul_heads:
        return binary(mul_heads(e_, columns(op.inputs[1]), last(op)));
      case OpKind::dot_heads:
        return binary(dot_heads(e_, type(op.inputs[0]).dims[1].size, last(op)));
      case OpKind::mix: {
        const auto& d = type(op.inputs[0]).dims;
        return binary(mix(e_, {d[1].size, type(op.results[0]).dims[1].size, d[2].size,
                               static_cast<float>(op.f32_or(AttrName::plus, 0))}));
      }
      case OpKind::rescale:
        return binary(rescale(e_, type(op.inputs[1]).dims[1].size, type(op.inputs[1]).dims[2].size));
      case OpKind::add_heads: {
        const auto& d = type(op.inputs[0]).dims;
        return binary(add_heads(e_, d[1].size, d[2].size, op.i64(AttrName::begin)));
      }
      case OpKind::sinkhorn:
        return emit_last(
            op, rows, sinkhorn(e_, op.i64(AttrName::heads), f(op, AttrName::eps), op.i64(AttrName::rounds)),
            {});
      case OpKind::sparsify:
        return emit_last(op, rows, sparsify(e_, last(op), f(op, AttrName::by)), {});
      case OpKind::clamp:
        return unary(op.i64_or(AttrName::upper, 0) != 0 ? clamp_above(e_, f(op, AttrName::limit), cols)
                                                        : clamp(e_, f(op, AttrName::limit), cols));
      case OpKind::act:
        return unary(act(e_, op.fn(), cols));
      case OpKind::scale:
        return unary(scale(e_, f(op, AttrName::by), cols));
      case OpKind::softcap:
        return unary(softcap(e_, f(op, AttrName::cap), cols));
      case OpKind::quantize:
        return emit_last(op, rows,
                         out == ir::Elem::BF16 ? round_rows(e_, out, last(op)) : quantize(e_, last(op)), {});
      default:
        throw_internal("not a row-wise op: ", ir::info(op.kind).name);
    }
  }

  // Kernels over the last dimension, of a row or of each head in it: void(x, xs, weights..., y, ys, rows).
  void emit_last(const Op& op, const Span& span, llvm::Function* kernel, const std::vector<Value*>& weights) {
    const int64_t n = last(op), parts = columns(op.inputs[0]) / n;
    const Rows x = rows_from(op.inputs[0], span.lo), y = rows_from(op.results[0], span);
    auto call = [&](Value* from, Value* xs, Value* to, Value* ys, Value* rows) {
      std::vector<Value*> args = {from, xs};
      args.insert(args.end(), weights.begin(), weights.end());
      for (Value* v : {to, ys, rows}) args.push_back(v);
      b_.CreateCall(kernel, args);
    };
    Value* count = b_.CreateSub(span.hi, span.lo);
    if (parts == 1) return call(x.base, x.stride, y.base, y.stride, count);
    const ir::Elem made = form(op.results[0], span);
    GC_CHECK(made != ir::Elem::BF16, "heads of prompt rows aren't made for tiles");
    const int64_t bytes = made == ir::Elem::Q16 ? act_row_bytes(n) : 4 * n;
    e_.for_range(e_.i64(0), count, 1, [&](Value* row) {
      call(e_.at(x.base, row, x.stride), e_.i64(4 * n), e_.at(y.base, row, y.stride), e_.i64(bytes),
           e_.i64(parts));
    });
  }
};

}  // namespace

void emit_row_wise(const Scope& scope, const plan::Step& step, const ir::Op& op) {
  RowWise(scope).emit(step, op);
}

}  // namespace gc::cpu
