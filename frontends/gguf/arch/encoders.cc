// Encoders in the form of dense decoders (dense.h): norms before what they norm, tokens that see later ones too
// (llama-embed's where the file says so), and embeddings where decoders have their head.
#include "frontends/gguf/arch/dense.h"
#include "frontends/gguf/arch/embedding.h"

namespace gc::gguf {
namespace {

LoadedModel load(const File& file, const Form& form) {
  LoadedModel model = load_dense(file, form);
  end_before_head(Keys(file, form.name), model);
  return model;
}

}  // namespace

LoadedModel load_llama_embed(const File& file) {
  const bool causal = file.get_bool("llama-embed.attention.causal", true);
  return load(file, {.name = "llama-embed", .ahead = !causal});
}

LoadedModel load_eurobert(const File& file) {
  return load(file, {.name = "eurobert", .turn = Form::Turn::Halves, .factors = false, .ahead = true});
}

LoadedModel load_neo_bert(const File& file) {
  return load(file, {.name = "neo-bert",
                     .output_norm = "enc.output_norm",
                     .factors = false,
                     .ahead = true,
                     .gate = Form::Gate::InUp});
}

// Where the file doesn't say, two layers of three see a window.
LoadedModel load_modern_bert(const File& file) {
  Form form{.name = "modern-bert",
            .norm = blocks::Norm::Kind::Layer,
            .token_norm = "token_embd_norm",
            .first_unnormed = true,
            .turn = Form::Turn::Halves,
            .factors = false,
            .slides = true,
            .period = 3,
            .local_base = 10000,
            .first_sees_all = true,
            .ahead = true,
            .centred = true,
            .fn = ir::Fn::gelu_tanh,
            .gate = Form::Gate::InUp};
  const Keys keys(file, form.name);
  form.slides = file.get_u32(keys.full("attention.sliding_window"), 0) > 0;
  const std::string_view act = file.get_string(keys.full("hidden_activation"), "gelu");
  if (act == "silu" || act == "swish" || act == "swiglu") {
    form.fn = ir::Fn::silu;
  } else if (act != "gelu" && act != "geglu") {
    keys.unsupported("hidden_activation", "supported are gelu and silu");
  }
  return load(file, form);
}

}  // namespace gc::gguf
