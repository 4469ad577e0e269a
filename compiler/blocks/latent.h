// Latent attention: all heads' keys and values come from one low-rank row of a token, the latent, and a part of the key
// that turns. What is kept of a token is that row alone where the matrices that make keys and values out of it are
// given for each head apart: they are multiplied into the query before the scores, and into what comes out after them.
//
//   absorbed  q_h = [k_b[h] q_nope_h | q_pe_h], key = [latent | k_pe], value = latent, out_h = v_b[h] (sum of latents)
//   plain     [k_nope_h | v_h] = kv_b latent, key_h = [k_nope_h | k_pe]
//
// With an indexer a token sees the positions alone that its scores choose (ops.def: choose_positions): heads of their own,
// made of the query's latent and the layer's input. Layers without one may see those of the last layer before them that has
// one.
//
// Names of the values, after the layer's prefix: q_a q_a_norm q q_nope q_pe q_rope q_absorbed q_full (absorbed), kv_a kv_c
// (the latent, normed), k_pe k_rope k, index_q index_k index_weights chosen, attn_latent (absorbed), attn_out attn_gated
// attn_proj.
#pragma once

#include <optional>
#include <string>

#include "compiler/blocks/attention.h"
#include "compiler/blocks/linear.h"
#include "compiler/blocks/norm.h"
#include "compiler/ir/builder.h"

namespace gc::blocks {

struct Indexer {
  int64_t n_head = 0, dim = 0;
  int64_t used = 0;  // positions that are chosen
  Linear q;          // of the query's latent: [n_head * dim, q_rank]
  Linear k;          // [dim, n_embd]
  Norm k_norm;
  Linear weights;  // of the heads' scores: [n_head, n_embd]
  ir::RopeArgs rope;
  bool turns_end = false;  // the end of a head turns, else its beginning

  explicit operator bool() const { return bool(q); }
};

struct LatentAttention {
  int64_t n_head = 0;
  int64_t
      nope = 0,
      turned = 0,
      v_dim =
          0;  // of a head: query and key that don't turn (plain: may be 0), and do (absorbed: may be 0); value
  int64_t rank = 0;  // of the latent

  Linear q_a, q;  // q of q_a's result where that is given
  Norm q_a_norm;
  Linear kv_a;  // [rank + turned, n_embd]
  Norm kv_a_norm, k_pe_norm;
  ir::WeightId k_b, v_b;  // absorbed: [n_head, rank, nope], [n_head, v_dim, rank]
  Linear kv_b;            // plain: [n_head * (nope + v_dim), rank]

  std::optional<ir::RopeArgs> rope;
  std::optional<Temper> temper;
  double scale = 1;
  int64_t window = 0;
  int64_t reach = 0;    // positions for which this is right; 0: all
  Indexer indexer;      // absorbed, with q_a, without window
  bool sparse = false;  // sees the chosen positions: of its indexer or, without, of an earlier layer's
  ir::WeightId sinks;
  Linear gate;  // as Attention's
  ir::Fn gate_fn = ir::Fn::sigmoid;
  Linear out;  // [n_embd, n_head * v_dim]

  bool absorbed() const { return k_b.valid(); }
};

// x [T, n_embd], normed -> [T, n_embd]. `layer` numbers the state. prefix: "blk.3.". chosen: the positions that the last
// indexer chose, if there was one; brought up to date.
ir::ValueId latent_attention(ir::Builder& b, ir::ValueId x, const LatentAttention& a, int64_t layer,
                             const std::string& prefix, ir::ValueId& chosen);

}  // namespace gc::blocks
