// Hyper-connections: several residual streams beside each other. A block reads a weighed sum of them and adds its result to
// each by a factor; the weights and factors are sigmoids of a product of all streams, normed.
//
//   gates = sigmoid(scale * (fn . norm(all streams)) + base), scale one for the weights and one for the factors
//   reads sum over s of (gates[s] + eps) stream[s];  stream[s] += (magnitude * gates[n + s] + eps) * result
//
// With mixing the streams a result is added to are mixed before, by a matrix from n * n further rows of the product that
// sinkhorn makes almost doubly stochastic (its scale is one more), and the factors have no eps.
//
// Names of the values, after the prefix of the place: mixes gates read, then factors, with mixing matrix and kept, and written.
#pragma once

#include <string>

#include "compiler/blocks/linear.h"
#include "compiler/ir/builder.h"

namespace gc::blocks {

struct Hyper {
  int64_t streams = 0;  // 0: none
  ir::WeightId fn;      // [2 streams, streams * n_embd]; of the head: [streams, ...], it only reads
  ir::WeightId base;    // one for each row of fn
  ir::WeightId scale;   // [2]; of the head: [1]
  double norm_eps = 0, eps = 0, magnitude = 1;
  int64_t rounds = 0;  // of sinkhorn; 0: streams are not mixed. fn: [2 streams + streams^2, ...], scale: [3]

  explicit operator bool() const { return streams > 0; }
};

// x [T, n_embd] as that many equal streams: [T, streams * n_embd].
ir::ValueId spread(ir::Builder& b, ir::ValueId x, int64_t streams, const std::string& prefix);

struct HyperRead {
  ir::ValueId x;        // [T, n_embd]
  ir::ValueId factors;  // [T, streams], none of the head
  ir::ValueId matrix;   // [T, streams * streams] with mixing
};
// x [T, streams * n_embd].
HyperRead hyper_read(ir::Builder& b, ir::ValueId x, const Hyper& h, const std::string& prefix);

// The streams x with a block's result [T, n_embd] added; the last value is `name`.
ir::ValueId hyper_write(ir::Builder& b, ir::ValueId x, ir::ValueId result, const HyperRead& read,
                        const Hyper& h, const std::string& prefix, const std::string& name);

// The streams' mean [T, n_embd].
ir::ValueId stream_mean(ir::Builder& b, ir::ValueId x, int64_t streams, const std::string& name);

// Each stream's RMS norm, all weights beside each other [streams * n_embd].
ir::ValueId norm_streams(ir::Builder& b, ir::ValueId x, ir::WeightId weight, int64_t streams, double eps,
                         const std::string& name);

// The same connections with weights for each value in place of one for each stream, from two products with few rows between
// them; they take the place of the blocks' norms.
//
//   normed = each stream normed;  gates = sigmoid(up silu(down normed / streams))
//   reads the mean of gates * normed;  stream[s] += 2 sigmoid((inject normed)[s] / streams) * result
//
// Names: norm low gates gated read, then factors, and written.
struct GatedHyper {
  int64_t streams = 0;
  ir::WeightId norm;        // [streams * n_embd]
  Linear down, up, inject;  // [few, streams * n_embd], back; [streams, streams * n_embd], none of the head
  double eps = 0;
};
// x [T, streams * n_embd].
HyperRead gated_read(ir::Builder& b, ir::ValueId x, const GatedHyper& h, const std::string& prefix);
ir::ValueId gated_write(ir::Builder& b, ir::ValueId x, ir::ValueId result, const HyperRead& read,
                        const std::string& prefix, const std::string& name);

}  // namespace gc::blocks
