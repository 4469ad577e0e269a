// Embeddings per layer: beside its embedding a token has a short row for each layer, which a gate lets into the residual
// at the layer's end. The rows are the token's own, from one wide table, plus a product of its embedding.
//
// Names of the values: per_layer_inputs [T, layers * width]; after the layer's prefix per_layer_input, per_layer_gate,
// per_layer_out.
#pragma once

#include <string>

#include "compiler/blocks/linear.h"
#include "compiler/blocks/norm.h"
#include "compiler/ir/builder.h"

namespace gc::blocks {

struct PerLayerInputs {
  int64_t layers = 0, width = 0;
  ir::WeightId table;  // [n_vocab, layers * width]
  Linear projection;   // [layers * width, n_embd]
  Norm norm;           // [width]
};

struct PerLayerGate {
  Linear gate;  // [width, n_embd]
  Linear out;   // [n_embd, width]
  Norm norm;    // [n_embd], after it
};

// x: the tokens' embeddings, scaled.
ir::ValueId per_layer_inputs(ir::Builder& b, ir::ValueId x, const PerLayerInputs& p);
// out(gelu(gate(x)) * the layer's row), normed: what is added to the residual.
ir::ValueId per_layer_gate(ir::Builder& b, ir::ValueId x, ir::ValueId inputs, int64_t layer,
                           const PerLayerInputs& p, const PerLayerGate& g, const std::string& prefix);

}  // namespace gc::blocks
