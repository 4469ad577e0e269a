#pragma once
// How many rows of a step go to prompts, and to which of them.
//
// Who generates has one row in every step; prompts get what is left, or less: rows of a prompt make the step longer for
// all who generate, so they get no more than take the time that those may be made to wait, but always some, or prompts
// would starve. The speeds that this needs are measured as the steps go by. They decide when a row is computed, never
// what comes of it.
//
// Among prompts the one that came first gets half of the rows, whatever else comes, and the others are read shortest
// first: short questions don't wait for long documents to be read. (Equal shares would let all of
// sixteen prompts that came together be done last.)
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/span.h"

namespace gcrt::batch {

struct PromptShare {
  size_t left = 0;  // tokens that could be read now
  uint64_t came = 0;
  uint32_t rows = 0;  // that it gets
};

// Rows in all are no more than `rows`.
void share_rows(Span<PromptShare> prompts, uint32_t rows);

class StepClock {
 public:
  static constexpr uint32_t kFewest = 32;  // rows for prompts, if there are so many
  static constexpr uint32_t kFirst = 128;  // as long as nothing was measured

  explicit StepClock(int64_t most_wait_ns) : most_wait_ns_(most_wait_ns) {}
  // Rows that prompts may have beside `generating` ones, of `room` that are free.
  uint32_t prompt_rows(uint32_t generating, uint32_t room) const;
  // A step took so long.
  void add(uint32_t prompt_rows, uint32_t generating, int64_t ns);

 private:
  int64_t most_wait_ns_;
  double row_ns_ = 0;         // of a prompt
  double generating_ns_ = 0;  // steps without prompts
};

}  // namespace gcrt::batch
