// One layer of a transformer: attention and a feed-forward network added to the residual stream, with the norms where
// its family has them.
//
//   in turn:   h = x + post(attention(norm(x)));  y = h + post(ffn(norm(h)))
//   parallel:  y = x + attention(norm(x)) + ffn(norm'(x)), norm' the ffn's own norm or attention's
//   over depth: branches read a mix of x and earlier residual streams (residuals.h), and are added to x
//
// A recurrent layer has a mixer in attention's place, or beside it.
//
// Any norm may be missing; then its input passes as it is. A layer may lack attention or feed-forward network, and
// attention may be its output matrix alone (pruned models).
//
// Names of the values, after the layer's prefix: attn_norm, attn_post_norm, attn_scaled, attn_residual, ffn_norm,
// ffn_post_norm, ffn_scaled, ffn_residual and ffn_norm_exps (experts beside), branches (parallel), l_out; and those of attention and feed-forward network.
#pragma once

#include <string>

#include "compiler/blocks/attention.h"
#include "compiler/blocks/ffn.h"
#include "compiler/blocks/hyper.h"
#include "compiler/blocks/latent.h"
#include "compiler/blocks/moe.h"
#include "compiler/blocks/norm.h"
#include "compiler/blocks/recurrent.h"
#include "compiler/blocks/residuals.h"
#include "compiler/ir/builder.h"

namespace gc::blocks {

struct Layer {
  std::string prefix;  // "blk.3."
  Norm attn_norm, post_attn_norm, ffn_norm, post_ffn_norm;
  Attention attn;          // without `out`: none; without q, k and v: out alone
  LatentAttention latent;  // in place of attn
  Mixer mixer;             // in place of attention, or beside it: both see attn_norm's result and are added
  Ffn ffn;                 // without `up`: none
  Moe moe;                 // in place of ffn, or where moe_norm is given beside it
  bool early_router = false;  // experts are chosen by the layer's input
  Norm moe_norm;  // of the layer's input: what the experts see; their results are added at the end
  bool parallel = false;
  Hyper attn_hyper, ffn_hyper;  // x has several streams, which attention and network read and add to
  Residuals residuals;
  ir::WeightId attn_score, ffn_score;  // of residuals: [1, n_embd]
  double branch_scale = 1;             // of both branches, before they are added
};

// What layers leave for those behind them.
struct Kept {
  KeptResiduals residuals;  // of layers with `residuals`
  ir::ValueId chosen;       // positions, of the last layer with an indexer
};

// x [T, n_embd] -> [T, n_embd]. `layer` numbers the layer's state; `kept`: one for all layers, none where they leave nothing.
ir::ValueId layer(ir::Builder& b, ir::ValueId x, const Layer& l, int64_t layer, Kept* kept = nullptr);

}  // namespace gc::blocks
