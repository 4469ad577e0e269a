// PLaMo: attention and gated network side by side behind one RMS norm. PLaMo 3: in turn, norms before and after, norms of
// each head of q and k, gate and up in one matrix, seven layers of windows (RoPE of base 10000) to one without. Both turn
// by halves.
#include "frontends/gguf/arch/dense.h"

namespace gc::gguf {

LoadedModel load_plamo(const File& file) {
  return load_dense(file, {.name = "plamo",
                           .ffn_norm = nullptr,
                           .turn = Form::Turn::Halves,
                           .parallel = true,
                           .head = Form::Head::Own});
}

LoadedModel load_plamo3(const File& file) {
  return load_dense(file, {.name = "plamo3",
                           .post_attn_norm = "post_attention_norm",
                           .post_ffn_norm = "post_ffw_norm",
                           .head_norms = Form::HeadNorms::Each,
                           .turn = Form::Turn::Halves,
                           .slides = true,
                           .period = 8,
                           .local_base = 10000,
                           .gate = Form::Gate::InUp});
}

}  // namespace gc::gguf
