#include "compiler/blocks/per_layer.h"

#include <cmath>

namespace gc::blocks {

ir::ValueId per_layer_inputs(ir::Builder& b, ir::ValueId x, const PerLayerInputs& p) {
  const auto n_embd = static_cast<double>(b.type(x).dims.back().size);
  ir::ValueId own = b.embed(p.table, "per_layer_embd");
  own = b.scale(own, std::sqrt(static_cast<double>(p.width)), "per_layer_embd_scaled");
  ir::ValueId made =
      b.scale(linear(b, x, p.projection, "per_layer_proj"), 1 / std::sqrt(n_embd), "per_layer_proj_scaled");
  made = norm(b, b.heads(made, p.layers, "per_layer_rows"), p.norm, "per_layer_proj_norm");
  const ir::ValueId sum = b.add(b.merge_heads(made, "per_layer_proj_merged"), own, "per_layer_sum");
  return b.scale(sum, 1 / std::sqrt(2.0), "per_layer_inputs");
}

ir::ValueId per_layer_gate(ir::Builder& b, ir::ValueId x, ir::ValueId inputs, int64_t layer,
                           const PerLayerInputs& p, const PerLayerGate& g, const std::string& prefix) {
  const ir::ValueId own = b.slice(inputs, layer * p.width, p.width, prefix + "per_layer_input");
  ir::ValueId h =
      b.act(linear(b, x, g.gate, prefix + "per_layer_logits"), ir::Fn::gelu_tanh, prefix + "per_layer_gate");
  h = b.mul(h, own, prefix + "per_layer_gated");
  return norm(b, linear(b, h, g.out, prefix + "per_layer_proj"), g.norm, prefix + "per_layer_out");
}

}  // namespace gc::blocks
