// Starling, a made-up architecture: Qwen 3 (norms of q and k of each head, RoPE by halves) with squared ReLU and no gate,
// three layers of windows of 1024 to one that sees everything and has no RoPE, the embedding normed, and logits times a
// factor. frontends/gguf/arch/README.md leads here from that sentence.
#include "frontends/gguf/arch/dense.h"

namespace gc::gguf {

LoadedModel load_starling(const File& file) {
  return load_dense(file, {.name = "starling",
                           .token_norm = "token_embd_norm",
                           .head_norms = Form::HeadNorms::Each,
                           .turn = Form::Turn::Halves,
                           .turned = Form::Turned::Sliding,
                           .slides = true,
                           .default_window = 1024,
                           .period = 4,
                           .local_scaled = true,
                           .fn = ir::Fn::relu2,
                           .gate = Form::Gate::None,
                           .logits = Form::Logits::Times});
}

}  // namespace gc::gguf
