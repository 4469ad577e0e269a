// What the parts of a section have in common: where values and weights lie, this worker's shares, constants that differ
// between layers. A part (parts.h) is a class over it in a file of its own.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "codegen_cpu/emitter.h"
#include "codegen_cpu/frame.h"
#include "codegen_cpu/roles.h"
#include "compiler/plan/plan.h"

namespace gc::cpu {

std::int64_t columns_of(const ir::Type& type);

// Rows of a value: where row 0 begins, and bytes from row to row.
struct Rows {
  llvm::Value* base;
  llvm::Value* stride;
};

class Scope {
 public:
  using Value = llvm::Value;
  using Op = ir::Op;
  using Step = plan::Step;

  Scope(Emitter& e, const plan::Plan& plan, int kv_type, Value* frame, Value* table,
        std::vector<std::int64_t>& constants)
      : e_(e),
        b_(e.b()),
        plan_(plan),
        kv_type_(kv_type),
        frame_(e, frame),
        table_(table),
        constants_(constants) {}

 protected:
  // A constant that may differ between layers of one shape.
  Value* constant(std::int64_t v);

  // ---- Operands ----

  Rows rows_of(ir::ValueId id);
  Rows rows_from(ir::ValueId id, Value* lo);
  Value* weight(const ir::WeightUse& use);
  // Of a matrix in two streams, whose upper one begins at `upper`.
  Value* lower_stream(Value* upper, const plan::Packed& p);
  // A pointer that the kernel doesn't read when the weight is absent.
  Value* weight_or_null(const Op& op, std::string_view slot);
  // A table of RoPE; of two the one for the session's context.
  Value* rope_table(const Op& op, std::string_view slot);

  const ir::Type& type(ir::ValueId id) const { return plan_.graph.value(id).type; }
  std::int64_t columns(ir::ValueId id) const { return columns_of(type(id)); }
  std::int64_t last(const Op& op) const { return type(op.inputs[0]).dims.back().size; }
  static float f(const Op& op, ir::AttrName name) { return static_cast<float>(op.f32(name)); }

  // ---- Roles ----

  // Rows [lo, hi) of one role, or of both where nothing parts them.
  struct Span {
    Value *lo, *hi;
    bool prompt;
  };
  // The form of a value for these rows.
  ir::Elem form(ir::ValueId id, const Span& rows) const;
  // Row t of the value is row_at(form, base, t, stride) of prompt_rows.h.
  Rows rows_of(ir::ValueId id, const Span& rows);
  // From row lo on, for kernels that go from row to row: prompt rows must lie in one block (over_blocks).
  Rows rows_from(ir::ValueId id, const Span& rows);
  // body(span) for rows [lo, hi) of the step's T rows: once when no value of `parted` has a form for prompt rows of its
  // own, else for the prompt rows and for the generated ones, where there are any.
  void over_roles(std::initializer_list<ir::ValueId> parted, Value* lo, Value* hi,
                  const std::function<void(const Span&)>& body);
  // The same for what is always another thing for prompt rows.
  void over_roles_apart(Value* lo, Value* hi, const std::function<void(const Span&)>& body);
  // body(span) for the parts of the span within a block of `id`, or the span itself.
  void over_blocks(ir::ValueId id, const Span& rows, const std::function<void(const Span&)>& body);
  ir::Elem prompt_form(ir::ValueId id) const { return cpu::prompt_form(e_.isa(), plan_.graph, id); }
  Value* between(Value* v, Value* lo, Value* hi);

  Value* row_lo(const Step& s) { return frame_.i64(s.outputs ? Slot::output_lo : Slot::row_lo); }
  Value* row_hi(const Step& s) { return frame_.i64(s.outputs ? Slot::output_hi : Slot::row_hi); }
  Value* row_count(const Step& s) { return frame_.i64(s.outputs ? Slot::n_outputs : Slot::n_rows); }
  // The row table from row lo on.
  Value* step_rows(Value* lo);

  Value* sink();
  // Whether the sink wants the logits themselves, or the embeddings.
  Value* stores_logits();

  // ---- Panels of matrices ----

  struct Segment {
    ir::WeightUse use;
    std::int64_t rows, cols, panel, panels, start;  // start: bytes of the segments before
    Format format;
  };
  std::vector<Segment> segments_of(const std::vector<ir::WeightUse>& uses, std::int64_t* total) const;
  // This worker's panels of a segment, when workers share the bytes of all segments equally.
  std::pair<Value*, Value*> share(const Segment& s, std::int64_t total);
  // y[t][0 .. 16 panels) += w, on what this worker has just written.
  void add_bias_panels(Value* y, Value* stride, Value* w, Value* panels, Value* rows);

  // body(at, count) over [lo, hi) in chunks of `chunk`, the last shorter.
  void loop_chunks(Value* lo, Value* hi, Value* chunk, const std::function<void(Value*, Value*)>& body);

  Emitter& e_;
  llvm::IRBuilder<>& b_;
  const plan::Plan& plan_;
  const int kv_type_;
  const Frame frame_;
  Value* const table_;
  std::vector<std::int64_t>& constants_;
};

}  // namespace gc::cpu
