// Gemma 1, 2 and 3, every size. One graph with four differences, which are the fields of Variant:
//
//            window      norms of q, k   norms after blocks   softcaps             one wide size
//   gemma    none        no              no                   no                   none
//   gemma2   every 2nd   no              yes                  scores and logits    46 layers (27B)
//   gemma3   5 of 6      yes             yes                  logits, if asked     62 layers (27B)
//
// and gemma-embedding, a Gemma 3 whose tokens see later ones too (sliding layers half of a window either way) and that ends in
// embeddings, after up to two matrices; those stand before the mean over tokens, with which they commute.
//
// All share: the embedding scaled by sqrt(n_embd), RMS norms (their +1 is already in the file's weights), NEOX RoPE,
// grouped heads, a GELU(tanh)-gated feed-forward network, and, but for files that bring one, no head of their own.
//
// Queries are scaled by 1/sqrt(head size), in the one wide size by 1/sqrt(n_embd / n_head): no key tells, only the
// number of layers does. Gemma 3's sliding layers turn by a local base that is not scaled; real files leave out the
// key of that base (10000) and of the pattern. Files may carry softcaps and a query scale that their architecture
// does not follow (a saved model has every key): those are not read.
#include <cmath>
#include <utility>

#include "compiler/blocks/attention.h"
#include "compiler/blocks/ffn.h"
#include "compiler/blocks/norm.h"
#include "compiler/ir/builder.h"
#include "frontends/gguf/arch/arch.h"
#include "frontends/gguf/arch/decoder.h"
#include "frontends/gguf/arch/embedding.h"
#include "frontends/gguf/arch/keys.h"
#include "frontends/gguf/arch/tensors.h"

namespace gc::gguf {
namespace {

struct Variant {
  const char* name;
  bool slides = false;              // some layers see a window only
  std::int64_t default_window = 0;  // positions
  std::int64_t period = 1;          // layer i slides unless (i + 1) % period == 0
  bool local_rope = false;          // sliding layers: base 10000 and no scaling, unless the file says
  bool head_norms = false;          // of q and k
  bool post_norms = false;          // after attention and feed-forward network
  bool score_cap = false;           // the file's attn_logit_softcapping counts
  bool logit_cap = false;           // the file's final_logit_softcapping counts
  double default_score_cap = 0, default_logit_cap = 0;
  std::int64_t wide_layers = 0;  // number of layers of the size whose queries are scaled by n_embd / n_head
  bool embeds = false;
};

// The matrices behind an embedder's last norm.
struct Projection {
  blocks::Linear in, out;
};

Projection projection_of(Tensors& tensors, std::int64_t n_embd) {
  Projection p;
  std::int64_t n = n_embd;
  if (tensors.has("dense_2.weight"))
    p.in = tensors.linear("dense_2", n = tensors.rows_of("dense_2.weight"), n_embd);
  if (tensors.has("dense_3.weight")) p.out = tensors.linear("dense_3", n_embd, n);
  return p;
}

struct Layer {
  std::string prefix;
  blocks::Norm attn_norm, post_attn_norm, ffn_norm, post_ffn_norm;
  blocks::Attention attn;
  blocks::Ffn ffn;
};

LoadedModel load(const File& file, const Variant& v) {
  // Keys.
  const Keys keys(file, v.name);
  std::vector<std::string> warnings;
  refuse_unknown_forms(keys, {.ahead = v.embeds});
  const DecoderSizes s = decoder_sizes(keys);
  const double score_cap = v.score_cap ? keys.factor("attn_logit_softcapping", v.default_score_cap) : 0;
  const double logit_cap = v.logit_cap ? keys.factor("final_logit_softcapping", v.default_logit_cap) : 0;
  std::vector<std::int64_t> windows(s.n_layer, 0);
  if (v.slides) {
    windows = layer_windows(keys, s.n_layer, v.default_window, v.period);
  } else {
    keys.warn_unless_zero("attention.sliding_window", warnings);
  }
  for (std::int64_t& window : windows)
    if (v.embeds && window > 0) window = window / 2 + 1;
  const ir::RopeArgs global_rope = rope_args(keys, s.heads[0].k_dim, /*neox=*/true);
  ir::RopeArgs local_rope = global_rope;
  if (v.local_rope) local_rope.base = 10000, local_rope.scale = 1;
  local_rope.base = keys.positive("rope.freq_base_swa", local_rope.base);
  const std::int64_t query_dim = s.n_layer == v.wide_layers ? s.n_embd / s.heads[0].n_head : s.heads[0].k_dim;

  // Tensors.
  ir::Builder b(std::string(v.name) + ".step");
  Tensors tensors(file, b);
  const ir::WeightId embedding = tensors.matrix("token_embd.weight", s.n_vocab, s.n_embd);
  std::vector<Layer> layers;
  for (std::int64_t i = 0; i < s.n_layer; ++i) {
    Layer l{.prefix = layer_prefix(i)};
    const blocks::HeadShape& heads = s.heads[i];
    l.attn_norm = tensors.rms_norm(l.prefix + "attn_norm", s.n_embd, s.eps);
    l.attn.shape = heads;
    l.attn.qkv = tensors.qkv(l.prefix, heads, s.n_embd);
    if (v.head_norms) {
      l.attn.q_norm = tensors.rms_norm(l.prefix + "attn_q_norm", heads.k_dim, s.eps);
      l.attn.k_norm = tensors.rms_norm(l.prefix + "attn_k_norm", heads.k_dim, s.eps);
    }
    l.attn.rope = windows[i] > 0 ? local_rope : global_rope;
    l.attn.query_scale = 1 / std::sqrt(static_cast<double>(query_dim));
    l.attn.cap = score_cap;
    l.attn.window = windows[i];
    l.attn.ahead = v.embeds;
    l.attn.out = tensors.linear(l.prefix + "attn_output", s.n_embd, heads.out_cols());
    if (v.post_norms) l.post_attn_norm = tensors.rms_norm(l.prefix + "post_attention_norm", s.n_embd, s.eps);
    l.ffn_norm = tensors.rms_norm(l.prefix + "ffn_norm", s.n_embd, s.eps);
    l.ffn = tensors.gated_ffn(l.prefix, s.n_ff[i], s.n_embd, ir::Fn::gelu_tanh);
    if (v.post_norms) l.post_ffn_norm = tensors.rms_norm(l.prefix + "post_ffw_norm", s.n_embd, s.eps);
    layers.push_back(std::move(l));
  }
  const blocks::Norm output_norm = tensors.rms_norm("output_norm", s.n_embd, s.eps);
  const ir::WeightId own_head = tensors.find_matrix("output.weight", s.n_vocab, s.n_embd);
  const Projection projection = v.embeds ? projection_of(tensors, s.n_embd) : Projection{};
  tensors.finish(warnings);

  // Graph. x: the residual stream [T, n_embd].
  ir::ValueId x = b.embed(embedding, "inp_embd");
  x = b.scale(x, std::sqrt(static_cast<double>(s.n_embd)), "inp_scaled");
  for (std::int64_t i = 0; i < s.n_layer; ++i) {
    const Layer& l = layers[i];
    b.begin_layer(x);
    const ir::StateId kv = kv_state(b, i, l.attn.shape, l.attn.kept_window());
    ir::ValueId h = norm(b, x, l.attn_norm, l.prefix + "attn_norm");
    h = self_attention(b, h, l.attn, kv, l.prefix);
    h = norm(b, h, l.post_attn_norm, l.prefix + "attn_post_norm");
    x = b.add(x, h, l.prefix + "attn_residual");
    h = norm(b, x, l.ffn_norm, l.prefix + "ffn_norm");
    h = ffn(b, h, l.ffn, l.prefix);
    h = norm(b, h, l.post_ffn_norm, l.prefix + "ffn_post_norm");
    x = b.add(x, h, l.prefix + "l_out");
  }
  b.end_layers(x);
  x = norm(b, b.select(x, "outputs"), output_norm, "output_norm");  // [R, n_embd]
  if (v.embeds) {
    if (projection.in) x = linear(b, x, projection.in, "dense_2");
    if (projection.out) x = linear(b, x, projection.out, "dense_3");
    b.embedding(x);
    LoadedModel model{
        .graph = b.take(), .info = model_info(keys, s, windows, tensors), .warnings = std::move(warnings)};
    tell_pooling(pooling_key(keys), model.info);
    return model;
  }
  x = b.matmul(x, own_head.valid() ? own_head : embedding, logit_cap > 0 ? "logits_raw" : "logits");
  if (logit_cap > 0) x = b.softcap(x, logit_cap, "logits");
  b.output(x);

  return {.graph = b.take(), .info = model_info(keys, s, windows, tensors), .warnings = std::move(warnings)};
}

}  // namespace

LoadedModel load_gemma(const File& file) { return load(file, {.name = "gemma"}); }

LoadedModel load_gemma2(const File& file) {
  return load(file, {.name = "gemma2",
                     .slides = true,
                     .default_window = 4096,
                     .period = 2,
                     .post_norms = true,
                     .score_cap = true,
                     .logit_cap = true,
                     .default_score_cap = 50,
                     .default_logit_cap = 30,
                     .wide_layers = 46});
}

LoadedModel load_gemma3(const File& file) {
  return load(file, {.name = "gemma3",
                     .slides = true,
                     .period = 6,
                     .local_rope = true,
                     .head_norms = true,
                     .post_norms = true,
                     .logit_cap = true,
                     .wide_layers = 62});
}

LoadedModel load_gemma_embedding(const File& file) {
  return load(file, {.name = "gemma-embedding",
                     .slides = true,
                     .period = 6,
                     .local_rope = true,
                     .head_norms = true,
                     .post_norms = true,
                     .embeds = true});
}

}  // namespace gc::gguf
