// MiniMax 01: lightning attention in all layers but each eighth, whose decays get slower from layer to layer; experts
// everywhere; and what a branch is added to is its own normed input, times a factor.
#include <algorithm>
#include <cmath>
#include <utility>

#include "compiler/blocks/delta.h"
#include "compiler/blocks/layer.h"
#include "compiler/ir/builder.h"
#include "frontends/gguf/arch/arch.h"
#include "frontends/gguf/arch/decoder.h"
#include "frontends/gguf/arch/experts.h"
#include "frontends/gguf/arch/recurrent.h"

namespace gc::gguf {
namespace {

constexpr Form kForm{.name = "minimax-01",
                     .experts = {.in = Form::Experts::In::Layers, .norm = Form::Experts::Norm::Always}};

struct MiniMaxLayer {
  blocks::Norm attn_norm, ffn_norm;
  blocks::Attention attn;  // with `out`, else:
  blocks::Lightning lightning;
  blocks::Moe moe;
};

blocks::Attention attention_of(Tensors& tensors, const std::string& prefix, const DecoderSizes& s,
                               const blocks::HeadShape& heads, const ir::RopeArgs& rope) {
  blocks::Attention a{.shape = heads};
  a.qkv = tensors.qkv(prefix, heads, s.n_embd);
  a.rope = rope;
  a.scale = 1 / std::sqrt(static_cast<double>(heads.k_dim));
  a.out.weight = tensors.matrix(prefix + "attn_output.weight", s.n_embd, heads.out_cols());
  return a;
}

// Layer i of n.
blocks::Lightning lightning_of(Tensors& tensors, const std::string& prefix, const DecoderSizes& s,
                               std::int64_t i) {
  const blocks::HeadShape& heads = s.heads[i];
  const std::int64_t n = heads.q_rows();
  const auto last = static_cast<double>(std::max<std::int64_t>(s.n_layer - 1, 1));
  return {.heads = heads.n_head,
          .dim = heads.k_dim,
          .qkv = {.weight = tensors.matrix(prefix + "attn_qkv.weight", 3 * n, s.n_embd)},
          .by = 1 - static_cast<double>(i) / last + 1e-5,
          .norm = tensors.rms_norm(prefix + "attn_norm_2", n, s.eps),
          .gate = {.weight = tensors.matrix(prefix + "attn_gate.weight", n, s.n_embd)},
          .out = {.weight = tensors.matrix(prefix + "attn_output.weight", s.n_embd, n)}};
}

}  // namespace

LoadedModel load_minimax_01(const File& file) {
  // Keys.
  const Keys keys(file, kForm.name);
  std::vector<std::string> warnings;
  refuse_unknown_forms(keys, {.experts = true});
  const DecoderSizes s = decoder_sizes(keys);
  const ir::RopeArgs rope = rope_args(keys, s.heads[0].k_dim, /*neox=*/true);
  const ExpertSizes experts = expert_sizes(keys, kForm, s.n_layer);
  const std::vector<bool> recurrent = recurrent_by_key(keys, s.n_layer, /*interval=*/8);
  const double residual_scale = keys.positive("residual_scale");

  // Tensors.
  ir::Builder b("minimax-01.step");
  Tensors tensors(file, b);
  const ir::WeightId embedding = tensors.matrix("token_embd.weight", s.n_vocab, s.n_embd);
  tensors.ignore("rope_freqs.weight");
  std::vector<MiniMaxLayer> layers;
  for (std::int64_t i = 0; i < s.n_layer; ++i) {
    const std::string prefix = layer_prefix(i);
    MiniMaxLayer l{.attn_norm = tensors.rms_norm(prefix + "attn_norm", s.n_embd, s.eps),
                   .ffn_norm = tensors.rms_norm(prefix + "ffn_norm", s.n_embd, s.eps)};
    if (recurrent[i]) {
      l.lightning = lightning_of(tensors, prefix, s, i);
    } else {
      l.attn = attention_of(tensors, prefix, s, s.heads[i], rope);
    }
    l.moe = experts_of(tensors, kForm, experts, prefix, s.n_embd, s.eps);
    layers.push_back(std::move(l));
  }
  const blocks::Norm output_norm = tensors.rms_norm("output_norm", s.n_embd, s.eps);
  const blocks::Linear head = tensors.has("output.weight") ? tensors.linear("output", s.n_vocab, s.n_embd)
                                                           : blocks::Linear{.weight = embedding};
  tensors.finish(warnings);

  // Graph. x: the residual stream [T, n_embd].
  ir::ValueId x = b.embed(embedding, "inp_embd");
  for (std::int64_t i = 0; i < s.n_layer; ++i) {
    const MiniMaxLayer& l = layers[i];
    const std::string prefix = layer_prefix(i);
    b.begin_layer(x);
    const auto joined = [&](ir::ValueId normed, ir::ValueId branch, const char* name) {
      return b.add(branch, b.scale(normed, residual_scale, prefix + name + "_kept"), prefix + name);
    };
    ir::ValueId h = norm(b, x, l.attn_norm, prefix + "attn_norm");
    const ir::ValueId mixed =
        l.attn.out ? self_attention(b, h, l.attn, blocks::kv_state(b, i, l.attn.shape, 0), prefix)
                   : lightning(b, h, l.lightning, i, prefix);
    h = norm(b, joined(h, mixed, "attn_residual"), l.ffn_norm, prefix + "ffn_norm");
    x = joined(h, moe(b, h, h, l.moe, prefix), "l_out");
  }
  b.end_layers(x);
  x = norm(b, b.select(x, "outputs"), output_norm, "output_norm");  // [R, n_embd]
  b.output(linear(b, x, head, "logits"));

  return {.graph = b.take(),
          .info = model_info(keys, s, /*windows=*/{}, tensors),
          .warnings = std::move(warnings)};
}

}  // namespace gc::gguf
