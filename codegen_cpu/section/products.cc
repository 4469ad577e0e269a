#include "codegen_cpu/backend.h"
#include "codegen_cpu/glu_panels.h"
#include "codegen_cpu/heads.h"
#include "codegen_cpu/kernels/matmul/dot_matmul.h"
#include "codegen_cpu/kernels/matmul/matmul.h"
#include "codegen_cpu/kernels/matmul/tile_matmul.h"
#include "codegen_cpu/kernels/row_out/row_out.h"
#include "codegen_cpu/prompt_rows.h"
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
    const Rows y = rows_of(op.results[0]);
    if (rounds(op)) by_way(op, {}, row_count(step), [&](const Span& rows) { round(op, rows); });
    for (size_t i = 0; i < segments.size(); ++i) {
      const Segment& s = segments[i];
      auto [lo, hi] = share(s, total);
      Value* panels = e_.at(weight(s.use), b_.CreateMul(lo, e_.i64(s.panel)));
      Value* part = e_.at(y.base, b_.CreateAdd(b_.CreateShl(lo, 6), e_.i64(4 * column)));
      Value* n = b_.CreateSub(hi, lo);
      // Prompt rows first: what they write past their end is overwritten by the generated rows of the same panels.
      by_way(op, {op.inputs[0]}, row_count(step), [&](const Span& rows) {
        product(s, op, rows, panels, e_.at(part, rows.lo, y.stride), y.stride, n);
      });
      if (i < biases.size() && biases[i].weight.valid()) {
        Value* w = e_.at(weight(biases[i]), b_.CreateShl(lo, 6));
        add_bias_panels(part, y.stride, w, n, row_count(step));
      }
      column += s.rows;
    }
  }

  // Gate and up of a chunk of columns into scratch, then their joint into the row. The chunk is long for few rows, so
  // that weights stream, and short for many, so that the scratch stays in cache.
  void glu(const Step& step, const Op& op) {
    by_way(op, {op.inputs[0], op.results[0]}, row_count(step), [&](const Span& rows) {
      if (rounds(op)) round(op, rows);
      glu_rows(rows, op);
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
  // over_roles(), apart where the op has a way for prompt rows.
  void by_way(const Op& op, std::initializer_list<ir::ValueId> parted, Value* rows,
              const std::function<void(const Span&)>& body) {
    if (prompt_way_of(e_.isa(), plan_.graph, op)) return over_roles_apart(e_.i64(0), rows, body);
    over_roles(parted, e_.i64(0), rows, body);
  }
  // How these rows are multiplied: in any way all prompt rows, from row 0 on.
  std::optional<PromptWay> way(const Op& op, const Span& rows) const {
    return rows.prompt ? prompt_way_of(e_.isa(), plan_.graph, op) : std::nullopt;
  }
  bool rounds(const Op& op) const { return rounds_for_tiles(e_.isa(), plan_.graph, op); }
  // Behind what the tiles use of the scratch: prompt rows rounded, each worker for itself, which costs less than a meet.
  Value* rounded(const Op& op) {
    return e_.at(frame_.ptr(Slot::scratch), prompt_scratch_bytes(e_.isa(), columns(op.inputs[0])));
  }
  void round(const Op& op, const Span& rows) {
    if (!rows.prompt) return;
    const int64_t k = columns(op.inputs[0]);
    const Rows x = rows_of(op.inputs[0]);
    llvm::Function* f = round_rows(e_, ir::Elem::BF16, k);
    Value* to = rounded(op);
    e_.for_range(e_.i64(0), rows.hi, kBlockRows, [&](Value* t) {
      Value* n = between(b_.CreateSub(rows.hi, t), e_.i64(0), e_.i64(kBlockRows));
      b_.CreateCall(f, {e_.at(x.base, t, x.stride), x.stride, e_.at(to, b_.CreateLShr(t, 4), block_bytes(k)),
                        e_.i64(kPieceRow), n});
    });
  }
  // Bytes of a row of it.
  int64_t rounded_row(const Op& op) const {
    return rounds(op) ? block_bytes(columns(op.inputs[0])) / kBlockRows : 0;
  }

  // Panels of a segment times the rows of x: into y, of which prompt rows on tiles write whole blocks.
  void product(const Segment& s, const Op& op, const Span& rows, Value* panels, Value* y, Value* y_stride,
               Value* n_panels) {
    const ir::ValueId x_id = op.inputs[0];
    const ir::Elem in = form(x_id, rows);
    const Rows x = rows_of(x_id, rows);
    Value* n = b_.CreateSub(rows.hi, rows.lo);
    const auto way = this->way(op, rows);
    if (way == PromptWay::Tiles) {
      Value* from = rounds(op) ? rounded(op) : x.base;
      b_.CreateCall(tile_matmul(e_, s.format, s.cols),
                    {panels, from, y, y_stride, n_panels, n, frame_.ptr(Slot::scratch)});
    } else if (way) {
      b_.CreateCall(dot_matmul(e_, s.format, s.cols),
                    {panels, x.base, x.stride, y, y_stride, n_panels, n, frame_.ptr(Slot::scratch)});
    } else {
      b_.CreateCall(matmul(e_, {s.format, s.cols, in}),
                    {panels, row_at(e_, in, x.base, rows.lo, x.stride), x.stride, y, y_stride, n_panels, n});
    }
  }

  void glu_rows(const Span& rows, const Op& op) {
    int64_t gate_total = 0, up_total = 0;
    const auto gates = segments_of(op.slot("gate"), &gate_total), ups = segments_of(op.slot("up"), &up_total);
    GC_CHECK(gates.size() == 1 && ups.size() == 1);
    const Segment &gate = gates[0], &up = ups[0];
    const ir::ValueId x = op.inputs[0], y = op.results[0];
    const std::optional<PromptWay> way = this->way(op, rows);
    const int64_t unit = glu_unit(op.out()), unit_panels = unit / kPanelRows;
    const int64_t units = (gate.rows + unit - 1) / unit;
    auto bound = [&](Value* j) {
      return b_.CreateCall(share_units(e_), {e_.i64(units), j, frame_.i64(Slot::workers)});
    };
    Value* lo = bound(frame_.i64(Slot::worker));
    Value* hi = bound(b_.CreateAdd(frame_.i64(Slot::worker), e_.i64(1)));
    Value* gate_w = weight(gate.use);
    Value* up_w = weight(up.use);
    if (rows.prompt && glu_joins_on_tiles(e_.isa(), plan_.graph, op)) {  // all prompt rows, from row 0 on
      Value* first = b_.CreateMul(lo, e_.i64(unit_panels));
      Value* to = e_.at(rows_of(y, rows).base, lo, kPieceBytes * unit / 32);
      b_.CreateCall(tile_glu(e_, gate.format, gate.cols, {op.fn(), gate.rows}),
                    {e_.at(gate_w, first, gate.panel), e_.at(up_w, first, up.panel),
                     rounds(op) ? rounded(op) : rows_of(x, rows).base, to,
                     b_.CreateMul(b_.CreateSub(hi, lo), e_.i64(unit_panels)), b_.CreateSub(rows.hi, rows.lo),
                     frame_.ptr(Slot::scratch)});
      return;
    }
    Value* n = b_.CreateSub(rows.hi, rows.lo);
    Value* few = b_.CreateICmpULE(n, e_.i64(GC_REDUNDANT_ROWS));
    Value* chunk =
        way ? e_.i64(glu_columns(*way) / unit)
            : b_.CreateSelect(few, e_.i64(kGluColumnsFewRows / unit), e_.i64(kGluColumnsManyRows / unit));
    Value* stride = way ? e_.i64(glu_stride(*way)) : b_.CreateMul(chunk, e_.i64(4 * unit));
    Value* gate_y = e_.at(frame_.ptr(Slot::scratch), way ? prompt_scratch_bytes(e_.isa(), gate.cols) : 0);
    if (way && rounds(op)) gate_y = e_.at(gate_y, b_.CreateAdd(n, e_.i64(kRowsAtOnce)), rounded_row(op));
    Value* room = way == PromptWay::Tiles ? b_.CreateAdd(n, e_.i64(kRowsAtOnce)) : n;
    Value* up_y = e_.at(gate_y, b_.CreateMul(stride, room));
    llvm::Function* join = glu_panels(e_, {op.fn(), gate.rows, form(y, rows)});
    loop_chunks(lo, hi, chunk, [&](Value* at, Value* count) {
      Value* panels = b_.CreateMul(count, e_.i64(unit_panels));
      Value* first = b_.CreateMul(at, e_.i64(unit_panels));
      product(gate, op, rows, e_.at(gate_w, first, gate.panel), gate_y, stride, panels);
      product(up, op, rows, e_.at(up_w, first, up.panel), up_y, stride, panels);
      over_blocks(y, rows, [&](const Span& part) {
        Value* from = b_.CreateSub(part.lo, rows.lo);
        const Rows to = rows_from(y, part);
        b_.CreateCall(join, {e_.at(gate_y, from, stride), stride, e_.at(up_y, from, stride), stride, to.base,
                             to.stride, b_.CreateMul(at, e_.i64(unit)), b_.CreateMul(count, e_.i64(unit)),
                             b_.CreateSub(part.hi, part.lo)});
      });
    });
  }

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
