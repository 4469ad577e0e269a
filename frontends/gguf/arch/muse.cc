// Muse Glimmer: the embedding normed without weights, norms before and after both blocks (those after with an epsilon of
// their own), norms of each head of q and k, a sigmoid gate on attention's output, three layers of windows, which turn by
// pairs, to one that sees everything and does not; logits times a factor, then capped where the file says so.
#include <cmath>
#include <utility>

#include "compiler/blocks/layer.h"
#include "compiler/ir/builder.h"
#include "frontends/gguf/arch/arch.h"
#include "frontends/gguf/arch/decoder.h"
#include "frontends/gguf/arch/keys.h"
#include "frontends/gguf/arch/tensors.h"

namespace gc::gguf {
namespace {

constexpr double kPostNormEps = 1e-8;

blocks::Attention attention(Tensors& tensors, const DecoderSizes& s, const std::string& prefix,
                            const blocks::HeadShape& heads) {
  blocks::Attention a{.shape = heads};
  a.qkv = tensors.qkv(prefix, heads, s.n_embd);
  a.q_norm = tensors.rms_norm(prefix + "attn_q_norm", heads.k_dim, s.eps);
  a.k_norm = tensors.rms_norm(prefix + "attn_k_norm", heads.k_dim, s.eps);
  a.scale = 1 / std::sqrt(static_cast<double>(heads.k_dim));
  a.gate = tensors.linear(prefix + "attn_gate", heads.out_cols(), s.n_embd);
  a.out = tensors.linear(prefix + "attn_output", s.n_embd, heads.out_cols());
  return a;
}

}  // namespace

LoadedModel load_muse_glimmer(const File& file) {
  // Keys.
  const Keys keys(file, "muse-glimmer");
  std::vector<std::string> warnings;
  refuse_unknown_forms(keys);
  const DecoderSizes s = decoder_sizes(keys);
  const std::vector<std::int64_t> windows =
      layer_windows(keys, s.n_layer, /*default_window=*/0, /*default_period=*/4);
  ir::RopeArgs local_rope{.dims = rope_args(keys, s.heads[0].k_dim, /*neox=*/false).dims, .neox = false};
  local_rope.base = keys.positive("rope.freq_base_swa", keys.positive("rope.freq_base", 10000));
  const double logit_scale = keys.positive("logit_scale"), logit_cap = keys.factor("final_logit_softcapping");

  // Tensors.
  ir::Builder b("muse-glimmer.step");
  Tensors tensors(file, b);
  const ir::WeightId embedding = tensors.matrix("token_embd.weight", s.n_vocab, s.n_embd);
  std::vector<blocks::Layer> layers;
  for (std::int64_t i = 0; i < s.n_layer; ++i) {
    blocks::Layer l{.prefix = layer_prefix(i)};
    l.attn_norm = tensors.rms_norm(l.prefix + "attn_norm", s.n_embd, s.eps);
    l.attn = attention(tensors, s, l.prefix, s.heads[i]);
    l.attn.window = windows[i];
    if (windows[i] > 0) l.attn.rope = local_rope;
    l.post_attn_norm = tensors.rms_norm(l.prefix + "post_attention_norm", s.n_embd, kPostNormEps);
    l.ffn_norm = tensors.rms_norm(l.prefix + "ffn_norm", s.n_embd, s.eps);
    l.ffn = tensors.gated_ffn(l.prefix, s.n_ff[i], s.n_embd, ir::Fn::silu);
    l.post_ffn_norm = tensors.rms_norm(l.prefix + "post_ffw_norm", s.n_embd, kPostNormEps);
    layers.push_back(std::move(l));
  }
  const blocks::Norm output_norm = tensors.rms_norm("output_norm", s.n_embd, s.eps);
  const blocks::Linear head = tensors.linear("output", s.n_vocab, s.n_embd);
  tensors.finish(warnings);

  // Graph. x: the residual stream [T, n_embd].
  ir::ValueId x = b.rms_norm(b.embed(embedding, "inp_embd"), {}, s.eps, "inp_norm");
  for (std::int64_t i = 0; i < s.n_layer; ++i) {
    b.begin_layer(x);
    x = layer(b, x, layers[i], i);
  }
  b.end_layers(x);
  x = norm(b, b.select(x, "outputs"), output_norm, "output_norm");  // [R, n_embd]
  x = b.scale(linear(b, x, head, "logits_raw"), logit_scale, logit_cap > 0 ? "logits_scaled" : "logits");
  if (logit_cap > 0) x = b.softcap(x, logit_cap, "logits");
  b.output(x);

  return {.graph = b.take(), .info = model_info(keys, s, windows, tensors), .warnings = std::move(warnings)};
}

}  // namespace gc::gguf
