// Mamba and Mamba 2: layers of a recurrent mixer alone. Files may count heads and hidden units that no layer has.
#include "compiler/blocks/layer.h"
#include "frontends/gguf/arch/arch.h"
#include "frontends/gguf/arch/recurrent.h"

namespace gc::gguf {
namespace {

LoadedModel load(const File& file, const char* name, decltype(&mamba_of) mixer_of) {
  // Keys.
  const Keys keys(file, name);
  std::vector<std::string> warnings;
  refuse_unknown_forms(keys);
  const DecoderSizes s = decoder_sizes(keys, kRmsEps, {.layers = true});

  // Tensors.
  ir::Builder b(std::string(name) + ".step");
  Tensors tensors(file, b);
  const ir::WeightId embedding = tensors.matrix("token_embd.weight", s.n_vocab, s.n_embd);
  std::vector<blocks::Layer> layers;
  for (std::int64_t i = 0; i < s.n_layer; ++i) {
    const std::string prefix = layer_prefix(i);
    layers.push_back({.prefix = prefix,
                      .attn_norm = tensors.rms_norm(prefix + "attn_norm", s.n_embd, s.eps),
                      .mixer = mixer_of(keys, tensors, s, prefix)});
  }
  const blocks::Norm output_norm = tensors.rms_norm("output_norm", s.n_embd, s.eps);
  const blocks::Linear head = tensors.has("output.weight") ? tensors.linear("output", s.n_vocab, s.n_embd)
                                                           : blocks::Linear{.weight = embedding};
  tensors.finish(warnings);

  // Graph. x: the residual stream [T, n_embd].
  ir::ValueId x = b.embed(embedding, "inp_embd");
  for (std::int64_t i = 0; i < s.n_layer; ++i) {
    b.begin_layer(x);
    x = layer(b, x, layers[i], i);
  }
  b.end_layers(x);
  x = norm(b, b.select(x, "outputs"), output_norm, "output_norm");  // [R, n_embd]
  b.output(linear(b, x, head, "logits"));

  return {.graph = b.take(),
          .info = model_info(keys, s, /*windows=*/{}, tensors),
          .warnings = std::move(warnings)};
}

}  // namespace

LoadedModel load_mamba(const File& file) { return load(file, "mamba", mamba_of); }
LoadedModel load_mamba2(const File& file) { return load(file, "mamba2", mamba2_of); }

}  // namespace gc::gguf
