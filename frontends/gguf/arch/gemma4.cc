// Gemma 4 (E2B, E4B, 31B, 26B with experts), text. Gemma 3's sandwich norms, windows and scaled embedding; besides
//   - layers that see everything have larger heads, and may have no matrix for values: their keys, before norm and RoPE,
//     are the values too;
//   - values are normed, scores not scaled; layers that see everything turn by factors that leave most pairs alone;
//   - the small models have embeddings per layer (compiler/blocks/per_layer.h), and last layers that see the keys and
//     values of earlier ones;
//   - the one with experts has a dense network beside them; its router sees the layer's residual, normed and weighed by
//     itself, and each expert's result has a factor;
//   - a layer's result is multiplied by a factor of its own.
#include <cmath>
#include <utility>

#include "compiler/base/strings.h"
#include "compiler/blocks/attention.h"
#include "compiler/blocks/ffn.h"
#include "compiler/blocks/moe.h"
#include "compiler/blocks/norm.h"
#include "compiler/blocks/per_layer.h"
#include "frontends/gguf/arch/arch.h"
#include "frontends/gguf/arch/decoder.h"
#include "frontends/gguf/arch/keys.h"
#include "frontends/gguf/arch/shared_kv.h"
#include "frontends/gguf/arch/tensors.h"

namespace gc::gguf {
namespace {

struct Layer {
  std::string prefix;
  blocks::Norm attn_norm, post_attn_norm, ffn_norm, post_ffn_norm;
  blocks::Attention attn;
  blocks::Ffn ffn;
  blocks::Moe moe;  // or none
  blocks::Norm post_dense_norm, moe_norm, post_moe_norm;
  ir::WeightId router_scale;  // [n_embd]
  double eps = 0;
  blocks::PerLayerGate per_layer;  // or none
  ir::WeightId out_scale;          // [1], or none
};

blocks::Attention attention_of(Tensors& tensors, const std::string& p, const blocks::HeadShape& heads,
                               const DecoderSizes& s, bool own_keys) {
  blocks::Attention a{.shape = heads};
  const bool fused = tensors.has(p + "attn_qkv.weight");
  if (own_keys && (fused || tensors.has(p + "attn_v.weight"))) {
    a.qkv = tensors.qkv(p, heads, s.n_embd);
  } else {
    a.qkv.q = tensors.linear(p + "attn_q", heads.q_rows(), s.n_embd);
    if (own_keys) a.qkv.k = tensors.linear(p + "attn_k", heads.k_rows(), s.n_embd);
  }
  a.q_norm = tensors.rms_norm(p + "attn_q_norm", heads.k_dim, s.eps);
  if (own_keys) {
    a.k_norm = tensors.rms_norm(p + "attn_k_norm", heads.k_dim, s.eps);
    a.v_norm = {.kind = blocks::Norm::Kind::Rms, .eps = s.eps};
  } else {
    for (const char* unused : {"attn_k.weight", "attn_v.weight", "attn_k_norm.weight"})
      tensors.ignore(p + unused);
  }
  a.out = tensors.linear(p + "attn_output", s.n_embd, heads.out_cols());
  return a;
}

void experts_of(const Keys& keys, Tensors& tensors, const DecoderSizes& s, Layer& l) {
  const std::string& p = l.prefix;
  const std::int64_t n = keys.size("expert_count"), used = keys.size("expert_used_count");
  if (used > n) keys.fail("expert_used_count", cat("expected at most expert_count ", n, ", found ", used));
  const bool joined = tensors.has(p + "ffn_gate_up_exps.weight");
  const std::string up = p + (joined ? "ffn_gate_up_exps.weight" : "ffn_up_exps.weight");
  const std::int64_t rows = tensors.rows_of(up), n_ff = joined ? rows / 2 : rows;
  l.moe.router = {.weight =
                      tensors.matrix(p + "ffn_gate_inp.weight", n, s.n_embd)};  // its scale is of the input
  l.moe.route = {.used = used, .norm = true};
  l.moe.experts = {
      .up = tensors.stack(up, n, rows, s.n_embd), .joined = joined, .used = used, .fn = ir::Fn::gelu_tanh};
  if (!joined) l.moe.experts.gate = tensors.stack(p + "ffn_gate_exps.weight", n, n_ff, s.n_embd);
  l.moe.down = tensors.stack(p + "ffn_down_exps.weight", n, s.n_embd, n_ff);
  l.moe.out_scale = tensors.find_vector(p + "ffn_down_exps.scale", n);
  l.router_scale = tensors.vector(p + "ffn_gate_inp.scale", s.n_embd);
  l.post_dense_norm = tensors.rms_norm(p + "post_ffw_norm_1", s.n_embd, s.eps);
  l.moe_norm = tensors.rms_norm(p + "pre_ffw_norm_2", s.n_embd, s.eps);
  l.post_moe_norm = tensors.rms_norm(p + "post_ffw_norm_2", s.n_embd, s.eps);
}

Layer layer_of(const Keys& keys, Tensors& tensors, const DecoderSizes& s, std::int64_t i, bool own_keys) {
  Layer l{.prefix = layer_prefix(i), .eps = s.eps};
  const std::string& p = l.prefix;
  l.attn_norm = tensors.rms_norm(p + "attn_norm", s.n_embd, s.eps);
  l.attn = attention_of(tensors, p, s.heads[i], s, own_keys);
  l.post_attn_norm = tensors.rms_norm(p + "post_attention_norm", s.n_embd, s.eps);
  l.ffn_norm = tensors.rms_norm(p + "ffn_norm", s.n_embd, s.eps);
  l.ffn = tensors.gated_ffn(p, s.n_ff[i], s.n_embd, ir::Fn::gelu_tanh);
  if (tensors.has(p + "ffn_gate_inp.weight")) experts_of(keys, tensors, s, l);
  l.post_ffn_norm = tensors.rms_norm(p + "post_ffw_norm", s.n_embd, s.eps);
  l.out_scale = tensors.find_vector(p + "layer_output_scale.weight", 1);
  return l;
}

// The dense network and the experts, both of x [T, n_embd], the residual.
ir::ValueId networks(ir::Builder& b, ir::ValueId x, const Layer& l) {
  const std::string& p = l.prefix;
  ir::ValueId dense = ffn(b, norm(b, x, l.ffn_norm, p + "ffn_norm"), l.ffn, p);
  if (!l.moe) return dense;
  dense = norm(b, dense, l.post_dense_norm, p + "ffn_dense_norm");
  const auto n_embd = static_cast<double>(b.type(x).dims.back().size);
  ir::ValueId routed = b.rms_norm(x, {}, l.eps, p + "ffn_routed_norm");
  routed = b.weigh(b.scale(routed, 1 / std::sqrt(n_embd), p + "ffn_routed_scaled"), l.router_scale,
                   p + "ffn_routed");
  const ir::ValueId experts = moe(b, norm(b, x, l.moe_norm, p + "ffn_moe_norm"), routed, l.moe, p);
  return b.add(dense, norm(b, experts, l.post_moe_norm, p + "ffn_moe_post_norm"), p + "ffn_both");
}

}  // namespace

LoadedModel load_gemma4(const File& file) {
  // Keys.
  const Keys keys(file, "gemma4");
  std::vector<std::string> warnings;
  refuse_unknown_forms(keys, {.experts = true});
  DecoderSizes s = decoder_sizes(keys, kRmsEps, {}, /*own_local_heads=*/true);
  const std::vector<std::int64_t> windows = layer_windows(keys, s.n_layer, 0, 6);
  const std::int64_t local_dim = keys.find_size("attention.key_length_swa").value_or(s.heads[0].k_dim);
  const ir::RopeArgs global_rope = rope_args(keys, s.heads[0].k_dim, /*neox=*/true, /*own_local_dims=*/true);
  for (std::int64_t i = 0; i < s.n_layer; ++i)
    if (windows[i] > 0) s.heads[i].k_dim = s.heads[i].v_dim = local_dim;
  ir::RopeArgs local_rope{.base = keys.positive("rope.freq_base_swa", 10000)};
  local_rope.dims = local_rope_dims(keys, {.dims = local_dim}, local_dim);
  const std::int64_t width = file.get_u32(keys.full("embedding_length_per_layer_input"), 0);
  const SharedKv kv(keys, windows, s.n_layer);
  const double cap = keys.factor("final_logit_softcapping");

  // Tensors.
  ir::Builder b("gemma4.step");
  Tensors tensors(file, b);
  const ir::WeightId embedding = tensors.matrix("token_embd.weight", s.n_vocab, s.n_embd);
  blocks::PerLayerInputs rows;
  if (width > 0) rows = per_layer_inputs_of(tensors, s, width);
  ir::RopeArgs factored = global_rope;
  factored.factors = tensors.find_vector("rope_freqs.weight", global_rope.dims / 2);
  std::vector<Layer> layers;
  for (std::int64_t i = 0; i < s.n_layer; ++i) {
    Layer l = layer_of(keys, tensors, s, i, kv.has_own(i));
    l.attn.rope = windows[i] > 0 ? local_rope : factored;
    l.attn.window = windows[i];
    if (width > 0) l.per_layer = per_layer_gate_of(tensors, l.prefix, s, width);
    layers.push_back(std::move(l));
  }
  const blocks::Norm output_norm = tensors.rms_norm("output_norm", s.n_embd, s.eps);
  const ir::WeightId own_head = tensors.find_matrix("output.weight", s.n_vocab, s.n_embd);
  tensors.finish(warnings);

  // Graph. x: the residual stream [T, n_embd].
  ir::ValueId x = b.embed(embedding, "inp_embd");
  x = b.scale(x, std::sqrt(static_cast<double>(s.n_embd)), "inp_scaled");
  ir::ValueId inputs;
  if (width > 0) inputs = per_layer_inputs(b, x, rows);
  std::vector<SharedKv::Layer> states;
  for (std::int64_t i = 0; i < s.n_layer; ++i) {
    const Layer& l = layers[i];
    const std::string& p = l.prefix;
    b.begin_layer(x);
    states.push_back(kv.layer(b, i, l.attn, states));
    ir::ValueId h = norm(b, x, l.attn_norm, p + "attn_norm");
    h = states[i].own ? self_attention(b, h, l.attn, states[i].state, p)
                      : shared_attention(b, h, l.attn, states[i].state, p);
    x = b.add(x, norm(b, h, l.post_attn_norm, p + "attn_post_norm"), p + "attn_residual");
    h = norm(b, networks(b, x, l), l.post_ffn_norm, p + "ffn_post_norm");
    const bool gated = inputs.valid(), last = !gated && !l.out_scale.valid();
    x = b.add(x, h, p + (last ? "l_out" : "ffn_residual"));
    if (gated) {
      h = per_layer_gate(b, x, inputs, i, rows, l.per_layer, p);
      x = b.add(x, h, p + (l.out_scale.valid() ? "per_layer_residual" : "l_out"));
    }
    if (l.out_scale.valid()) x = b.weigh(x, l.out_scale, p + "l_out");
  }
  b.end_layers(x);
  x = norm(b, b.select(x, "outputs"), output_norm, "output_norm");  // [R, n_embd]
  x = b.matmul(x, own_head.valid() ? own_head : embedding, cap > 0 ? "logits_raw" : "logits");
  if (cap > 0) x = b.softcap(x, cap, "logits");
  b.output(x);

  return {.graph = b.take(), .info = model_info(keys, s, windows, tensors), .warnings = std::move(warnings)};
}

}  // namespace gc::gguf
