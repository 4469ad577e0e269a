// Mixers of linear attention: states that map keys to values, of which each token corrects or adds one.
//
// Names of the values, after the layer's prefix: delta_qkv delta_conv delta_q delta_k (normed) delta_v delta_gate (the
// logarithms of decays) delta_beta delta_out [T, heads, v_dim] delta_norm delta_gated delta_proj [T, n_embd].
#pragma once

#include <cstdint>
#include <string>

#include "compiler/blocks/linear.h"
#include "compiler/blocks/recurrent.h"
#include "compiler/ir/builder.h"

namespace gc::blocks {

// Each head over its length, the square of which counts as `eps` more: x [T, heads * dim] -> [T, heads, dim].
ir::ValueId unit_heads(ir::Builder& b, ir::ValueId x, std::int64_t heads, std::int64_t dim, double eps,
                       const std::string& name);

// The gated delta rule: one decay a head; q, k and v are convolved together.
struct DeltaNet {
  std::int64_t key_heads = 0, heads = 0, k_dim = 0, v_dim = 0;
  bool in_turn = false;     // heads take keys in turn, see op delta_rule
  Linear qkv, z;            // [2 key_heads k_dim + heads v_dim, n_embd], [heads v_dim, n_embd]
  Linear qkvz;              // in their place: q, k, then its values and z, key head by key head
  Linear beta, alpha;       // [heads, n_embd]
  Linear beta_alpha;        // in their place: betas, then alphas, key head by key head
  Conv conv;                // of q, k and v
  ir::WeightId dt_bias, a;  // [heads]: decays are exp(a softplus(alpha + dt_bias))
  ir::WeightId norm;        // [v_dim] of each head's RMS norm
  double eps = 0;
  ir::Fn z_fn = ir::Fn::silu;
  Linear out;  // [n_embd, heads v_dim], of the normed heads times z_fn(z)
};
ir::ValueId delta_net(ir::Builder& b, ir::ValueId x, const DeltaNet& m, std::int64_t layer,
                      const std::string& prefix);

// Kimi delta attention: a decay of each key; q, k and v have convolutions of their own.
struct Kda {
  std::int64_t heads = 0, dim = 0;
  Linear q, k, v;  // [heads dim, n_embd]
  Conv q_conv, k_conv, v_conv;
  Linear f_a, f_b;  // [dim, n_embd], [heads dim, dim]: decays are exp(a softplus(f + dt_bias)), f = f_b f_a x
  double least =
      0;  // negative: exp(least sigmoid(a (f + dt_bias))) in their place; f_a, g_a may be whole, without b
  bool mirrored = false;         // a is -a there
  ir::WeightId dt_bias, a;       // [heads dim], [heads]
  Linear beta;                   // [heads, n_embd]
  Linear g_a, g_b;               // the gate, as f
  ir::WeightId norm;             // [dim]
  double eps = 0, unit_eps = 0;  // of the norm; of the lengths of q and k
  Linear out;
};
ir::ValueId kda(ir::Builder& b, ir::ValueId x, const Kda& m, std::int64_t layer, const std::string& prefix);

// Lightning attention: q, k and v, head by head, through silu; states decay by ALiBi's slopes; a norm over all heads.
struct Lightning {
  std::int64_t heads = 0, dim = 0;
  Linear qkv;     // [3 heads dim, n_embd]
  double by = 1;  // of the slopes
  Norm norm;      // [heads dim]
  Linear gate, out;
};
ir::ValueId lightning(ir::Builder& b, ir::ValueId x, const Lightning& m, std::int64_t layer,
                      const std::string& prefix);

}  // namespace gc::blocks
