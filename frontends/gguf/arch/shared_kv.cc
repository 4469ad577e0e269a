#include "frontends/gguf/arch/shared_kv.h"

#include "compiler/base/strings.h"

namespace gc::gguf {

SharedKv::SharedKv(const Keys& keys, const std::vector<std::int64_t>& windows, std::int64_t own_layers)
    : own_layers_(own_layers) {
  const char* key = "attention.shared_kv_layers";
  const auto n_layer = static_cast<std::int64_t>(windows.size());
  if (keys.has(key)) {
    const std::int64_t shared = keys.file().get_u32(keys.full(key), 0);
    if (shared >= n_layer)
      keys.fail(key, cat("expected fewer than the ", n_layer, " layers, found ", shared));
    own_layers_ = n_layer - shared;
  }
  for (const std::int64_t window : windows) slides_.push_back(window > 0);
  for (std::int64_t i = own_layers_; i < n_layer; ++i)
    if (source(i) < 0)
      keys.fail(key, cat("layer ", i, " has no layer before it that keeps keys and ",
                         slides_[i] ? "slides" : "sees all"));
}

std::int64_t SharedKv::source(std::int64_t layer) const {
  std::int64_t at = own_layers_ - 1;
  while (at >= 0 && slides_[at] != slides_[layer]) --at;
  return at;
}

SharedKv::Layer SharedKv::layer(ir::Builder& b, std::int64_t layer, const blocks::Attention& a,
                                const std::vector<Layer>& before) const {
  if (has_own(layer)) return {true, kv_state(b, layer, a.shape, a.window)};
  return {false, before[source(layer)].state};
}

blocks::PerLayerInputs per_layer_inputs_of(Tensors& tensors, const DecoderSizes& s, std::int64_t width) {
  return {.layers = s.n_layer,
          .width = width,
          .table = tensors.matrix("per_layer_token_embd.weight", s.n_vocab, width * s.n_layer),
          .projection = tensors.linear("per_layer_model_proj", width * s.n_layer, s.n_embd),
          .norm = tensors.rms_norm("per_layer_proj_norm", width, s.eps)};
}

blocks::PerLayerGate per_layer_gate_of(Tensors& tensors, const std::string& prefix, const DecoderSizes& s,
                                       std::int64_t width) {
  return {.gate = tensors.linear(prefix + "inp_gate", width, s.n_embd),
          .out = tensors.linear(prefix + "proj", s.n_embd, width),
          .norm = tensors.rms_norm(prefix + "post_norm", s.n_embd, s.eps)};
}

}  // namespace gc::gguf
