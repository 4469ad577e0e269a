// Qwen 1 to 3, dense: RMS norms before each block, RoPE by halves, SiLU-gated feed-forward network. Qwen 1 and 2 have
// biases on q, k and v, Qwen 3 norms of each head of q and k. Qwen 1 files give twice the hidden units of the gated
// network. The vision models' three position axes (M-RoPE) are one for text, so their text model turns like the others.
#include "frontends/gguf/arch/dense.h"

namespace gc::gguf {

using Turn = Form::Turn;
using HeadNorms = Form::HeadNorms;

LoadedModel load_qwen(const File& file) {
  return load_dense(file, {.name = "qwen", .turn = Turn::Halves, .ff_divisor = 2, .head = Form::Head::Own});
}

LoadedModel load_qwen2(const File& file) { return load_dense(file, {.name = "qwen2", .turn = Turn::Halves}); }

LoadedModel load_qwen2vl(const File& file) {
  return load_dense(file, {.name = "qwen2vl", .zero_eps = true, .turn = Turn::Halves, .head_bias = false});
}

LoadedModel load_qwen3(const File& file) {
  return load_dense(file, {.name = "qwen3", .head_norms = HeadNorms::Each, .turn = Turn::Halves});
}

LoadedModel load_qwen3vl(const File& file) {
  return load_dense(file, {.name = "qwen3vl", .head_norms = HeadNorms::Each, .turn = Turn::Halves});
}

LoadedModel load_qwen3tts(const File& file) {
  return load_dense(file, {.name = "qwen3tts", .head_norms = HeadNorms::Each, .turn = Turn::Halves});
}

}  // namespace gc::gguf
