// Where the rows' sequences have their recurrent states.
#pragma once

#include <cstdint>
#include <functional>

#include "codegen_cpu/emitter.h"

namespace gc::cpu {

class Slots {
 public:
  // At a function's entry: loads what is the same for all rows. From its arguments step, group, slot_bytes and offset.
  Slots(Emitter& e, const Args& a);

  llvm::Value* n_rows() const { return n_rows_; }
  struct Row {
    llvm::Value* state;  // of this op's layer
    llvm::Value* first;  // i1: position 0, the state is to be taken as 0
    llvm::Value* pos;    // i64
    llvm::Value* token;  // i32
  };
  Row of(llvm::Value* row) const;

 private:
  Emitter& e_;
  llvm::Value *rows_, *n_rows_, *tables_, *pool_, *slot_bytes_;
};

// emit(at, count) for each unit of 16 of `columns` f32 columns from arguments lo to hi; at: its first byte in a row, count: 16, or
// those that the last one has.
void for_units(Emitter& e, const Args& a, std::int64_t columns,
               const std::function<void(llvm::Value* at, int count)>& emit);

}  // namespace gc::cpu
