// Latent attention (compiler/blocks/latent.h) with experts behind the first layers: DeepSeek 2, 3 and R1, Kimi K2, GLM 4.7
// Flash, Mistral 4, and with sparse attention DeepSeek 3.2, GLM 5, dots3; MiniCPM 3 has it in a dense model with factors
// that its files don't name, PLM in one without gates. Older files have attn_kv_b, from which each head's keys and values
// are made; those of today its two halves, which are multiplied into the query and into what comes out, so that the latent
// alone is kept.
#include <cmath>

#include "frontends/gguf/arch/dense.h"

namespace gc::gguf {

namespace {

Form deepseek_form(const File& file, const char* name) {
  // GLM 4.7 Flash, whose files may not name its gating function, is told by its sizes.
  constexpr std::int64_t kLayersOfFlash = 47, kTokensOfFlash = 154880;
  const Keys keys(file, name);
  const std::int64_t n_layer = keys.size("block_count") - keys.predictors();
  const Tensor* embedding = file.find_tensor("token_embd.weight");
  const bool flash = (n_layer == kLayersOfFlash || n_layer == kLayersOfFlash + 1) && embedding != nullptr &&
                     embedding->ne[1] == kTokensOfFlash;
  return {.name = name,
          .factors = false,
          .temper_key = true,
          .out_bias = false,
          .latent = {.there = true, .stretched = true},
          .experts = {.in = Form::Experts::In::Layers,
                      .dense_lead = true,
                      .weights = Form::Experts::Weights::ByKey,
                      .sigmoid_unless_said = flash,
                      .norm = Form::Experts::Norm::ByKey}};
}

}  // namespace

LoadedModel load_deepseek2(const File& file) { return load_dense(file, deepseek_form(file, "deepseek2")); }
LoadedModel load_mistral4(const File& file) { return load_dense(file, deepseek_form(file, "mistral4")); }

LoadedModel load_deepseek32(const File& file) {
  Form form = deepseek_form(file, "deepseek32");
  form.indexer = {.there = true};
  return load_dense(file, form);
}

LoadedModel load_glm_dsa(const File& file) {
  Form form = deepseek_form(file, "glm-dsa");
  form.indexer = {.there = true, .owners = Form::Indexer::Owners::Fourth, .turn = Form::Turn::Pairs};
  form.experts.sigmoid_unless_said = true;
  return load_dense(file, form);
}

// Layers with windows, whose heads have sizes of their own, between those with an indexer; a gate on each head's output;
// what turns of the key is normed.
LoadedModel load_dots3note(const File& file) {
  Form form = deepseek_form(file, "dots3note");
  const Keys keys(file, form.name);
  keys.need_window_pattern();
  form.slides = form.local_scaled = true;
  form.temper_key = false;
  form.gates = Form::Gates::OfHeads;
  form.indexer = {.there = true, .owners = Form::Indexer::Owners::ByKey};
  form.latent = {.there = true, .key_norm = true, .local_sizes = true};
  return load_dense(file, form);
}

// Several residual streams; gates of each value that attention gives; bounded experts. Files without an indexer see all.
LoadedModel load_hy_v4(const File& file) {
  Form form = deepseek_form(file, "hy_v4");
  const Keys keys(file, form.name);
  form.temper_key = false;
  form.gates = Form::Gates::OfValues;
  form.sinks = Form::Sinks::IfThere;
  if (file.get_u32(keys.full("attention.indexer.top_k"), 0) > 0)
    form.indexer = {.there = true,
                    .owners = Form::Indexer::Owners::ByKey,
                    .turn = Form::Turn::Pairs,
                    .turns_end = true,
                    .eps = 0};
  form.latent = {.there = true};
  form.hyper = true;
  form.head = Form::Head::Own;
  form.experts.limit_key = true;
  return load_dense(file, form);
}

// A query without a latent, squared ReLU without a gate.
LoadedModel load_plm(const File& file) {
  return load_dense(file, {.name = "plm",
                           .factors = false,
                           .out_bias = false,
                           .latent = {.there = true},
                           .fn = ir::Fn::relu2,
                           .gate = Form::Gate::None,
                           .head = Form::Head::Tied});
}

LoadedModel load_minicpm3(const File& file) {
  constexpr double kEmbeddingScale = 12, kDepth = 1.4, kBase = 256;
  const Keys keys(file, "minicpm3");
  return load_dense(file,
                    {.name = "minicpm3",
                     .turn = Form::Turn::Halves,
                     .out_bias = false,
                     .latent = {.there = true},
                     .embedding_scale = kEmbeddingScale,
                     .residual_scale = kDepth / std::sqrt(static_cast<double>(keys.size("block_count"))),
                     .logits = Form::Logits::Fixed,
                     .logit_scale = kBase / static_cast<double>(keys.size("embedding_length"))});
}

}  // namespace gc::gguf
