#include "codegen_cpu/frame.h"

#include <cstddef>

#include "codegen_cpu/prompt_rows.h"

namespace gc::cpu {
namespace {

using llvm::Value;

Value* clamp(llvm::IRBuilder<>& b, Value* v, Value* lo, Value* hi) {
  v = b.CreateSelect(b.CreateICmpSLT(v, lo), lo, v);
  return b.CreateSelect(b.CreateICmpSGT(v, hi), hi, v);
}

Value* align64(Emitter& e, Value* v) { return e.b().CreateAnd(e.b().CreateAdd(v, e.i64(63)), e.i64(-64)); }

}  // namespace

llvm::Function* share_units(Emitter& e) {
  return e.function(
      "share_units", {i64("n"), i64("j"), i64("workers")},
      [&](const Args& a) {
        auto& b = e.b();
        b.CreateRet(b.CreateUDiv(b.CreateMul(a["n"], a["j"]), a["workers"]));
      },
      e.b().getInt64Ty());
}

llvm::Function* share_panels(Emitter& e) {
  return e.function(
      "share_panels", {i64("total"), i64("start"), i64("panel"), i64("n"), i64("j"), i64("workers")},
      [&](const Args& a) {
        auto& b = e.b();
        Value* target = b.CreateUDiv(b.CreateMul(a["total"], a["j"]), a["workers"]);
        Value* into = b.CreateAdd(b.CreateSub(target, a["start"]), b.CreateSub(a["panel"], e.i64(1)));
        b.CreateRet(clamp(b, b.CreateSDiv(into, a["panel"]), e.i64(0), a["n"]));
      },
      e.b().getInt64Ty());
}

llvm::Function* prefetch_panels(Emitter& e) {
  return e.function("prefetch_panels", {in("p"), i64("panel")}, [&](const Args& a) {
    e.for_range(0, 4, 1, [&](Value* j) {
      Value* panel = e.at(a["p"], e.b().CreateMul(j, a["panel"]));
      for (int line = 0; line < 16; ++line) e.prefetch(e.at(panel, int64_t{64} * line), 2);
    });
  });
}

Frame Frame::build(Emitter& e, const plan::Plan& plan, Value* step, Value* worker) {
  auto& b = e.b();
  Frame f(e, e.stack(8 * static_cast<int>(Slot::count)));
  auto u32 = [&](size_t at) {
    return b.CreateZExt(e.member_i32(step, static_cast<int64_t>(at)), b.getInt64Ty());
  };
  f.set(Slot::step, step);
  f.set(Slot::arena, e.member_ptr(step, offsetof(gc_step, arena)));
  f.set(Slot::weights, e.member_ptr(step, offsetof(gc_step, weights)));
  f.set(Slot::worker, b.CreateZExt(worker, b.getInt64Ty()));
  f.set(Slot::workers, u32(offsetof(gc_step, workers)));
  f.set(Slot::n_rows, u32(offsetof(gc_step, n_rows)));
  f.set(Slot::n_outputs, u32(offsetof(gc_step, n_outputs)));
  f.set(Slot::n_prompt, u32(offsetof(gc_step, n_prompt)));
  f.set(Slot::gap, b.CreateAnd(b.CreateNeg(f.i64(Slot::n_prompt)), e.i64(kRowsAtOnce - 1)));
  Value* pad = e.i64(static_cast<int64_t>(plan.arena.pad_rows));
  f.set(Slot::rows_cap, b.CreateAdd(u32(offsetof(gc_step, rows_cap)), pad));
  f.set(Slot::outputs_cap, u32(offsetof(gc_step, outputs_cap)));
  Value* sink = e.member_ptr(step, offsetof(gc_step, sink));
  f.set(Slot::sink, e.member_ptr(sink, offsetof(gc_sink, logits)));
  f.set(Slot::sink_stride, b.CreateShl(e.member_i64(sink, offsetof(gc_sink, stride)), 2));
  f.fill_shares();
  f.fill_parts(plan);
  f.fill_own_part(plan);
  return f;
}

void Frame::fill_shares() const {
  auto& b = e_.b();
  auto shared = [&](Slot n, Slot flag, Slot lo, Slot hi) {
    Value* many = b.CreateICmpUGT(i64(n), e_.i64(GC_REDUNDANT_ROWS));
    set(flag, b.CreateZExt(many, b.getInt64Ty()));
    auto bound = [&](Value* j) { return b.CreateCall(share_units(e_), {i64(n), j, i64(Slot::workers)}); };
    set(lo, b.CreateSelect(many, bound(i64(Slot::worker)), e_.i64(0)));
    set(hi, b.CreateSelect(many, bound(b.CreateAdd(i64(Slot::worker), e_.i64(1))), i64(n)));
  };
  shared(Slot::n_rows, Slot::rows_shared, Slot::row_lo, Slot::row_hi);
  shared(Slot::n_outputs, Slot::outputs_shared, Slot::output_lo, Slot::output_hi);
}

// The arena's parts one after the other, as gc_arena_* of program.h compute them.
void Frame::fill_parts(const plan::Plan& plan) const {
  auto& b = e_.b();
  const gc_arena& arena = plan.arena;
  auto times = [&](uint64_t per, Slot n) { return b.CreateMul(e_.i64(static_cast<int64_t>(per)), i64(n)); };
  Value* rows_at = e_.i64(static_cast<int64_t>(gc_arena_align(arena.fixed)));
  Value* outputs_at = b.CreateAdd(rows_at, align64(e_, times(arena.per_row, Slot::rows_cap)));
  Value* workers_at = b.CreateAdd(outputs_at, align64(e_, times(arena.per_output, Slot::outputs_cap)));
  Value* worker_bytes = align64(e_, b.CreateAdd(e_.i64(static_cast<int64_t>(arena.per_worker)),
                                                times(arena.per_worker_row, Slot::rows_cap)));
  Value* own_at = b.CreateAdd(workers_at, b.CreateMul(worker_bytes, i64(Slot::worker)));
  Value* splits_at = b.CreateAdd(workers_at, b.CreateMul(worker_bytes, i64(Slot::workers)));
  Value* base = ptr(Slot::arena);
  set(Slot::rows, e_.at(base, rows_at));
  set(Slot::outputs, e_.at(base, outputs_at));
  set(Slot::prep, e_.at(base, own_at));
  set(Slot::splits, e_.at(base, splits_at));
}

void Frame::fill_own_part(const plan::Plan& plan) const {
  auto& b = e_.b();
  Value* own = ptr(Slot::prep);
  set(Slot::scratch, e_.at(own, plan.scratch_at));
  auto place = [&](Slot base, Slot cap, Slot flag, Slot shared_base, Slot shared_cap, int64_t own_at,
                   int64_t behind, int64_t own_rows) {
    Value* shared = b.CreateICmpNE(i64(flag), e_.i64(0));
    Value* there = e_.at(ptr(shared_base), b.CreateMul(e_.i64(behind), i64(shared_cap)));
    set(base, b.CreateSelect(shared, there, e_.at(own, own_at)));
    set(cap, b.CreateSelect(shared, i64(shared_cap), e_.i64(own_rows)));
  };
  const int64_t rows = static_cast<int64_t>(plan.arena.per_row) - plan.prep_bytes;
  const int64_t outputs = static_cast<int64_t>(plan.arena.per_output) - plan.out_prep_bytes;
  place(Slot::out_prep, Slot::out_prep_cap, Slot::outputs_shared, Slot::outputs, Slot::outputs_cap,
        plan.prep_bytes * plan.own_rows(), outputs, GC_REDUNDANT_ROWS);
  place(Slot::prep, Slot::prep_cap, Slot::rows_shared, Slot::rows, Slot::rows_cap, 0, rows, plan.own_rows());
}

void Frame::meet() const {
  auto& b = e_.b();
  Value* step = ptr(Slot::step);
  llvm::FunctionType* type = llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy(), b.getInt32Ty()}, false);
  b.CreateCall(type, e_.member_ptr(step, offsetof(gc_step, barrier)),
               {e_.member_ptr(step, offsetof(gc_step, barrier_context)),
                b.CreateTrunc(i64(Slot::worker), b.getInt32Ty())});
}

}  // namespace gc::cpu
