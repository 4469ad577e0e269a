// T5's encoder, which gives texts embeddings: RMS norms before what they norm, tokens see each other, scores are not scaled
// and know positions by biases of ranges of distances, the same in all layers (the first one's tensor) unless a layer has its
// own. Its network is gated by GELU (Flan-T5, T5 1.1) or goes through ReLU.
#include <utility>
#include <vector>

#include "compiler/base/strings.h"
#include "compiler/blocks/attention.h"
#include "compiler/blocks/ffn.h"
#include "compiler/blocks/norm.h"
#include "frontends/gguf/arch/arch.h"
#include "frontends/gguf/arch/decoder.h"
#include "frontends/gguf/arch/embedding.h"
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

blocks::Ffn network(Tensors& tensors, const std::string& p, std::int64_t n_ff, std::int64_t n_embd) {
  const bool gated = tensors.has(p + "ffn_gate.weight");
  blocks::Ffn f{.up = tensors.linear(p + "ffn_up", n_ff, n_embd),
                .down = tensors.linear(p + "ffn_down", n_embd, n_ff),
                .fn = gated ? ir::Fn::gelu_tanh : ir::Fn::relu};
  if (gated) f.gate = tensors.linear(p + "ffn_gate", n_ff, n_embd);
  return f;
}

Layer layer_of(Tensors& tensors, const DecoderSizes& s, std::int64_t buckets, std::int64_t i,
               const std::vector<Layer>& before) {
  Layer l{.prefix = cat("enc.blk.", i, ".")};
  const std::string& p = l.prefix;
  const blocks::HeadShape& heads = s.heads[i];
  l.attn_norm = tensors.rms_norm(p + "attn_norm", s.n_embd, s.eps);
  l.attn.shape = heads;
  l.attn.qkv = tensors.qkv(p, heads, s.n_embd);
  l.attn.ahead = true;
  l.attn.buckets = buckets;
  const bool own = i == 0 || tensors.has(p + "attn_rel_b.weight");
  l.attn.bias = own ? tensors.flat(p + "attn_rel_b.weight", buckets, heads.n_head) : before[0].attn.bias;
  l.attn.out = tensors.linear(p + "attn_o", s.n_embd, heads.out_cols());
  l.ffn_norm = tensors.rms_norm(p + "ffn_norm", s.n_embd, s.eps);
  l.ffn = network(tensors, p, s.n_ff[i], s.n_embd);
  return l;
}

}  // namespace

LoadedModel load_t5encoder(const File& file) {
  // Keys.
  const Keys keys(file, "t5encoder");
  std::vector<std::string> warnings;
  refuse_unknown_forms(keys, {.ahead = true});
  const DecoderSizes s = decoder_sizes(keys);
  const std::int64_t buckets = keys.size("attention.relative_buckets_count", 128);
  if (buckets % 4 != 0) keys.unsupported("attention.relative_buckets_count", "expected a multiple of 4");

  // Tensors.
  ir::Builder b("t5encoder.step");
  Tensors tensors(file, b);
  const ir::WeightId embedding = tensors.matrix("token_embd.weight", s.n_vocab, s.n_embd);
  std::vector<Layer> layers;
  for (std::int64_t i = 0; i < s.n_layer; ++i) layers.push_back(layer_of(tensors, s, buckets, i, layers));
  const blocks::Norm output_norm = tensors.rms_norm("enc.output_norm", s.n_embd, s.eps);
  tensors.ignore("output.weight");  // of the decoder that the file leaves out
  tensors.finish(warnings);

  // Graph. x: the residual stream [T, n_embd].
  ir::ValueId x = b.embed(embedding, "inp_embd");
  for (std::int64_t i = 0; i < s.n_layer; ++i) {
    const Layer& l = layers[i];
    const std::string& p = l.prefix;
    b.begin_layer(x);
    const ir::ValueId h = norm(b, x, l.attn_norm, p + "attn_norm");
    x = b.add(x, self_attention(b, h, l.attn, kv_state(b, i, l.attn.shape, 0), p), p + "attn_residual");
    x = b.add(x, ffn(b, norm(b, x, l.ffn_norm, p + "ffn_norm"), l.ffn, p), p + "l_out");
  }
  b.end_layers(x);
  b.embedding(norm(b, b.select(x, "asked"), output_norm, "embedding"));

  LoadedModel model{
      .graph = b.take(), .info = model_info(keys, s, {}, tensors), .warnings = std::move(warnings)};
  tell_pooling(pooling_key(keys), model.info);
  return model;
}

}  // namespace gc::gguf
