// What an entry works out once for its worker and hands to the sections of the program: addresses of the arena's
// parts, the worker's share of rows, its scratch. A struct in the entry's stack, read by generated code only.
//
//   part        address of a value of the part (plan.h)
//   rows        rows + offset * rows_cap
//   prep        prep + offset * prep_cap: the worker's own part (cap own_rows()) for few rows, else shared
//   outputs, out_prep likewise, for the rows asked for
#pragma once

#include "codegen_cpu/emitter.h"
#include "compiler/plan/plan.h"

namespace gc::cpu {

enum class Slot : int {
  step,
  arena,
  weights,
  worker,
  workers,
  n_rows,
  n_outputs,
  n_prompt,  // prompt rows, which come first
  gap,       // rows between them and the generated ones in values that roles part (prompt_rows.h)
  rows,
  rows_cap,
  prep,
  prep_cap,
  outputs,
  outputs_cap,
  out_prep,
  out_prep_cap,
  rows_shared,
  outputs_shared,  // 1: rows are split among workers, who meet before they read others' rows
  row_lo,
  row_hi,
  output_lo,
  output_hi,  // this worker's rows in row-wise ops
  scratch,
  splits,
  sink,
  sink_stride,  // logits, bytes
  count
};

class Frame {
 public:
  Frame(Emitter& e, llvm::Value* frame) : e_(e), frame_(frame) {}

  // Made at the beginning of an entry: fills all slots from the step.
  static Frame build(Emitter& e, const plan::Plan& plan, llvm::Value* step, llvm::Value* worker);

  llvm::Value* pointer() const { return frame_; }
  llvm::Value* ptr(Slot slot) const { return e_.member_ptr(frame_, offset(slot)); }
  llvm::Value* i64(Slot slot) const { return e_.member_i64(frame_, offset(slot)); }

  // All workers meet.
  void meet() const;

 private:
  static std::int64_t offset(Slot slot) { return 8 * static_cast<int>(slot); }
  void set(Slot slot, llvm::Value* value) const { e_.store(value, e_.at(frame_, offset(slot)), 8); }
  void fill_parts(const plan::Plan& plan) const;
  void fill_shares() const;
  void fill_own_part(const plan::Plan& plan) const;

  Emitter& e_;
  llvm::Value* frame_;
};

// i64 share_units(n, j, workers): where the j-th of `workers` equal shares of n units begins.
llvm::Function* share_units(Emitter& e);
// i64 share_panels(total, start, panel, n, j, workers): of n panels of `panel` bytes that begin `start` bytes into a
// matrix of `total` bytes, the first that belongs to worker j or a later one, when workers share the bytes equally.
llvm::Function* share_panels(Emitter& e);

// void prefetch_panels(p, i64 panel): the first KB of the four panels of `panel` bytes from p on.
llvm::Function* prefetch_panels(Emitter& e);

}  // namespace gc::cpu
