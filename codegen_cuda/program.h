// A model as CUDA: one source, and the launches of a step in order. Every launch is a barrier, so a step needs no other
// plan than which kernel runs over how many blocks with which operands.
//
// There are two lists over the same values. In steps of one row, the generated token of one sequence, a norm is the front of
// the product that reads it, in every block again, and products take one row; for more rows norms are launches of their
// own and products take four rows at once. The bits are the same.
//
// Memory: a step's values lie in an arena of parts for tokens and for the rows asked for, as offsets per row (times what the
// arena was made for); values share places when their lifetimes in launches don't touch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"
#include "runtime/abi/cuda.h"

namespace gc::cuda {

// Positions of a range of attention, as in kernels/attention/attention.cuh.
inline constexpr std::int64_t kAttnRange = GC_CUDA_RANGE;

// Where a value lies: bytes per row from its part's begin, and from there to a view's first element.
struct Place {
  bool outputs = false;
  std::int64_t offset = 0, shift = 0;
};

struct Launch {
  std::string kernel;
  std::int32_t op = -1;  // index into plan.graph.ops; of a norm and its product the product
  bool outputs = false;  // over the rows asked for
  bool ranges = false;   // grid: ranges x blocks x rows; else blocks x rows / rows_at_once
  std::int64_t blocks = 1, rows_at_once = 1;
  std::int64_t deep = 1;              // blocks in z for each row (a token's experts)
  std::int64_t most_ranges = 0;       // that a row's window touches; 0: as many as its position
  std::vector<std::int64_t> weights;  // offsets in the image
  std::vector<Place> values;
  std::int32_t state = -1;
};

struct Program {
  std::string source;
  int kv_type = GC_KV_F16;
  std::vector<Launch> one, many;                 // for a step of one row, of more
  std::int64_t row_bytes = 0, output_bytes = 0;  // of the arena, for each row of the two parts
  std::int64_t query_bytes = 0;                  // for each row
  std::int64_t partial_bytes = 0;                // for each row and range
};

// The plan is of a CudaBackend. Throws Unsupported for what a whole graph can lack beyond its ops.
Program make_program(const plan::Plan& plan, int kv_type);

inline const std::vector<Launch>& launches_for(const Program& program, std::int64_t rows) {
  return rows == 1 ? program.one : program.many;
}
// The launch as a program's file has it (runtime/abi/cuda.h, which says what follows from it); its kernel is number `kernel`.
gc_cuda_launch packed(const Program& program, const plan::Plan& plan, const Launch& launch,
                      std::uint32_t kernel = 0);
// Facts of the arena.
gc_cuda_image arena_facts(const Program& program);

}  // namespace gc::cuda
