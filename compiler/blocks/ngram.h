// A memory of n-grams: rows of a table that hashes of the last tokens choose, of which each residual stream takes as much
// as its own state asks for, and a convolution over what the sequence has taken so far.
//
//   rows = table rows of the hashes, side by side; key = key_norm(key rows), value = value rows
//   taken[s] = sigmoid(root(key[s] . query_norm(x)[s] / sqrt(n))) value, root(a) = sqrt(max(|a|, 1e-6)) with a's sign
//   x + taken + silu(conv(conv_norm(taken)))
//
// Names of the values, after the prefix: ngram_rows [T, heads * dim], ngram_key ngram_query ngram_dot ngram_gate
// [T, streams], ngram_value, ngram_taken, ngram_conv [T, streams * n], ngram_out.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/blocks/linear.h"
#include "compiler/blocks/recurrent.h"
#include "compiler/ir/builder.h"

namespace gc::blocks {

struct NgramMemory {
  std::int64_t streams = 1;
  ir::NgramArgs rows;                            // of a table [.., dim]
  Linear key, value;                             // [streams * n, heads * dim], [n, heads * dim]
  ir::WeightId key_norm, query_norm, conv_norm;  // [streams * n]: RMS norms of each stream
  double eps = 0;
  Conv conv;  // of streams * n channels
};

// x [T, streams * n] -> the same. `layer` numbers the states.
ir::ValueId ngram_memory(ir::Builder& b, ir::ValueId x, const NgramMemory& m, std::int64_t layer,
                         const std::string& prefix);

}  // namespace gc::blocks
