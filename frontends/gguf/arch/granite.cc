// Granite 3 and 4 (granite, granite_swa, granitemoe) and MiniCPM: Llama's form with factors for
// the embedding, both branches of each layer, scores, and logits, which are divided by theirs. Granite files may say that
// nothing turns; MiniCPM's first files leave the factors out. granite_swa has windows in some layers and sinks.
#include <cmath>

#include "frontends/gguf/arch/dense.h"

namespace gc::gguf {

constexpr Form::Experts kExperts{.in = Form::Experts::In::IfCounted, .norm = Form::Experts::Norm::Always};

LoadedModel load_granite(const File& file) {
  Form form{.name = "granite", .scale_keys = true, .logits = Form::Logits::Over, .experts = kExperts};
  if (!file.get_bool("granite.rope.scaling.finetuned", true)) form.turn = Form::Turn::None;
  return load_dense(file, form);
}

LoadedModel load_granitemoe(const File& file) {
  return load_dense(
      file, {.name = "granitemoe", .scale_keys = true, .logits = Form::Logits::Over, .experts = kExperts});
}

LoadedModel load_granite_swa(const File& file) {
  return load_dense(file, {.name = "granite_swa",
                           .turned = Form::Turned::ByKey,
                           .slides = true,
                           .sinks = Form::Sinks::Needed,
                           .scale_keys = true,
                           .logits = Form::Logits::Over});
}

LoadedModel load_minicpm(const File& file) {
  const Keys keys(file, "minicpm");
  const auto n_layer = static_cast<double>(keys.size("block_count"));
  const auto n_embd = static_cast<double>(keys.size("embedding_length"));
  return load_dense(file, {.name = "minicpm",
                           .scale_keys = true,
                           .embedding_scale = 12,
                           .residual_scale = 1.4 / std::sqrt(n_layer),
                           .logits = Form::Logits::Over,
                           .logit_scale = 256 / n_embd,
                           .experts = kExperts});
}

}  // namespace gc::gguf
