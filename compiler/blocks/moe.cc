#include "compiler/blocks/moe.h"

namespace gc::blocks {
namespace {

// Routing weights times a factor of each expert, where there are factors.
ir::ValueId scaled(ir::Builder& b, ir::ValueId weights, ir::WeightId factors, const std::string& name) {
  return factors.valid() ? b.weigh(weights, factors, name) : weights;
}

ir::ValueId gated_shared(ir::Builder& b, ir::ValueId x, const Moe& m, const std::string& prefix) {
  const ir::ValueId gate = linear(b, x, m.shared_gate, prefix + "ffn_shexp_logit");
  const ir::ValueId weight =
      b.route(gate, {.used = 1, .weights = ir::RouteArgs::Weights::Sigmoid}, prefix + "ffn_shexp_gate");
  const ir::ValueId h = b.experts_in(x, weight, m.gated_shared, prefix + "ffn_shexp_act");
  const ir::ValueId out_weight = scaled(b, weight, m.gated_shared_scale, prefix + "ffn_shexp_out_gate");
  return b.experts_out(h, out_weight, m.gated_shared_down, {}, /*weigh=*/true, prefix + "ffn_shexp_out");
}

}  // namespace

ir::ValueId moe(ir::Builder& b, ir::ValueId x, ir::ValueId routed, const Moe& m, const std::string& prefix) {
  const ir::ValueId logits = linear(b, routed, m.router, prefix + "ffn_moe_logits");
  const ir::ValueId weights = b.route(logits, m.route, prefix + "ffn_moe_weights");
  const ir::ValueId seen = m.latent_in ? linear(b, x, m.latent_in, prefix + "ffn_latent") : x;
  const ir::ValueId h = b.experts_in(seen, weights, m.experts, prefix + "ffn_moe_act");
  const ir::ValueId out_weights = scaled(b, weights, m.out_scale, prefix + "ffn_moe_out_weights");
  ir::ValueId y =
      b.experts_out(h, out_weights, m.down, m.down_bias, !m.experts.weigh, prefix + "ffn_moe_out");
  if (m.second_down.valid()) {
    const ir::ValueId second = b.experts_in(y, weights, m.second, prefix + "ffn_moe_second_act");
    const ir::ValueId z =
        b.experts_out(second, weights, m.second_down, {}, /*weigh=*/true, prefix + "ffn_moe_second");
    y = b.add(y, b.scale(z, m.second_scale, prefix + "ffn_moe_second_scaled"), prefix + "ffn_moe_both");
  }
  y = norm(b, y, m.latent_norm, prefix + "ffn_latent_norm");
  if (m.latent_out) y = linear(b, y, m.latent_out, prefix + "ffn_latent_out");
  if (m.shared) {
    y = b.add(y, ffn(b, x, m.shared, prefix + "ffn_shexp_"), prefix + "ffn_moe_sum");
  } else if (m.shared_gate) {
    y = b.add(y, gated_shared(b, x, m, prefix), prefix + "ffn_moe_sum");
  }
  return m.sum_scale == 1 ? y : b.scale(y, m.sum_scale, prefix + "ffn_moe_scaled");
}

}  // namespace gc::blocks
