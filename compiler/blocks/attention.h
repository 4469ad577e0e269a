// Self-attention with grouped heads, in the steps that families arrange differently: projection, norms of q and k,
// RoPE, scores, a gate on what comes out. Most families are a choice of the fields of Attention.
//
// Names of the values, after the layer's prefix: q k v (as projected; from a fused matrix also qkv), q_clamped (and so
// on), q_norm k_norm, q_gain k_gain, q_rot k_rope (turned), q_rope (turned and scaled), q_tempered, attn_out
// [T, heads, v_dim], attn_gated, attn_sub_norm, attn_proj [T, n_embd].
#pragma once

#include <optional>
#include <string>

#include "compiler/blocks/linear.h"
#include "compiler/blocks/norm.h"
#include "compiler/ir/builder.h"

namespace gc::blocks {

struct HeadShape {
  int64_t n_head = 0, n_head_kv = 0;  // n_head is a multiple of n_head_kv
  int64_t k_dim = 0, v_dim = 0;       // size of a query or key head, and of a value head

  int64_t q_rows() const { return n_head * k_dim; }
  int64_t k_rows() const { return n_head_kv * k_dim; }
  int64_t v_rows() const { return n_head_kv * v_dim; }
  int64_t out_cols() const { return n_head * v_dim; }
};

// Three matrices, or one whose rows are those of q, then k, then v. Fused rows may still have three biases.
struct QkvWeights {
  Linear fused;
  Linear q, k, v;  // without v the keys, as projected, are the values too

  explicit operator bool() const { return fused || q; }
};

// Queries grow with the position: by the factor 1 + by * log(1 + floor((pos + offset) / period)).
struct Temper {
  double by = 0;
  int64_t period = 1, offset = 0;
};

struct Attention {
  // What the norms of q and k are over: each head, each head after it was turned, or all heads together.
  enum class NormAt { Heads, TurnedHeads, Whole };

  HeadShape shape;
  QkvWeights qkv;
  double clamp = 0;  // of q, k and v as projected; 0: none
  Norm q_norm, k_norm;
  Norm v_norm;  // of each head
  NormAt norm_at = NormAt::Heads;
  ir::WeightId q_gain,
      k_gain;  // after the norms: of each value of all heads ([heads * k_dim]), or of each head
  std::optional<ir::RopeArgs> rope;  // none: positions are not turned
  std::optional<Temper> temper;      // of the queries
  double query_scale = 1;            // a step of its own on the turned queries
  double scale = 1;                  // of the scores
  double cap = 0;                    // softcap of the scores, 0: none
  double alibi = 0;                  // ALiBi's largest exponent, 0: none
  int64_t window = 0;                // 0: all positions
  bool ahead = false;                // later positions are seen too, with a window as many as before
  ir::WeightId sinks;
  ir::WeightId bias;  // of the scores, by ranges of distances ([buckets * heads]), or none
  int64_t buckets = 0;
  // gate_fn(gate x) times what comes out: of each value [heads * v_dim, n_embd], or head [heads, n_embd].
  Linear gate;
  ir::Fn gate_fn = ir::Fn::sigmoid;
  bool gate_in_q =
      false;             // the gate's rows stand behind the query's, head by head: q has 2 k_dim rows a head
  Norm out_norm;         // of all heads' values together, gated or not
  Linear out;            // [n_embd, heads * v_dim]
  double out_scale = 1;  // of the block's result

  // Of kv_state(): who sees later positions keeps all.
  int64_t kept_window() const { return ahead ? 0 : window; }
};

struct Qkv {
  ir::ValueId q, k, v;  // [T, heads * k_dim], [T, kv heads * k_dim], [T, kv heads * v_dim]
};

// The keys and values that a layer keeps: a ring where it has a window, else all of them.
ir::StateId kv_state(ir::Builder& b, int64_t layer, const HeadShape& shape, int64_t window);

Qkv project_qkv(ir::Builder& b, ir::ValueId x, const QkvWeights& w, const HeadShape& shape,
                const std::string& prefix);

// x [T, n_embd], normed -> [T, n_embd]. prefix: "blk.3.".
ir::ValueId self_attention(ir::Builder& b, ir::ValueId x, const Attention& a, ir::StateId state,
                           const std::string& prefix);

// The same by queries alone, over what an earlier layer of the step keeps. Of `a` counts what is of queries: q, its norm,
// RoPE, scale, cap, window, out.
ir::ValueId shared_attention(ir::Builder& b, ir::ValueId x, const Attention& a, ir::StateId state,
                             const std::string& prefix);

}  // namespace gc::blocks
