// The meaning of the IR: every op in plain f32, one scalar loop after the other. Slow, obvious and complete; kernels
// are compared with it, within a tolerance (sums here have no promised order).
//
// Quantized values (q16) are held as the f32 they stand for, so a graph means the same before and after the passes up
// to the rounding of its quantize ops. States live in the interpreter between runs: a prompt may come in one run, in
// chunks, or token by token, and several sequences may share a run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "compiler/ir/ir.h"

namespace gc::ir {

struct Row {
  int32_t token = 0;
  int64_t position = 0;  // at most one past the last position of its sequence; an earlier one replaces it
  int32_t sequence = 0;
  bool output = true;  // is among the R rows of select
};

struct Tensor {
  std::vector<int64_t> dims;  // outermost first
  std::vector<float> data;
  int64_t last() const { return dims.back(); }
  int64_t rows() const { return int64_t(data.size()) / dims.back(); }
  float* row(int64_t i) { return data.data() + i * last(); }
  const float* row(int64_t i) const { return data.data() + i * last(); }
};

// Dequantizes a row of a tensor: weight.shape.back() values. A vector is its row 0.
using ReadRow = std::function<void(const Weight& weight, int64_t row, float* out)>;
// Sees every value as it is made.
using See = std::function<void(std::string_view name, const Tensor& value)>;

class Interpreter {
 public:
  class Step;  // of the interpreter's own files, as is Cache
  // Keys and values of a sequence in one state: [position, heads * dim].
  struct Cache {
    std::vector<float> k, v;
    int64_t length = 0;
  };

  // The graph must outlive the interpreter. Up to cache_bytes of dequantized weights are kept between rows and runs.
  Interpreter(const Graph& g, ReadRow read, int64_t cache_bytes = int64_t(1) << 30);

  // Runs a step and returns the graph's outputs. Rows of one sequence stand in order of position.
  std::vector<Tensor> run(std::span<const Row> rows, const See& see = nullptr);

  void forget() { caches_.clear(); }  // all states
  // Positions that each sequence has room for: some models turn by other angles in long contexts. 0: few.
  void set_context(int64_t positions) { context_ = positions; }

 private:
  // All of a weight as f32, or null where the cache is full.
  const float* cached(WeightId id);
  void read_row(WeightId id, int64_t row, float* out);
  void make_row(WeightId id, int64_t row, float* out);  // not from the cache

  const Graph& g_;
  ReadRow read_;
  int64_t cache_left_, context_ = 0;
  std::vector<int32_t> last_use_;                        // of each value: op index
  std::vector<std::vector<float>> weights_;              // cached, else empty
  std::map<std::pair<int32_t, int32_t>, Cache> caches_;  // by state and sequence
};

// fn(x) of the table in attrs.def.
float apply(Fn fn, float x);

}  // namespace gc::ir
