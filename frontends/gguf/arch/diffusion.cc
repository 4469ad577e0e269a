// Models that fill in masked tokens of a whole text, whose tokens attend to later ones too: other families' forms
// otherwise. What they give for a text is logits of all positions; they generate nothing token by token.
#include "frontends/gguf/arch/dense.h"

namespace gc::gguf {

using Experts = Form::Experts;

LoadedModel load_dream(const File& file) {  // Qwen 2's form
  return load_dense(
      file,
      {.name = "dream", .turn = Form::Turn::Halves, .factors = false, .ahead = true, .head_bias = false});
}

LoadedModel load_llada(const File& file) {  // Llama's
  return load_dense(file,
                    {.name = "llada", .factors = false, .ahead = true, .out_bias = false, .ffn_bias = false});
}

LoadedModel load_llada_moe(const File& file) {  // OLMoE's, with norms of each head
  return load_dense(file, {.name = "llada-moe",
                           .head_norms = Form::HeadNorms::Each,
                           .turn = Form::Turn::Halves,
                           .factors = false,
                           .ahead = true,
                           .out_bias = false,
                           .head = Form::Head::Own,
                           .experts = {.in = Experts::In::Layers}});
}

LoadedModel load_rnd1(const File& file) {  // Qwen 3's with experts
  return load_dense(file, {.name = "rnd1",
                           .head_norms = Form::HeadNorms::Each,
                           .turn = Form::Turn::Halves,
                           .factors = false,
                           .ahead = true,
                           .experts = {.in = Experts::In::Layers, .norm = Experts::Norm::Always}});
}

}  // namespace gc::gguf
