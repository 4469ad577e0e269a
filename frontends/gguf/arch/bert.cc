// Encoders of BERT's kind, which give texts embeddings: all tokens see each other, norms (layer norms) stand behind what
// they norm, there is no head. A text's embedding is made of its tokens' as the key pooling_type says.
//
//                  positions       network                                   besides
//   bert           a table         GELU, ungated                             also RoBERTa's, whose files begin their table
//                                                                            behind its padding
//   jina-bert-v3   RoPE, halves    GELU, ungated
//   nomic-bert     RoPE, halves    SiLU-gated, without biases
//   nomic-bert-moe RoPE, halves    GELU, ungated; every few layers experts, softmax over all of them as it is
//   jina-bert-v2   ALiBi           GELU, gated (or in one matrix) or not     norms of q and k, a second norm of attention
//
// Tokens have types; all are of the first here ("sentence A"), whose row is a bias of the embedding.
#include <cmath>
#include <optional>
#include <utility>

#include "compiler/base/strings.h"
#include "compiler/blocks/attention.h"
#include "compiler/blocks/ffn.h"
#include "compiler/blocks/moe.h"
#include "compiler/blocks/norm.h"
#include "frontends/gguf/arch/arch.h"
#include "frontends/gguf/arch/decoder.h"
#include "frontends/gguf/arch/embedding.h"
#include "frontends/gguf/arch/keys.h"
#include "frontends/gguf/arch/tensors.h"

namespace gc::gguf {
namespace {

struct Variant {
  const char* name;
  bool positions = false, rope = false;
  double alibi = 0;  // largest exponent of its slopes
  ir::Fn fn = ir::Fn::gelu_tanh;
  bool ffn_biases = true;
  bool experts = false;  // of every moe_every_n_layers layers the second
};

struct Layer {
  std::string prefix;
  blocks::Attention attn;
  blocks::Norm attn_norm, second_norm,
      ffn_norm;  // behind attention, behind that and the input again, behind the network
  blocks::Ffn ffn;
  blocks::Moe moe;  // in its place
};

// The first row of a table [types, n_embd], as a vector.
ir::WeightId first_type(const Tensor& types, const File& file, ir::Builder& b, std::int64_t n_embd) {
  if (types.ne[0] != n_embd || info(types.format).kind == FormatKind::kBlock)
    file.fail_tensor(types.name, cat("expected rows of ", n_embd, " floats, found ", types.shape_text(),
                                     " of type ", gc::name(types.format)));
  return b.weight(std::string(types.name), types.format, {n_embd});
}

blocks::Norm layer_norm_if(Tensors& tensors, const std::string& stem, std::int64_t size, double eps) {
  if (!tensors.has(stem + ".weight")) return {};
  return tensors.norm(blocks::Norm::Kind::Layer, stem, size, eps);
}

blocks::Ffn network(Tensors& tensors, const Variant& v, const std::string& p, std::int64_t n_ff,
                    std::int64_t n_embd) {
  const bool gated = tensors.has(p + "ffn_gate.weight");
  const std::int64_t rows = tensors.rows_of(p + "ffn_up.weight");
  blocks::Ffn f{.up = tensors.linear(p + "ffn_up", !gated && rows == 2 * n_ff ? rows : n_ff, n_embd),
                .down = tensors.linear(p + "ffn_down", n_embd, n_ff),
                .fn = v.fn,
                .gate_in_up = !gated && rows == 2 * n_ff};
  if (gated) f.gate = tensors.linear(p + "ffn_gate", n_ff, n_embd);
  if (!v.ffn_biases) f.up.bias = f.down.bias = f.gate.bias = {};
  return f;
}

struct Experts {
  std::int64_t n = 0, used = 0, every = 0;
};

Experts experts_of(const Keys& keys, const Variant& v) {
  if (!v.experts || keys.size("moe_every_n_layers") == 0) return {};
  return {keys.size("expert_count"), keys.size("expert_used_count"), keys.size("moe_every_n_layers")};
}

blocks::Moe mixture(Tensors& tensors, const Variant& v, const Experts& e, const std::string& p,
                    std::int64_t n_ff, std::int64_t n_embd) {
  blocks::Moe m{.router = tensors.linear(p + "ffn_gate_inp", e.n, n_embd)};
  m.route.used = e.used;
  m.experts.used = e.used;
  m.experts.fn = v.fn;
  m.experts.up = tensors.stack(p + "ffn_up_exps.weight", e.n, n_ff, n_embd);
  m.down = tensors.stack(p + "ffn_down_exps.weight", e.n, n_embd, n_ff);
  return m;
}

Layer layer_of(Tensors& tensors, const Variant& v, const DecoderSizes& s, const Experts& experts,
               std::int64_t i) {
  const auto kind = blocks::Norm::Kind::Layer;
  Layer l{.prefix = layer_prefix(i)};
  const std::string& p = l.prefix;
  const blocks::HeadShape& heads = s.heads[i];
  l.attn.shape = heads;
  l.attn.qkv = tensors.qkv(p, heads, s.n_embd);
  l.attn.q_norm = layer_norm_if(tensors, p + "attn_q_norm", heads.q_rows(), s.eps);
  l.attn.k_norm = layer_norm_if(tensors, p + "attn_k_norm", heads.k_rows(), s.eps);
  l.attn.norm_at = blocks::Attention::NormAt::Whole;
  l.attn.scale = 1 / std::sqrt(static_cast<double>(heads.k_dim));
  l.attn.alibi = v.alibi;
  l.attn.ahead = true;
  l.attn.out = tensors.linear(p + "attn_output", s.n_embd, heads.out_cols());
  l.attn_norm = tensors.norm(kind, p + "attn_output_norm", s.n_embd, s.eps);
  l.second_norm = layer_norm_if(tensors, p + "attn_norm_2", s.n_embd, s.eps);
  if (experts.every > 1 && i % experts.every == 1) {
    l.moe = mixture(tensors, v, experts, p, s.n_ff[i], s.n_embd);
  } else {
    l.ffn = network(tensors, v, p, s.n_ff[i], s.n_embd);
  }
  l.ffn_norm = tensors.norm(kind, p + "layer_output_norm", s.n_embd, s.eps);
  return l;
}

LoadedModel load(const File& file, const Variant& v) {
  // Keys.
  const Keys keys(file, v.name);
  std::vector<std::string> warnings;
  refuse_unknown_forms(keys, {.alibi = v.alibi > 0, .experts = v.experts, .ahead = true});
  const DecoderSizes s = decoder_sizes(keys, kLayerNormEps);
  const PoolingKey pooling = pooling_key(keys);
  const Experts experts = experts_of(keys, v);
  std::optional<ir::RopeArgs> rope;
  if (v.rope) rope = rope_args(keys, s.heads[0].k_dim, /*neox=*/true);

  // Tensors.
  ir::Builder b(std::string(v.name) + ".step");
  Tensors tensors(file, b);
  const ir::WeightId embedding = tensors.matrix("token_embd.weight", s.n_vocab, s.n_embd);
  ir::WeightId positions, type;
  if (v.positions) positions = tensors.matrix("position_embd.weight", s.n_ctx_train, s.n_embd);
  if (const Tensor* types = file.find_tensor("token_types.weight")) {
    type = first_type(*types, file, b, s.n_embd);
    tensors.ignore(types->name);
  }
  const blocks::Norm token_norm = tensors.norm(blocks::Norm::Kind::Layer, "token_embd_norm", s.n_embd, s.eps);
  std::vector<Layer> layers;
  for (std::int64_t i = 0; i < s.n_layer; ++i) {
    layers.push_back(layer_of(tensors, v, s, experts, i));
    layers.back().attn.rope = rope;
  }
  std::optional<Classifier> classifier;
  if (pooling == PoolingKey::Ranks) {
    classifier = classifier_of(tensors, s.n_embd);
  } else {
    tensors.ignore_all("cls.");  // a classifier beside the embedding
  }
  tensors.finish(warnings);

  // Graph. x: [T, n_embd].
  ir::ValueId x = b.embed(embedding, "tok_embd");
  if (type.valid()) x = b.shift(x, type, "tok_typed");
  if (v.positions) x = b.add(x, b.embed_position(positions, "pos_embd"), "inp_embd");
  x = norm(b, x, token_norm, "inp_norm");
  for (std::int64_t i = 0; i < s.n_layer; ++i) {
    const Layer& l = layers[i];
    const std::string& p = l.prefix;
    b.begin_layer(x);
    const ir::StateId kv = kv_state(b, i, l.attn.shape, 0);
    ir::ValueId h = b.add(x, self_attention(b, x, l.attn, kv, p), p + "attn_residual");
    h = norm(b, h, l.attn_norm, p + "attn_out_norm");
    if (l.second_norm) h = norm(b, b.add(h, x, p + "attn_again"), l.second_norm, p + "attn_norm_2");
    x = b.add(h, l.moe ? moe(b, h, h, l.moe, p) : ffn(b, h, l.ffn, p), p + "ffn_residual");
    x = norm(b, x, l.ffn_norm, p + "l_out");
  }
  b.end_layers(x);
  end_in_embedding(b, x, classifier ? &*classifier : nullptr);

  LoadedModel model{
      .graph = b.take(), .info = model_info(keys, s, {}, tensors), .warnings = std::move(warnings)};
  tell_pooling(pooling, model.info);
  return model;
}

}  // namespace

LoadedModel load_bert(const File& file) { return load(file, {.name = "bert", .positions = true}); }

LoadedModel load_nomic_bert(const File& file) {
  return load(file, {.name = "nomic-bert", .rope = true, .fn = ir::Fn::silu, .ffn_biases = false});
}

LoadedModel load_nomic_bert_moe(const File& file) {
  return load(file, {.name = "nomic-bert-moe", .rope = true, .experts = true});
}

LoadedModel load_jina_bert_v3(const File& file) { return load(file, {.name = "jina-bert-v3", .rope = true}); }

LoadedModel load_jina_bert_v2(const File& file) { return load(file, {.name = "jina-bert-v2", .alibi = 8}); }

}  // namespace gc::gguf
