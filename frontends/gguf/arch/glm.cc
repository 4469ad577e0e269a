// ChatGLM 3 and GLM 4 (chatglm), GLM 4 of 2025 (glm4): gate and up in one matrix, RoPE by pairs of half of each head.
// glm4 has norms after the blocks as well. Files of its vision models have sections of RoPE (M-RoPE) and turn by halves.
#include <algorithm>

#include "frontends/gguf/arch/dense.h"

namespace gc::gguf {
namespace {

bool has_sections(const Keys& keys) {
  const Value* sections = keys.file().find(keys.full("rope.dimension_sections"));
  if (sections == nullptr) return false;
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(2, sections->count()); ++i)
    if (sections->as_int(i).value_or(0) <= 0) return false;
  return sections->count() >= 2;
}

}  // namespace

LoadedModel load_chatglm(const File& file) {
  return load_dense(file, {.name = "chatglm", .gate = Form::Gate::InUp});
}

LoadedModel load_glm4(const File& file) {
  Form form{.name = "glm4",
            .post_attn_norm = "post_attention_norm",
            .post_ffn_norm = "post_ffw_norm",
            .gate = Form::Gate::InUp};
  if (has_sections(Keys(file, form.name))) form.turn = Form::Turn::Halves;
  return load_dense(file, form);
}

}  // namespace gc::gguf
