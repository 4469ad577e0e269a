// Transformers some of whose layers are recurrent, told by heads without key heads: Jamba (Mamba, attention without RoPE),
// Granite 4 hybrid and Nemotron H (Mamba 2), LFM2 (short convolutions, and experts in lfm2moe); Falcon H1 has attention
// and Mamba 2 side by side in every layer. Qwen 3 Next and 3.5 and Kimi Linear correct states by the delta rule. A layer of Nemotron H is one thing alone: a mixer, attention, or a network
// (of squared ReLU) or experts, which files tell by hidden units.
#include "frontends/gguf/arch/dense.h"
#include "frontends/gguf/arch/recurrent.h"

namespace gc::gguf {
namespace {

using Experts = Form::Experts;

constexpr const char* kLfm2OutputNorm = "token_embd_norm";  // misnamed by its first converter

// Three layers of the gated delta rule to one of attention, whose q has gates; qwen35's positions turn as text's do.
LoadedModel load_qwen(const File& file, const char* name) {
  return load_dense(
      file, {.name = name,
             .ffn_norm = "post_attention_norm",
             .head_norms = Form::HeadNorms::Each,
             .turn = Form::Turn::Halves,
             .factors = false,
             .gate_in_q = true,
             .out_bias = false,
             .mixer = delta_net_of,
             .recurrent_key = true,
             .experts = {.in = Experts::In::IfCounted, .where_routed = true, .norm = Experts::Norm::Always}});
}

LoadedModel load_nemotron(const File& file, const char* name) {
  return load_dense(file, {.name = name,
                           .turn = Form::Turn::None,
                           .mixer = mamba2_of,
                           .single = true,
                           .fn = ir::Fn::relu2,
                           .gate = Form::Gate::None,
                           .experts = {.in = Experts::In::IfCounted,
                                       .where_routed = true,
                                       .weights = Experts::Weights::Sigmoid,
                                       .norm = Experts::Norm::ByKey}});
}

}  // namespace

LoadedModel load_jamba(const File& file) {
  return load_dense(file, {.name = "jamba",
                           .turn = Form::Turn::None,
                           .out_bias = false,
                           .mixer = mamba_of,
                           .experts = {.in = Experts::In::IfCounted, .where_routed = true}});
}

LoadedModel load_granitehybrid(const File& file) {
  Form form{.name = "granitehybrid",
            .mixer = mamba2_of,
            .scale_keys = true,
            .logits = Form::Logits::Over,
            .logit_scale = 1,
            .experts = {.in = Experts::In::IfCounted, .norm = Experts::Norm::Always}};
  if (!file.get_bool("granitehybrid.rope.scaling.finetuned", true)) form.turn = Form::Turn::None;
  return load_dense(file, form);
}

LoadedModel load_qwen3next(const File& file) { return load_qwen(file, "qwen3next"); }
LoadedModel load_qwen35(const File& file) { return load_qwen(file, "qwen35"); }
LoadedModel load_qwen35moe(const File& file) { return load_qwen(file, "qwen35moe"); }

LoadedModel load_falcon_h1(const File& file) {
  return load_dense(file, {.name = "falcon-h1",
                           .turn = Form::Turn::Halves,
                           .factors = false,
                           .out_bias = false,
                           .mixer = mamba2_of,
                           .mixer_beside = true,
                           .scale_keys = true});
}

LoadedModel load_nemotron_h(const File& file) { return load_nemotron(file, "nemotron_h"); }
LoadedModel load_nemotron_h_moe(const File& file) { return load_nemotron(file, "nemotron_h_moe"); }

LoadedModel load_kimi_linear(const File& file) {
  return load_dense(file, {.name = "kimi-linear",
                           .turned = Form::Turned::Never,
                           .factors = false,
                           .out_bias = false,
                           .latent = {.there = true},
                           .mixer = kda_of,
                           .experts = {.in = Experts::In::IfCounted,
                                       .dense_lead = true,
                                       .weights = Experts::Weights::ByKey,
                                       .norm = Experts::Norm::Always}});
}

// Kimi Linear with gates of attention, a bound of decays, experts that work in a smaller space between two products, an
// activation function whose both sides saturate, and branches that read the residual streams of earlier blocks of layers.
LoadedModel load_kimi_k3(const File& file) {
  return load_dense(file, {.name = "kimi-k3",
                           .turned = Form::Turned::Never,
                           .factors = false,
                           .out_bias = false,
                           .gates = Form::Gates::OfValues,
                           .latent = {.there = true},
                           .mixer = kda_of,
                           .fn = ir::Fn::sigmoid,
                           .residuals = true,
                           .situ = true,
                           .head = Form::Head::Own,
                           .experts = {.in = Experts::In::IfCounted,
                                       .dense_lead = true,
                                       .weights = Experts::Weights::ByKey,
                                       .norm = Experts::Norm::ByKey}});
}

// Kimi Linear with latent queries that turn, gates of attention, and bounds of decays and of networks. Sections of RoPE are
// for images: text has the same position in all, and turns by halves then.
LoadedModel load_bailingmoe3(const File& file) {
  const Value* sections = file.find("bailingmoe3.rope.dimension_sections");
  bool any = false;
  for (std::uint64_t i = 0; sections != nullptr && i < sections->count(); ++i)
    any = any || sections->as_int(i).value_or(0) != 0;
  return load_dense(file, {.name = "bailingmoe3",
                           .turn = any ? Form::Turn::Halves : Form::Turn::Pairs,
                           .factors = false,
                           .out_bias = false,
                           .gates = Form::Gates::OfHeads,
                           .latent = {.there = true},
                           .mixer = kda_of,
                           .experts = {.in = Experts::In::IfCounted,
                                       .dense_lead = true,
                                       .weights = Experts::Weights::ByKey,
                                       .norm = Experts::Norm::ByKey,
                                       .limits_of_layers = true}});
}

// Kimi Linear with latent attention whose heads have no positions at all, four residual streams that mix, and an indexer
// that chooses among pools of positions: up to indexer.top_k all are seen.
LoadedModel load_glm5_next(const File& file) {
  const Keys keys(file, "glm5-next");
  const std::string tail = keys.full("attention.indexer.kpool_select_tail");
  if (!file.get_bool(tail, false))
    keys.unsupported("attention.indexer.kpool_select_tail",
                     "true alone is supported: positions are seen as soon as they are there");
  return load_dense(file, {.name = "glm5-next",
                           .turn = Form::Turn::None,
                           .factors = false,
                           .out_bias = false,
                           .reach = keys.size("attention.indexer.top_k"),
                           .indexed = true,
                           .latent = {.there = true},
                           .mixer = kda_of,
                           .hyper_mixes = true,
                           .head = Form::Head::Own,
                           .experts = {.in = Experts::In::IfCounted,
                                       .dense_lead = true,
                                       .weights = Experts::Weights::ByKey,
                                       .sigmoid_unless_said = true,
                                       .norm = Experts::Norm::ByKey,
                                       .limits_of_layers = true,
                                       .limits_before_fn = true,
                                       .shared_limits_default = true}});
}

LoadedModel load_plamo2(const File& file) {
  return load_dense(file, {.name = "plamo2",
                           .post_attn_norm = "post_attention_norm",
                           .post_ffn_norm = "post_ffw_norm",
                           .head_norms = Form::HeadNorms::OwnWeights,
                           .turn = Form::Turn::Halves,
                           .factors = false,
                           .out_bias = false,
                           .mixer = plamo2_mamba_of,
                           .gate = Form::Gate::InUp});
}

LoadedModel load_lfm2(const File& file) {
  return load_dense(file, {.name = "lfm2",
                           .output_norm = kLfm2OutputNorm,
                           .head_norms = Form::HeadNorms::Each,
                           .turn = Form::Turn::Halves,
                           .slides = true,
                           .period = 0,
                           .local_scaled = true,
                           .out_bias = false,
                           .mixer = short_conv_of});
}

LoadedModel load_lfm2moe(const File& file) {
  return load_dense(file, {.name = "lfm2moe",
                           .output_norm = kLfm2OutputNorm,
                           .head_norms = Form::HeadNorms::Each,
                           .turn = Form::Turn::Halves,
                           .out_bias = false,
                           .mixer = short_conv_of,
                           .experts = {.in = Experts::In::IfCounted,
                                       .dense_lead = true,
                                       .weights = Experts::Weights::ByKey,
                                       .norm = Experts::Norm::Always}});
}

}  // namespace gc::gguf
