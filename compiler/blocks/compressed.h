// Attention to a window of positions and, beyond it, to compressed ones: every so many tokens become one row, their values
// weighed by a softmax of scores, of each column by itself. One row serves as key and as value, of one head for all queries.
// Both attentions share one softmax: each gives the logarithm of its own sum, and the sigmoid of their difference weighs
// them. The sinks' part is in the window's.
//
//   q = turned(norm(q_b norm(q_a x))), kv = turned(norm(kv x)); of a head the last `turned` dimensions turn
//   c = turned(norm(compress(values x, scores x))), by the position of the first of its own `every` tokens
//   out = out_b out_a(turned back(attention(q, kv | c))), out_a of groups of heads
//
// Names of the values, after the layer's prefix: q_a q_a_norm q q_norm q_turned, kv kv_norm kv_turned, comp_values
// comp_scores comp comp_norm comp_turned, attn_window attn_far (values, then sums), attn_near_share attn_far_share, attn_out
// attn_back, attn_groups [T, groups, rank], attn_proj.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/blocks/linear.h"
#include "compiler/blocks/norm.h"
#include "compiler/ir/builder.h"

namespace gc::blocks {

struct CompressedAttention {
  std::int64_t n_head = 0, dim = 0, window = 0;
  Linear q_a, q_b, kv;  // [rank, n_embd], [n_head * dim, rank], [dim, n_embd]
  Norm q_a_norm, q_norm, kv_norm;
  ir::RopeArgs rope;
  double scale = 1;
  ir::WeightId sinks;

  std::int64_t every = 0;           // 0: the window alone
  bool overlap = false;             // a row is of twice as many tokens
  Linear comp_values, comp_scores;  // [dim, n_embd], or twice as many rows with overlap
  ir::WeightId comp_ape;            // [every, rows of those]
  Norm comp_norm;

  ir::WeightId out_a;  // [groups, rank, n_head * dim / groups]
  Linear out_b;        // [n_embd, groups * rank]
};

// x [T, n_embd], normed -> [T, n_embd]. `layer` numbers the states. prefix: "blk.3.".
ir::ValueId compressed_attention(ir::Builder& b, ir::ValueId x, const CompressedAttention& a,
                                 std::int64_t layer, const std::string& prefix);

}  // namespace gc::blocks
