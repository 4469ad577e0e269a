#include "codegen_cpu/section/scope.h"

#include "codegen_cpu/kernels/elementwise/elementwise.h"
#include "codegen_cpu/prompt_rows.h"
#include "compiler/base/error.h"
#include "compiler/quant/layouts.h"
#include "compiler/quant/two_streams.h"

namespace gc::cpu {

using ir::ValueId;
using llvm::Value;
using plan::Buffer;

int64_t columns_of(const ir::Type& type) {
  int64_t n = 1;
  for (size_t i = 1; i < type.dims.size(); ++i) n *= type.dims[i].size;
  return n;
}

Value* Scope::constant(int64_t v) {
  constants_.push_back(v);
  return e_.member_i64(table_, 8 * static_cast<int64_t>(constants_.size() - 1));
}

Rows Scope::rows_of(ValueId id) {
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

Rows Scope::rows_from(ValueId id, Value* lo) {
  Rows r = rows_of(id);
  r.base = e_.at(r.base, b_.CreateMul(lo, r.stride));
  return r;
}

ir::Elem Scope::form(ValueId id, const Span& rows) const {
  return rows.prompt ? prompt_form(id) : type(id).elem;
}

Rows Scope::rows_of(ValueId id, const Span& rows) {
  Rows r = rows_of(id);
  if (prompt_form(id) != ir::Elem::BF16) return r;
  if (rows.prompt) return {r.base, e_.i64(block_bytes(columns(id)))};
  return {e_.at(r.base, frame_.i64(Slot::gap), r.stride), r.stride};
}

Rows Scope::rows_from(ValueId id, const Span& rows) {
  const ir::Elem elem = form(id, rows);
  Rows r = rows_of(id, rows);
  r.base = row_at(e_, elem, r.base, rows.lo, r.stride);
  if (elem == ir::Elem::BF16) r.stride = e_.i64(kPieceRow);
  return r;
}

void Scope::over_roles(std::initializer_list<ValueId> parted, Value* lo, Value* hi,
                       const std::function<void(const Span&)>& body) {
  bool same = true;
  for (ValueId id : parted) same &= prompt_form(id) != ir::Elem::BF16;
  if (same) return body({lo, hi, false});
  over_roles_apart(lo, hi, body);
}

void Scope::over_roles_apart(Value* lo, Value* hi, const std::function<void(const Span&)>& body) {
  Value* middle = between(frame_.i64(Slot::n_prompt), lo, hi);
  e_.if_then(b_.CreateICmpULT(lo, middle), [&] { body({lo, middle, true}); });
  e_.if_then(b_.CreateICmpULT(middle, hi), [&] { body({middle, hi, false}); });
}

void Scope::over_blocks(ValueId id, const Span& rows, const std::function<void(const Span&)>& body) {
  if (form(id, rows) != ir::Elem::BF16) return body(rows);
  Value* first = b_.CreateAnd(rows.lo, e_.i64(-kBlockRows));
  e_.for_range(first, rows.hi, kBlockRows, [&](Value* t) {
    Value* end = b_.CreateAdd(t, e_.i64(kBlockRows));
    body({between(t, rows.lo, rows.hi), between(end, rows.lo, rows.hi), true});
  });
}

Value* Scope::between(Value* v, Value* lo, Value* hi) {
  v = b_.CreateSelect(b_.CreateICmpSLT(v, lo), lo, v);
  return b_.CreateSelect(b_.CreateICmpSGT(v, hi), hi, v);
}

Value* Scope::weight(const ir::WeightUse& use) {
  return e_.at(frame_.ptr(Slot::weights), constant(plan_.packed_of(use).offset));
}

Value* Scope::lower_stream(Value* upper, const plan::Packed& p) {
  return e_.at(upper, panels_of(p.rows) * upper_panel_bytes(p.cols));
}

Value* Scope::weight_or_null(const Op& op, std::string_view slot) {
  const auto use = op.one(slot);
  return use ? weight(*use) : llvm::ConstantPointerNull::get(b_.getPtrTy());
}

Value* Scope::rope_table(const Op& op, std::string_view slot) {
  Value* table = weight_or_null(op, slot);
  const auto use = op.one(slot);
  if (!use || plan_.graph.weight(use->weight).rope.long_factors.empty()) return table;
  const ir::Weight& w = plan_.graph.weight(use->weight);
  Value* flags = e_.member_i32(frame_.ptr(Slot::step), offsetof(gc_step, flags));
  Value* is_long = b_.CreateICmpNE(b_.CreateAnd(flags, e_.i32(GC_STEP_LONG_CONTEXT)), e_.i32(0));
  return b_.CreateSelect(is_long, e_.at(table, 4 * w.table_rows() * w.rope.dims), table);
}

Value* Scope::step_rows(Value* lo) {
  Value* rows = e_.member_ptr(frame_.ptr(Slot::step), offsetof(gc_step, rows));
  return e_.at(rows, b_.CreateMul(lo, e_.i64(sizeof(gc_row))));
}

Value* Scope::sink() { return e_.member_ptr(frame_.ptr(Slot::step), offsetof(gc_step, sink)); }

Value* Scope::stores_logits() {
  if (plan_.graph.encoder) return b_.getTrue();
  return b_.CreateICmpEQ(e_.member_i32(sink(), offsetof(gc_sink, kind)), e_.i32(GC_SINK_LOGITS));
}

std::vector<Scope::Segment> Scope::segments_of(const std::vector<ir::WeightUse>& uses, int64_t* total) const {
  std::vector<Segment> all;
  *total = 0;
  for (const ir::WeightUse& use : uses) {
    const plan::Packed& p = plan_.packed_of(use);
    const Format format = plan_.graph.weight(use.weight).format;
    const Segment s{use, p.rows, p.cols, gc::panel_bytes(format, p.cols), panels_of(p.rows), *total, format};
    *total += s.panel * s.panels;
    all.push_back(s);
  }
  return all;
}

std::pair<Value*, Value*> Scope::share(const Segment& s, int64_t total) {
  auto bound = [&](Value* j) {
    return b_.CreateCall(share_panels(e_), {e_.i64(total), e_.i64(s.start), e_.i64(s.panel), e_.i64(s.panels),
                                            j, frame_.i64(Slot::workers)});
  };
  Value* worker = frame_.i64(Slot::worker);
  return {bound(worker), bound(b_.CreateAdd(worker, e_.i64(1)))};
}

void Scope::add_bias_panels(Value* y, Value* stride, Value* w, Value* panels, Value* rows) {
  llvm::Function* one = bias(e_, 16);
  e_.for_range(e_.i64(0), panels, 1, [&](Value* p) {
    Value* at = e_.at(y, b_.CreateShl(p, 6));
    b_.CreateCall(one, {at, stride, e_.at(w, b_.CreateShl(p, 6)), at, stride, rows});
  });
}

void Scope::loop_chunks(Value* lo, Value* hi, Value* chunk, const std::function<void(Value*, Value*)>& body) {
  Value* n = b_.CreateUDiv(b_.CreateAdd(b_.CreateSub(hi, lo), b_.CreateSub(chunk, e_.i64(1))), chunk);
  e_.for_range(e_.i64(0), n, 1, [&](Value* i) {
    Value* at = b_.CreateAdd(lo, b_.CreateMul(i, chunk));
    Value* left = b_.CreateSub(hi, at);
    body(at, b_.CreateSelect(b_.CreateICmpULT(left, chunk), left, chunk));
  });
}

}  // namespace gc::cpu
