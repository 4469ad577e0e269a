// Attention to a window of positions and, beyond it, to compressed ones: every so many tokens become one row, their values
// weighed by a softmax of scores, of each column by itself. One row serves as key and as value, of one head for all queries.
// Both attentions share one softmax: each gives the logarithm of its own sum, and the sigmoid of their difference weighs
// them. The sinks' part is in the window's.
//
//   q = turned(norm(q_b norm(q_a x))), kv = turned(norm(kv x)); of a head the last `turned` dimensions turn
//   c = turned(norm(compress(values x, scores x))), by the position of the first of its own `every` tokens
//   out = out_b out_a(turned back(attention(q, kv | c))), out_a of groups of heads
//
// With an index a token sees those compressed rows alone that its scores choose (ops.def: choose_positions): heads of their
// own, over rows compressed and turned in the same way, of another size.
//
// Names of the values, after the layer's prefix: q_a q_a_norm q q_norm q_turned, kv kv_norm kv_turned, comp_values
// comp_scores comp comp_norm comp_turned, index_q_turned index_comp_turned index_weights chosen, attn_window attn_far (values, then sums), attn_near_share attn_far_share, attn_out
// attn_back, attn_groups [T, groups, rank], attn_proj.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/blocks/linear.h"
#include "compiler/blocks/norm.h"
#include "compiler/ir/builder.h"

namespace gc::blocks {

// Makes a row of [dim] of every so many tokens.
struct Compressor {
  std::int64_t dim = 0;
  Linear values, scores;  // [dim, n_embd], or twice as many rows with overlap
  ir::WeightId ape;       // [every, rows of those]
  Norm norm;
};

struct CompressedAttention {
  std::int64_t n_head = 0, dim = 0, window = 0;
  Linear q_a, q_b, kv;  // [rank, n_embd], [n_head * dim, rank], [dim, n_embd]
  Norm q_a_norm, q_norm, kv_norm;
  ir::RopeArgs rope;
  double scale = 1;
  ir::WeightId sinks;

  std::int64_t every = 0;  // 0: the window alone
  bool overlap = false;    // a row is of twice as many tokens
  Compressor comp;

  struct Index {
    std::int64_t n_head = 0;
    std::int64_t used = 0;  // rows that are chosen
    Linear q, weights;      // [n_head * comp.dim, rank], [n_head, n_embd]
    Compressor comp;        // of the keys

    explicit operator bool() const { return bool(q); }
  } index;

  ir::WeightId out_a;  // [groups, rank, n_head * dim / groups]
  Linear out_b;        // [n_embd, groups * rank]
};

// x [T, n_embd], normed -> [T, n_embd]. `layer` numbers the states. prefix: "blk.3.".
ir::ValueId compressed_attention(ir::Builder& b, ir::ValueId x, const CompressedAttention& a,
                                 std::int64_t layer, const std::string& prefix);

}  // namespace gc::blocks
