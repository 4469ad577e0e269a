// Llama in its plain form: Llama 1 to 3, Mistral 7B, SmolLM2 and whatever else is published under that name without
// experts. Pre-norm RMS, grouped heads, RoPE by adjacent pairs (converters permute q and k so), SiLU-gated
// feed-forward network, biases where the file has them, tied or separate head. Llama 3's long-context RoPE comes as
// divisors of the frequencies in the tensor rope_freqs.weight.
//
// Files may carry keys that only relatives follow (sliding windows, scales of embedding, residual and logits): they
// have no meaning here and are warned of.
#include <cmath>
#include <utility>

#include "compiler/blocks/attention.h"
#include "compiler/blocks/ffn.h"
#include "compiler/blocks/norm.h"
#include "compiler/ir/builder.h"
#include "frontends/gguf/arch/arch.h"
#include "frontends/gguf/arch/decoder.h"
#include "frontends/gguf/arch/keys.h"
#include "frontends/gguf/arch/tensors.h"

namespace gc::gguf {
namespace {

struct Layer {
  std::string prefix;
  blocks::Norm attn_norm, ffn_norm;
  blocks::Attention attn;
  blocks::Ffn ffn;
};

}  // namespace

LoadedModel load_llama(const File& file) {
  // Keys.
  const Keys keys(file, "llama");
  std::vector<std::string> warnings;
  refuse_unknown_forms(keys);
  for (const char* suffix :
       {"attention.sliding_window", "embedding_scale", "residual_scale", "logit_scale"}) {
    keys.warn_unless_zero(suffix, warnings);
  }
  const DecoderSizes s = decoder_sizes(keys);
  ir::RopeArgs rope = rope_args(keys, s.heads[0].k_dim, /*neox=*/false);

  // Tensors.
  ir::Builder b("llama.step");
  Tensors tensors(file, b);
  const ir::WeightId embedding = tensors.matrix("token_embd.weight", s.n_vocab, s.n_embd);
  rope.factors = tensors.find_vector("rope_freqs.weight", rope.dims / 2);
  std::vector<Layer> layers;
  for (std::int64_t i = 0; i < s.n_layer; ++i) {
    Layer l{.prefix = layer_prefix(i)};
    const blocks::HeadShape& heads = s.heads[i];
    l.attn_norm = tensors.rms_norm(l.prefix + "attn_norm", s.n_embd, s.eps);
    l.attn.shape = heads;
    l.attn.qkv = tensors.qkv(l.prefix, heads, s.n_embd);
    l.attn.rope = rope;
    l.attn.scale = 1 / std::sqrt(static_cast<double>(heads.k_dim));
    l.attn.out = tensors.linear(l.prefix + "attn_output", s.n_embd, heads.out_cols());
    l.ffn_norm = tensors.rms_norm(l.prefix + "ffn_norm", s.n_embd, s.eps);
    l.ffn = tensors.gated_ffn(l.prefix, s.n_ff[i], s.n_embd, ir::Fn::silu);
    layers.push_back(std::move(l));
  }
  const blocks::Norm output_norm = tensors.rms_norm("output_norm", s.n_embd, s.eps);
  const ir::WeightId own_head = tensors.find_matrix("output.weight", s.n_vocab, s.n_embd);
  tensors.finish(warnings);

  // Graph. x: the residual stream [T, n_embd].
  ir::ValueId x = b.embed(embedding, "inp_embd");
  for (std::int64_t i = 0; i < s.n_layer; ++i) {
    const Layer& l = layers[i];
    b.begin_layer(x);
    const ir::StateId kv = kv_state(b, i, l.attn.shape, l.attn.window);
    ir::ValueId h = norm(b, x, l.attn_norm, l.prefix + "attn_norm");
    h = self_attention(b, h, l.attn, kv, l.prefix);
    x = b.add(x, h, l.prefix + "attn_residual");
    h = norm(b, x, l.ffn_norm, l.prefix + "ffn_norm");
    h = ffn(b, h, l.ffn, l.prefix);
    x = b.add(x, h, l.prefix + "l_out");
  }
  b.end_layers(x);
  x = norm(b, b.select(x, "outputs"), output_norm, "output_norm");  // [R, n_embd]
  b.output(b.matmul(x, own_head.valid() ? own_head : embedding, "logits"));

  return {.graph = b.take(),
          .info = model_info(keys, s, /*windows=*/{}, tensors),
          .warnings = std::move(warnings)};
}

}  // namespace gc::gguf
