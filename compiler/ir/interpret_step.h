// What ops see of a step while it is interpreted: rows, the values made so far, weights and states. Private to the
// interpreter, whose groups of ops are a file each.
#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/ir/interpret.h"

namespace gc::ir {

// One run: the values made so far.
class Interpreter::Step {
 public:
  Step(Interpreter& in, std::span<const Row> rows);

  std::vector<Tensor> run(const See& see);

  const Graph& graph() const { return in_.g_; }
  const Op& op() const { return *op_; }  // the one at hand
  std::span<const Row> rows() const { return rows_; }
  const std::vector<int64_t>& outputs() const { return outputs_; }
  int64_t context() const { return in_.context_; }
  Tensor& value(ValueId v) { return values_[v.index]; }

  // All of a weight as f32, or null where the cache is full.
  const float* cached(WeightId id) { return in_.cached(id); }
  void read_row(WeightId id, int64_t row, float* out) { in_.read_row(id, row, out); }
  // All of a weight of any shape; small ones, which are always kept.
  const float* whole(WeightId id);
  // The op's state, of the row's sequence.
  Cache& cache_of(const Row& row) { return in_.caches_[{op_->state.index, row.sequence}]; }

 private:
  int64_t size(const Dim& d) const;
  void make(ValueId v);
  void eval();

  Interpreter& in_;
  std::span<const Row> rows_;
  std::vector<int64_t> outputs_;  // rows asked for
  std::vector<Tensor> values_;
  const Op* op_ = nullptr;
};

// What the groups of ops share: the op at hand and its operands.
class StepOps {
 public:
  explicit StepOps(Interpreter::Step& step)
      : step_(step), g_(step.graph()), op_(step.op()), rows_(step.rows()) {}

 protected:
  const Tensor& in(int i) const { return step_.value(op_.inputs[i]); }
  Tensor& out(int i = 0) { return step_.value(op_.results[i]); }

  // The vector in an optional slot, or null.
  const float* vector(std::string_view slot) {
    auto use = op_.one(slot);
    return use ? step_.whole(use->weight) : nullptr;
  }

  Interpreter::Step& step_;
  const Graph& g_;
  const Op& op_;
  std::span<const Row> rows_;
};

// The groups that are files of their own: ops with matrices, ops with states (and RoPE).
void interpret_product(Interpreter::Step& step);
void interpret_state(Interpreter::Step& step);

}  // namespace gc::ir
