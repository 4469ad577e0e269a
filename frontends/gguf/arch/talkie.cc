// Talkie: RMS norms without weights everywhere, of the embedding too; RoPE by halves, then norms of q and k, with one gain
// for each head of q; a SiLU-gated network; after every layer the normed embedding comes back, times the layer's own
// factor; logits times a factor.
#include <cmath>
#include <utility>

#include "compiler/blocks/layer.h"
#include "compiler/ir/builder.h"
#include "frontends/gguf/arch/arch.h"
#include "frontends/gguf/arch/decoder.h"
#include "frontends/gguf/arch/keys.h"
#include "frontends/gguf/arch/tensors.h"

namespace gc::gguf {

LoadedModel load_talkie(const File& file) {
  // Keys.
  const Keys keys(file, "talkie");
  std::vector<std::string> warnings;
  refuse_unknown_forms(keys);
  const DecoderSizes s = decoder_sizes(keys);
  const ir::RopeArgs rope = rope_args(keys, s.heads[0].k_dim, /*neox=*/true);
  const double logit_scale = keys.positive("logit_scale");

  // Tensors.
  ir::Builder b("talkie.step");
  Tensors tensors(file, b);
  const blocks::Norm plain{.kind = blocks::Norm::Kind::Rms, .eps = s.eps};
  const ir::WeightId embedding = tensors.matrix("token_embd.weight", s.n_vocab, s.n_embd);
  std::vector<blocks::Layer> layers;
  std::vector<ir::WeightId> skip_factors;  // [1] each
  for (std::int64_t i = 0; i < s.n_layer; ++i) {
    blocks::Layer l{.prefix = layer_prefix(i), .attn_norm = plain, .ffn_norm = plain};
    const blocks::HeadShape& heads = s.heads[i];
    l.attn.shape = heads;
    l.attn.qkv = tensors.qkv(l.prefix, heads, s.n_embd);
    l.attn.q_norm = l.attn.k_norm = plain;
    l.attn.norm_at = blocks::Attention::NormAt::TurnedHeads;
    l.attn.q_gain = tensors.flat(l.prefix + "attn_q_norm.weight", heads.n_head, 1);
    l.attn.rope = rope;
    l.attn.scale = 1 / std::sqrt(static_cast<double>(heads.k_dim));
    l.attn.out = tensors.linear(l.prefix + "attn_output", s.n_embd, heads.out_cols());
    l.ffn = tensors.gated_ffn(l.prefix, s.n_ff[i], s.n_embd, ir::Fn::silu);
    skip_factors.push_back(tensors.vector(l.prefix + "layer_output_scale.weight", 1));
    layers.push_back(std::move(l));
  }
  const blocks::Linear head = tensors.linear("output", s.n_vocab, s.n_embd);
  tensors.finish(warnings);

  // Graph. x: the residual stream [T, n_embd].
  const ir::ValueId embedded = norm(b, b.embed(embedding, "inp_embd"), plain, "inp_norm");
  ir::ValueId x = embedded;
  for (std::int64_t i = 0; i < s.n_layer; ++i) {
    const blocks::Layer& l = layers[i];
    b.begin_layer(x);
    x = layer(b, x, l, i);
    x = b.add(x, b.weigh(embedded, skip_factors[i], l.prefix + "skip"), l.prefix + "skipped");
  }
  b.end_layers(x);
  x = norm(b, b.select(x, "outputs"), plain, "output_norm");  // [R, n_embd]
  b.output(b.scale(linear(b, x, head, "logits_raw"), logit_scale, "logits"));

  return {.graph = b.take(),
          .info = model_info(keys, s, /*windows=*/{}, tensors),
          .warnings = std::move(warnings)};
}

}  // namespace gc::gguf
