// Mixtures of experts: a router gives each token to a few of many feed-forward networks, whose results are weighed and
// summed; a shared expert, an ordinary network that all tokens go through, may be added, weighed by a gate of its own.
//
// Names of the values, after the layer's prefix: ffn_moe_logits [T, experts], ffn_moe_weights (0 for the experts not
// chosen), ffn_moe_act [T, used, n_ff], ffn_moe_out [T, n_embd] (between ffn_latent and ffn_latent_norm, ffn_latent_out, where experts are smaller); of the shared expert those of ffn.h after ffn_shexp_, or
// with a gate ffn_shexp_gate, ffn_shexp_act and ffn_shexp_out; ffn_moe_sum.
#pragma once

#include <string>

#include "compiler/blocks/ffn.h"
#include "compiler/blocks/linear.h"
#include "compiler/blocks/norm.h"
#include "compiler/ir/builder.h"

namespace gc::blocks {

struct Moe {
  Linear router;  // [experts, n_embd]
  ir::RouteArgs route;
  ir::ExpertsArgs experts;       // of [experts, n_ff, n_embd]
  ir::WeightId down, down_bias;  // [experts, n_embd, n_ff], [experts, n_embd] or none
  ir::WeightId out_scale;        // [experts], of what each gives, or none

  Linear latent_in,
      latent_out;  // around the experts, which are smaller than the model: [n, n_embd], [n_embd, n], or none
  Norm latent_norm;  // of what they give, before latent_out

  Ffn shared;  // or none
  // A shared expert whose result is multiplied by sigmoid(gate x): a mixture of one expert, its tensors those of a stack
  // of one.
  Linear shared_gate;  // [1, n_embd], or none
  ir::ExpertsArgs gated_shared;
  ir::WeightId gated_shared_down, gated_shared_scale;  // the latter [1], of what down gives, or none

  // A second mixture, of what the first one made; the same router's choice. Added times second_scale.
  ir::ExpertsArgs second;
  ir::WeightId second_down;  // none: there is none
  double second_scale = 1;

  double sum_scale = 1;  // of experts and shared expert together

  explicit operator bool() const { return router.weight.valid(); }
};

// x [T, n_embd], normed -> [T, n_embd]. `routed` is what the router sees: x, but for families that decide earlier.
ir::ValueId moe(ir::Builder& b, ir::ValueId x, ir::ValueId routed, const Moe& m, const std::string& prefix);

}  // namespace gc::blocks
