// Command R and R+ (command-r), Command R7B and A (cohere2): layer norms without biases, attention and gated network side
// by side behind one norm, tied head, logits times a factor. R+ (told by its 64 layers) has norms of q and k with weights
// of their own for each head. cohere2 has three layers of windows to one that sees everything and does not turn.
#include "frontends/gguf/arch/dense.h"

namespace gc::gguf {

LoadedModel load_command_r(const File& file) {
  constexpr std::int64_t kLayersOfPlus = 64;
  Form form{.name = "command-r",
            .norm = blocks::Norm::Kind::Layer,
            .ffn_norm = nullptr,
            .parallel = true,
            .logits = Form::Logits::TimesIfThere,
            .head = Form::Head::Tied};
  if (Keys(file, form.name).size("block_count") >= kLayersOfPlus)
    form.head_norms = Form::HeadNorms::OwnWeights;
  return load_dense(file, form);
}

LoadedModel load_cohere2(const File& file) {
  return load_dense(file, {.name = "cohere2",
                           .norm = blocks::Norm::Kind::Layer,
                           .ffn_norm = nullptr,
                           .turned = Form::Turned::Sliding,
                           .slides = true,
                           .period = 4,
                           .local_scaled = true,
                           .parallel = true,
                           .logits = Form::Logits::Times,
                           .head = Form::Head::Tied});
}

}  // namespace gc::gguf
