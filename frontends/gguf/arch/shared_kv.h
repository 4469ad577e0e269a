// Gemma 3n and 4: layers without keys and values of their own, and embeddings per layer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/blocks/attention.h"
#include "compiler/blocks/per_layer.h"
#include "frontends/gguf/arch/decoder.h"
#include "frontends/gguf/arch/keys.h"
#include "frontends/gguf/arch/tensors.h"

namespace gc::gguf {

// Of the last attention.shared_kv_layers layers each sees what the last layer before them keeps that slides as it does.
class SharedKv {
 public:
  struct Layer {
    bool own = true;
    ir::StateId state;
  };

  // `own_layers`: how many have keys where the file doesn't say.
  SharedKv(const Keys& keys, const std::vector<std::int64_t>& windows, std::int64_t own_layers);
  bool has_own(std::int64_t layer) const { return layer < own_layers_; }
  // The layer whose keys and values layer `layer` sees.
  std::int64_t source(std::int64_t layer) const;
  // What layer `layer` keeps or sees, from what those before it do.
  Layer layer(ir::Builder& b, std::int64_t layer, const blocks::Attention& a,
              const std::vector<Layer>& before) const;

 private:
  std::int64_t own_layers_;
  std::vector<bool> slides_;
};

blocks::PerLayerInputs per_layer_inputs_of(Tensors& tensors, const DecoderSizes& s, std::int64_t width);
blocks::PerLayerGate per_layer_gate_of(Tensors& tensors, const std::string& prefix, const DecoderSizes& s,
                                       std::int64_t width);

}  // namespace gc::gguf
