// OLMo: layer norms without weights, q, k and v clamped where the file says so. OLMo 2 and 3: RMS norms after the blocks
// and none before, norms of q and k over all heads together, RoPE by halves; OLMo 3 has three layers of windows, whose
// RoPE is not stretched, to one without.
#include "frontends/gguf/arch/dense.h"

namespace gc::gguf {

LoadedModel load_olmo(const File& file) {
  return load_dense(
      file, {.name = "olmo", .norm = blocks::Norm::Kind::Layer, .norm_weights = false, .clamp_key = true});
}

LoadedModel load_olmo2(const File& file) {
  return load_dense(file, {.name = "olmo2",
                           .attn_norm = nullptr,
                           .post_attn_norm = "post_attention_norm",
                           .ffn_norm = nullptr,
                           .post_ffn_norm = "post_ffw_norm",
                           .head_norms = Form::HeadNorms::Whole,
                           .turn = Form::Turn::Halves,
                           .slides = true,
                           .period = 4,
                           .head = Form::Head::Own});
}

}  // namespace gc::gguf
