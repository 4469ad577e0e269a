// Mixtures of experts: which rows an expert computes is known only in the step.
//
// Routing is row-wise (kernels/route): logits to weights, 0 for the experts that a row isn't given to. Each worker then makes
// the lists of rows by expert for itself from those weights: reading them costs less than a meet would, and nothing is
// shared but read-only rows. The two products of a mixture follow:
//
//   experts_in    worker j takes the j-th share of (expert, unit of columns), where an expert counts as the rows it has
//                 and kExpertCost more for the reading of its weights, so that decode is shared by bytes and a prompt
//                 by work. The rows of an expert are gathered, kExpertRows at a time, and multiplied as one block; the
//                 joined results stand in the order of the lists, an expert's rows one after the other.
//   experts_out   worker j takes its share of columns for all experts and adds the experts' products in ascending order:
//                 a row's bits depend neither on the batch nor on the workers, and no result of an expert is stored.
//                 (Sharing experts instead would need a buffer of `used` times the rows, and one more meet.)
#pragma once

#include <cstdint>
#include <optional>

#include "codegen_cpu/emitter.h"
#include "compiler/ir/ir.h"
#include "compiler/quant/formats.h"

namespace gc::cpu {

// A mixture's shape.
struct ExpertsSpec {
  std::int64_t experts, used;
  std::int64_t n, k;  // of each matrix [n, k]
  ir::Elem input;
};

struct ExpertsInSpec : ExpertsSpec {
  std::optional<Format> gate;
  Format up;
  bool joined = false;                        // up has 2 n rows: the gate's, then its own; so has up_bias
  bool gate_scale = false, up_scale = false;  // one factor an expert
  bool gate_bias = false, up_bias = false, weigh = false;

  bool gated() const { return gate || joined; }
  std::int64_t up_rows() const { return joined ? 2 * n : n; }
  ir::Fn fn;
  std::optional<float> limit;
  bool limit_out = false;  // the gate's holds behind fn
  float up_add = 0;
  float gate_cap = 0, up_cap = 0;  // 0: none
  ir::Elem out;
};
// void(x, i64 xs, routing, i64 rs, i64 rows, gate, up, gate_scale, up_scale, gate_bias, up_bias, y, scratch, i64 worker, i64 workers)
// y: rows of experts_row_bytes, in the order of the lists. Absent weights are null.
llvm::Function* experts_in(Emitter& e, const ExpertsInSpec& spec);

struct ExpertsOutSpec : ExpertsSpec {
  Format down;
  bool bias = false, weigh = false;
};
// void(x, routing, i64 rs, i64 rows, down, bias, y, i64 ys, scratch, i64 worker, i64 workers); x: y of experts_in
llvm::Function* experts_out(Emitter& e, const ExpertsOutSpec& spec);

// Bytes of a row of experts_in's y.
std::int64_t experts_row_bytes(ir::Elem elem, std::int64_t n);
// Scratch of a worker, and for each row of a step.
std::int64_t experts_scratch_bytes(const ExpertsSpec& spec);
std::int64_t experts_row_scratch_bytes(const ExpertsSpec& spec);

// Rows of an expert that are multiplied as one block.
inline constexpr std::int64_t kExpertRows = 64;
// What reading a panel of weights costs, in rows that are multiplied with it.
inline constexpr std::int64_t kExpertCost = 4;

}  // namespace gc::cpu
