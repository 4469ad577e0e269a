// Attention over depth: what a branch reads is a mix of the residual stream with its own earlier states. Every so many
// layers the stream is kept as it is and begins anew, from that layer's attention alone.
//
//   reads  sum over i of p[i] s[i], p = softmax of score . norm(s[i]); s: the kept states, then the stream
//
// Names of the values, after the prefix of the place: normed scores weights states read.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/builder.h"

namespace gc::blocks {

struct Residuals {
  int64_t every = 0;  // layers between states that are kept; 0: none are, branches read the stream
  double eps = 0;     // of the norm, which has no weights

  explicit operator bool() const { return every > 0; }
};

// The states that are kept so far, of a graph that is being built.
struct KeptResiduals {
  std::vector<ir::ValueId> states, normed;  // [T, n_embd] each
};

// x [T, n_embd] -> [T, n_embd]; score: [1, n_embd].
ir::ValueId read_residuals(ir::Builder& b, ir::ValueId x, const KeptResiduals& kept, const Residuals& r,
                           ir::WeightId score, const std::string& prefix);
void keep_residual(ir::Builder& b, ir::ValueId x, KeptResiduals& kept, const Residuals& r,
                   const std::string& prefix);

}  // namespace gc::blocks
