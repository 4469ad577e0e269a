// Lifetimes of values in phases, and the memory that follows from them.
//
// A phase is what lies between two unconditional meets. Within a phase workers run apart, so a value that one worker
// may still read must not be overwritten before the next phase: values share memory only if their phases are
// disjoint. Conditional meets don't count, since for few rows the workers don't stop there.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/ir.h"

namespace gc::plan {

struct Plan;

class Lifetimes {
 public:
  struct Life {
    int32_t first = 0, last = 0;  // phases
  };
  const Life& of(ir::ValueId value) const { return life_[value.index]; }
  // Index of the last op that reads the value or a view of it; -1: none.
  int32_t last_reader(ir::ValueId value) const { return last_reader_[value.index]; }

 private:
  friend Lifetimes find_lifetimes(const Plan& plan);
  std::vector<Life> life_;            // by value; a view's uses count for what it views
  std::vector<int32_t> last_reader_;  // by value
};

Lifetimes find_lifetimes(const Plan& plan);

// First fit over offsets: a block may be taken when it touches none that lives in one of its phases.
class PhaseAllocator {
 public:
  int64_t take(int64_t bytes, int32_t first, int32_t last);
  // The block at this offset lives longer (a value taken in place).
  void extend(int64_t offset, int32_t last);
  int64_t size() const { return size_; }

 private:
  struct Block {
    int64_t begin, end;
    int32_t first, last;
  };
  std::vector<Block> blocks_;
  int64_t size_ = 0;
};

}  // namespace gc::plan
