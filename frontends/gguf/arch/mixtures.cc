// Decoders whose layers have experts in place of a feed-forward network (all or some layers), else of the dense form.
// Families differ in how a token's experts are weighed:
//
//   softmax over all experts     as it is: Qwen 2, OLMoE, DeepSeek 1, Ling 1; over its sum: the others
//   softmax over the chosen      gpt-oss
//   sigmoid of each              chosen with a bias that the weight doesn't have: dots, GLM 4.5, Ling 2, MiniMax M2;
//                                Llama 4, whose weight counts before the activation function, not after the down product
//
// Files name the function by a number where a family has several. gpt-oss bounds gate and up, whose product is
// gate * sigmoid(1.702 gate) * (up + 1); its layers turn alternate windows, and each head has a sink. Arctic's experts
// stand beside the whole layer, whose dense network they don't replace. SmallThinker decides by what enters the layer,
// before attention.
#include <cmath>
#include <numbers>

#include "frontends/gguf/arch/dense.h"

namespace gc::gguf {

using Turn = Form::Turn;
using HeadNorms = Form::HeadNorms;
using Experts = Form::Experts;
using In = Experts::In;
using Weights = Experts::Weights;
using Norm = Experts::Norm;

LoadedModel load_qwen2moe(const File& file) {
  return load_dense(file, {.name = "qwen2moe",
                           .turn = Turn::Halves,
                           .out_bias = false,
                           .head = Form::Head::Own,
                           .experts = {.in = In::Layers}});
}

LoadedModel load_qwen3moe(const File& file) {
  return load_dense(file, {.name = "qwen3moe",
                           .head_norms = HeadNorms::Each,
                           .turn = Turn::Halves,
                           .experts = {.in = In::Layers, .norm = Norm::Always}});
}

LoadedModel load_qwen3vlmoe(const File& file) {
  return load_dense(file, {.name = "qwen3vlmoe",
                           .head_norms = HeadNorms::Each,
                           .turn = Turn::Halves,
                           .experts = {.in = In::Layers, .norm = Norm::Always}});
}

LoadedModel load_gpt_oss(const File& file) {
  return load_dense(
      file, {.name = "gpt-oss",
             .ffn_norm = "post_attention_norm",
             .turn = Turn::Halves,
             .slides = true,
             .period = 2,
             .local_scaled = true,
             .sinks = Form::Sinks::Needed,
             .fn = ir::Fn::gelu_quick,
             .experts = {.in = In::Layers, .weights = Weights::SoftmaxOfChosen, .limit = 7, .up_add = 1}});
}

LoadedModel load_olmoe(const File& file) {
  return load_dense(file, {.name = "olmoe",
                           .head_norms = HeadNorms::Whole,
                           .turn = Turn::Halves,
                           .out_bias = false,
                           .head = Form::Head::Own,
                           .experts = {.in = In::Layers}});
}

LoadedModel load_deepseek(const File& file) {
  return load_dense(
      file, {.name = "deepseek", .out_bias = false, .experts = {.in = In::Layers, .dense_lead = true}});
}

LoadedModel load_dots1(const File& file) {
  return load_dense(
      file,
      {.name = "dots1",
       .head_norms = HeadNorms::Each,
       .turn = Turn::Halves,
       .out_bias = false,
       .experts = {.in = In::Layers, .dense_lead = true, .weights = Weights::ByKey, .norm = Norm::ByKey}});
}

LoadedModel load_ernie4_5_moe(const File& file) {
  return load_dense(file,
                    {.name = "ernie4_5-moe",
                     .out_bias = false,
                     .experts = {.in = In::Layers, .dense_lead = true, .step = true, .norm = Norm::Always}});
}

LoadedModel load_glm4moe(const File& file) {
  return load_dense(file, {.name = "glm4moe",
                           .ffn_norm = "post_attention_norm",
                           .head_norms = HeadNorms::EachIfThere,
                           .turn = Turn::Halves,
                           .out_bias = false,
                           .experts = {.in = In::Layers,
                                       .dense_lead = true,
                                       .weights = Weights::ByKey,
                                       .sigmoid_unless_said = true,
                                       .norm = Norm::ByKey}});
}

LoadedModel load_hunyuan_moe(const File& file) {
  return load_dense(file, {.name = "hunyuan-moe",
                           .head_norms = HeadNorms::EachTurned,
                           .turn = Turn::Halves,
                           .experts = {.in = In::Layers, .norm = Norm::Always}});
}

LoadedModel load_bailingmoe(const File& file) {
  return load_dense(file, {.name = "bailingmoe", .experts = {.in = In::Layers, .norm = Norm::ByKey}});
}

LoadedModel load_bailingmoe2(const File& file) {
  return load_dense(
      file,
      {.name = "bailingmoe2",
       .head_norms = HeadNorms::Each,
       .turn = Turn::Halves,
       .experts = {.in = In::Layers, .dense_lead = true, .weights = Weights::ByKey, .norm = Norm::ByKey}});
}

LoadedModel load_minimax_m2(const File& file) {
  return load_dense(
      file,
      {.name = "minimax-m2",
       .head_norms = HeadNorms::Whole,
       .turn = Turn::Halves,
       .out_bias = false,
       .experts = {
           .in = In::Layers, .weights = Weights::ByKey, .sigmoid_unless_said = true, .norm = Norm::Always}});
}

LoadedModel load_dbrx(const File& file) {
  return load_dense(file, {.name = "dbrx",
                           .norm = blocks::Norm::Kind::Layer,
                           .ffn_norm = "attn_output_norm",
                           .turn = Turn::Halves,
                           .clamp_key = true,
                           .out_bias = false,
                           .experts = {.in = In::Layers, .norm = Norm::Always}});
}

LoadedModel load_arctic(const File& file) {
  return load_dense(file,
                    {.name = "arctic",
                     .out_bias = false,
                     .experts = {.in = In::Layers, .norm = Norm::Always, .dense = Experts::Dense::Before}});
}

LoadedModel load_smallthinker(const File& file) {
  const Keys keys(file, "smallthinker");
  const bool slides = file.get_u32(keys.full("attention.sliding_window"), 0) > 0;
  if (slides) keys.need_window_pattern();
  return load_dense(
      file,
      {.name = "smallthinker",
       .turn = Turn::Halves,
       .turned = slides ? Form::Turned::Sliding : Form::Turned::All,
       .slides = slides,
       .out_bias = false,
       .fn = ir::Fn::relu,
       .experts = {.in = In::Layers, .weights = Weights::ByKey, .norm = Norm::Always, .early_router = true}});
}

LoadedModel load_hy_v3(const File& file) {
  return load_dense(file, {.name = "hy_v3",
                           .head_norms = HeadNorms::Each,
                           .turn = Turn::Halves,
                           .experts = {.in = In::Layers,
                                       .where_routed = true,
                                       .weights = Weights::ByKey,
                                       .sigmoid_unless_said = true,
                                       .norm = Norm::ByKey}});
}

LoadedModel load_mellum(const File& file) {
  const bool slides = file.get_u32("mellum.attention.sliding_window", 0) > 0;
  return load_dense(file, {.name = "mellum",
                           .head_norms = HeadNorms::Each,
                           .turn = Turn::Halves,
                           .slides = slides,
                           .period = 4,
                           .experts = {.in = In::Layers, .norm = Norm::Always}});
}

LoadedModel load_exaone_moe(const File& file) {
  return load_dense(
      file,
      {.name = "exaone-moe",
       .head_norms = HeadNorms::Each,
       .turn = Turn::Halves,
       .turned = Form::Turned::Sliding,
       .slides = true,
       .period = 4,
       .local_scaled = true,
       .out_bias = false,
       .experts = {.in = In::Layers, .where_routed = true, .weights = Weights::ByKey, .norm = Norm::ByKey}});
}

LoadedModel load_afmoe(const File& file) {
  const Keys keys(file, "afmoe");
  return load_dense(file, {.name = "afmoe",
                           .post_attn_norm = "post_attention_norm",
                           .post_ffn_norm = "post_ffw_norm",
                           .head_norms = HeadNorms::Each,
                           .turn = Turn::Halves,
                           .turned = Form::Turned::NotEveryFourth,
                           .slides = file.get_u32(keys.full("attention.sliding_window"), 0) > 0,
                           .period = 4,
                           .local_scaled = true,
                           .out_bias = false,
                           .gates = Form::Gates::OfValues,
                           .embedding_scale = std::sqrt(static_cast<double>(keys.size("embedding_length"))),
                           .experts = {.in = In::Layers,
                                       .dense_lead = true,
                                       .weights = Weights::ByKey,
                                       .sigmoid_unless_said = true,
                                       .norm = Norm::ByKey}});
}

LoadedModel load_maple(const File& file) {
  return load_dense(file, {.name = "maple",
                           .head_norms = HeadNorms::Each,
                           .turn = Turn::Halves,
                           .turned = Form::Turned::Sliding,
                           .slides = true,
                           .local_scaled = true,
                           .out_bias = false,
                           .experts = {.in = In::Layers, .norm = Norm::Always, .limit_key = true}});
}

// Scores are capped and scaled by keys of their own; the dense network beside the experts makes half of the variance.
LoadedModel load_grok(const File& file) {
  const Keys keys(file, "grok");
  keys.refuse_unless_zero("final_logit_softcapping", "a softcap of the logits");
  keys.refuse_unless_zero("attention.temperature_length", "scaling of scores by position");
  const bool own_name = file.find_tensor("blk.0.layer_output_norm.weight") != nullptr;
  return load_dense(file, {.name = "grok",
                           .post_attn_norm = "attn_output_norm",
                           .post_ffn_norm = own_name ? "layer_output_norm" : "post_ffw_norm",
                           .turn = Turn::Halves,
                           .out_bias = false,
                           .score_scale = keys.positive("attention.output_scale", 0.08838834764831845),
                           .score_cap = keys.factor("attn_logit_softcapping", 30),
                           .fn = ir::Fn::gelu_tanh,
                           .scale_keys = true,
                           .embedding_scale = 78.38367176906169,
                           .logits = Form::Logits::Times,
                           .logit_scale = 0.5773502691896257,
                           .experts = {.in = In::Layers,
                                       .norm = Norm::Always,
                                       .dense = Experts::Dense::Added,
                                       .sum_scale = std::numbers::sqrt2 / 2}});
}

// Three layers of four turn and see their chunk of 8192 positions, which is all positions up to there: further ones are
// refused. Scout norms what it turned, Maverick doesn't: told by its 128 experts.
LoadedModel load_llama4(const File& file) {
  constexpr std::int64_t kChunk = 8192, kExpertsOfMaverick = 128;
  const Keys keys(file, "llama4");
  if (file.get_u32(keys.full("attention.sliding_window"), kChunk) == 0)
    keys.unsupported("attention.sliding_window", "a form without chunks is not supported");
  return load_dense(
      file, {.name = "llama4",
             .turned = Form::Turned::NotEveryFourth,
             .slides = false,
             .out_bias = false,
             .plain_turned_norms = keys.size("expert_count") != kExpertsOfMaverick,
             .unturned_temper_period = kChunk,
             .reach = kChunk,
             .experts = {.in = In::Layers, .step = true, .weights = Weights::Sigmoid, .weigh_input = true}});
}

// Gates of attention's output by softplus, of each head or of each value; sliding layers turn dimensions of their own.
LoadedModel load_laguna(const File& file) {
  const Keys keys(file, "laguna");
  return load_dense(file, {.name = "laguna",
                           .head_norms = HeadNorms::Each,
                           .turn = Turn::Halves,
                           .factors = false,
                           .slides = file.get_u32(keys.full("attention.sliding_window"), 0) > 0,
                           .period = 4,
                           .first_sees_all = true,
                           .local_dims = true,
                           .out_bias = false,
                           .gates = Form::Gates::OfEither,
                           .gate_fn = ir::Fn::softplus,
                           .experts = {.in = In::Layers,
                                       .dense_lead = true,
                                       .weights = Weights::ByKey,
                                       .sigmoid_unless_said = true,
                                       .norm = Norm::ByKey}});
}

LoadedModel load_mimo2(const File& file) {
  const Keys keys(file, "mimo2");
  keys.need_window_pattern();
  return load_dense(
      file, {.name = "mimo2",
             .turn = Turn::Halves,
             .factors = false,
             .slides = true,
             .local_scaled = true,
             .sinks = Form::Sinks::IfThere,
             .qkv_bias = false,
             .out_bias = false,
             .value_scale_key = true,
             .head = Form::Head::Own,
             .experts = {
                 .in = In::Layers, .where_routed = true, .weights = Weights::Sigmoid, .norm = Norm::Always}});
}

// Layers that see everything turn half as many dimensions as sliding ones, and they alone by the file's factors.
LoadedModel load_step35(const File& file) {
  const Keys keys(file, "step35");
  keys.need_window_pattern();
  return load_dense(file, {.name = "step35",
                           .head_norms = HeadNorms::EachIfThere,
                           .turn = Turn::Halves,
                           .slides = true,
                           .local_scaled = true,
                           .local_dims = true,
                           .half_dims = true,
                           .out_bias = false,
                           .gates = Form::Gates::OfHeads,
                           .ffn_bias = false,
                           .head = Form::Head::Own,
                           .experts = {.in = In::Layers,
                                       .where_routed = true,
                                       .weights = Weights::ByKey,
                                       .sigmoid_unless_said = true,
                                       .norm = Norm::ByKey,
                                       .limits_of_layers = true}});
}

// Beyond the first layers, tokens see only the blocks of positions that an indexer ranks best, which are all of them up
// to indexer.top_k blocks: further positions are refused.
LoadedModel load_minimax_m3(const File& file) {
  const Keys keys(file, "minimax-m3");
  const std::int64_t reach = keys.size("attention.indexer.top_k") * keys.size("attention.indexer.block_size");
  return load_dense(file, {.name = "minimax-m3",
                           .head_norms = HeadNorms::Each,
                           .turn = Turn::Halves,
                           .factors = false,
                           .out_bias = false,
                           .reach = reach,
                           .indexed = true,
                           .fn = ir::Fn::gelu_quick,
                           .ffn_limit = 7,
                           .ffn_up_one = true,
                           .head = Form::Head::Own,
                           .experts = {.in = In::Layers,
                                       .dense_lead = true,
                                       .weights = Weights::ByKey,
                                       .norm = Norm::ByKey,
                                       .limit = 7,
                                       .up_add = 1}});
}

// A second, smaller mixture reads what the first one made.
LoadedModel load_grovemoe(const File& file) {
  const Keys keys(file, "grovemoe");
  if (keys.size("experts_per_group") != 1)
    keys.unsupported("experts_per_group", "groups of experts that share a smaller one are not supported");
  return load_dense(file, {.name = "grovemoe",
                           .head_norms = HeadNorms::Each,
                           .turn = Turn::Halves,
                           .factors = false,
                           .experts = {.in = In::Layers,
                                       .norm = Norm::Always,
                                       .second_scale = keys.positive("expert_group_scale")}});
}

LoadedModel load_cohere2moe(const File& file) {
  const Keys keys(file, "cohere2moe");
  keys.need_window_pattern();
  const bool rms = keys.factor("attention.layer_norm_rms_epsilon") > 0;
  return load_dense(file, {.name = "cohere2moe",
                           .norm = rms ? blocks::Norm::Kind::Rms : blocks::Norm::Kind::Layer,
                           .ffn_norm = nullptr,
                           .turned = Form::Turned::Sliding,
                           .leading_turn = true,
                           .slides = true,
                           .local_scaled = true,
                           .parallel = true,
                           .logits = Form::Logits::Times,
                           .experts = {.in = In::Layers,
                                       .dense_lead = true,
                                       .where_routed = true,
                                       .weights = Weights::ByKey,
                                       .sigmoid_unless_said = true,
                                       .norm = Norm::ByKey,
                                       .sum_scale = 0.5}});
}

}  // namespace gc::gguf
