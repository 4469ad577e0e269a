// EXAONE 3 is Llama's form turned by halves. EXAONE 4 has its norms after the blocks and norms of each head of q and k;
// its 32B (told by 64 layers) has three layers of windows, which turn, to one that sees everything and does not.
#include "frontends/gguf/arch/dense.h"

namespace gc::gguf {

LoadedModel load_exaone(const File& file) {
  return load_dense(file, {.name = "exaone", .turn = Form::Turn::Halves});
}

LoadedModel load_exaone4(const File& file) {
  constexpr std::int64_t kLayersWithWindows = 64;
  Form form{.name = "exaone4",
            .attn_norm = nullptr,
            .post_attn_norm = "post_attention_norm",
            .ffn_norm = nullptr,
            .post_ffn_norm = "post_ffw_norm",
            .head_norms = Form::HeadNorms::Each,
            .turn = Form::Turn::Halves};
  if (Keys(file, form.name).size("block_count") == kLayersWithWindows) {
    form.turned = Form::Turned::Sliding;
    form.slides = true;
    form.default_window = 4096;
    form.period = 4;
    form.local_scaled = true;
  }
  return load_dense(file, form);
}

}  // namespace gc::gguf
