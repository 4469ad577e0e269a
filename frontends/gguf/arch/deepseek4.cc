// DeepSeek 4: attention to a window and to compressed rows beyond it (compiler/blocks/compressed.h), in layers that
// attention.compress_ratios says: 0 the window alone, 4 rows of eight tokens each half of which the next one shares, 128 rows
// of their own tokens; those layers turn by another base, which YaRN stretches. Four residual streams that mix, and experts,
// which the first hash_layer_count layers choose by the token alone. Of the rows of 4 an indexer chooses indexer.top_k.
// exp_probs_b_vl is for images.
#include <cmath>
#include <utility>

#include "compiler/base/error.h"
#include "compiler/blocks/compressed.h"
#include "compiler/blocks/hyper.h"
#include "compiler/blocks/moe.h"
#include "frontends/gguf/arch/arch.h"
#include "frontends/gguf/arch/decoder.h"
#include "frontends/gguf/arch/experts.h"
#include "frontends/gguf/arch/hyper.h"

namespace gc::gguf {
namespace {

constexpr std::int64_t kIndexed = 4, kFar = 128;  // ratios

constexpr Form kForm{.name = "deepseek4",
                     .experts = {.in = Form::Experts::In::Layers,
                                 .weights = Form::Experts::Weights::ByKey,
                                 .norm = Form::Experts::Norm::ByKey,
                                 .limits_of_layers = true,
                                 .limits_before_fn = true,
                                 .shared_limits_default = true}};

struct Sizes {
  DecoderSizes s;
  std::int64_t q_rank = 0, window = 0, groups = 0, out_rank = 0, hash_layers = 0;
  std::vector<std::int64_t> ratios;
  std::int64_t chosen = 0;  // rows of 4 tokens that are seen; 0: all
  ir::RopeArgs near, far;   // of layers without and with compressed rows
  ExpertSizes experts;
};

struct Layer {
  blocks::Hyper attn_hyper, ffn_hyper;
  blocks::Norm attn_norm, ffn_norm;
  blocks::CompressedAttention attn;
  blocks::Moe moe;
};

Sizes read_keys(const Keys& keys, std::vector<std::string>& warnings) {
  refuse_unknown_forms(keys, {.experts = true});
  Sizes k{.s = decoder_sizes(keys),
          .q_rank = keys.size("attention.q_lora_rank"),
          .window = keys.size("attention.sliding_window"),
          .groups = keys.size("attention.output_group_count"),
          .out_rank = keys.size("attention.output_lora_rank"),
          .hash_layers = keys.file().get_u32(keys.full("hash_layer_count"), 0)};
  const blocks::HeadShape& heads = k.s.heads[0];
  if (heads.n_head_kv != 1) keys.fail("attention.head_count_kv", cat("expected 1, found ", heads.n_head_kv));
  if (heads.v_dim != heads.k_dim)
    keys.fail("attention.value_length",
              cat("expected attention.key_length ", heads.k_dim, ", found ", heads.v_dim));
  if (heads.n_head % k.groups != 0)
    keys.fail("attention.output_group_count",
              cat("expected a divisor of the ", heads.n_head, " heads, found ", k.groups));
  k.ratios = keys.sizes("attention.compress_ratios", k.s.n_layer, 0);
  k.far = rope_args(keys, heads.k_dim, /*neox=*/false, /*own_local_dims=*/false,
                    "attention.compress_rope_freq_base");
  k.far.magnitude = 1;
  k.near = {.base = keys.positive("rope.freq_base", 10000), .dims = k.far.dims, .neox = false};
  bool indexed = false;
  for (const std::int64_t ratio : k.ratios) {
    if (ratio != 0 && ratio != kIndexed && ratio != kFar)
      keys.unsupported("attention.compress_ratios", cat("supported are 0, ", kIndexed, " and ", kFar));
    indexed = indexed || ratio == kIndexed;
  }
  if (indexed) {
    const std::int64_t used = keys.size("attention.indexer.top_k"), reach = kIndexed * used;
    if (reach < k.s.n_ctx_train) {
      k.chosen = used;
    } else {  // the whole context is seen: nothing chooses
      k.near.limit = k.far.limit = reach;
    }
  }
  k.experts = expert_sizes(keys, kForm, k.s.n_layer);
  if (k.experts.weights == ir::RouteArgs::Weights::SoftmaxOfChosen && k.hash_layers > 0)
    keys.unsupported("expert_gating_func", "a softmax of experts that tokens choose is not supported");
  return k;
}

// STEM_kv, STEM_gate, STEM_ape, STEM_norm: rows of `dim`, of halves with `overlap`.
blocks::Compressor compressor_of(Tensors& tensors, const std::string& stem, const DecoderSizes& s,
                                 std::int64_t every, std::int64_t dim, bool overlap) {
  const std::int64_t columns = overlap ? 2 * dim : dim;
  return {.dim = dim,
          .values = tensors.linear(stem + "_kv", columns, s.n_embd),
          .scores = tensors.linear(stem + "_gate", columns, s.n_embd),
          .ape = tensors.floats(stem + "_ape.weight", every, columns),
          .norm = tensors.rms_norm(stem + "_norm", dim, s.eps)};
}

void read_index(const Keys& keys, Tensors& tensors, const std::string& prefix, const Sizes& k,
                blocks::CompressedAttention& a) {
  const std::int64_t dim = keys.size("attention.indexer.key_length");
  if (dim < k.far.dims || dim % 2 != 0)
    keys.fail("attention.indexer.key_length", cat("expected an even number of at least the ", k.far.dims,
                                                  " dimensions that turn, found ", dim));
  a.index.n_head = keys.size("attention.indexer.head_count");
  a.index.used = k.chosen;
  a.index.q = tensors.linear(prefix + "indexer.attn_q_b", a.index.n_head * dim, k.q_rank);
  a.index.weights = tensors.linear(prefix + "indexer.proj", a.index.n_head, k.s.n_embd);
  a.index.comp = compressor_of(tensors, prefix + "indexer_compressor", k.s, a.every, dim, a.overlap);
}

blocks::CompressedAttention attention_of(const Keys& keys, Tensors& tensors, const std::string& prefix,
                                         const Sizes& k, std::int64_t i) {
  const DecoderSizes& s = k.s;
  const std::int64_t n_head = s.heads[i].n_head, dim = s.heads[i].k_dim, every = k.ratios[i];
  blocks::CompressedAttention a{.n_head = n_head, .dim = dim, .window = k.window};
  a.q_a = tensors.linear(prefix + "attn_q_a", k.q_rank, s.n_embd);
  a.q_a_norm = tensors.rms_norm(prefix + "attn_q_a_norm", k.q_rank, s.eps);
  a.q_b = tensors.linear(prefix + "attn_q_b", n_head * dim, k.q_rank);
  a.q_norm = {.kind = blocks::Norm::Kind::Rms, .eps = s.eps};
  a.kv = tensors.linear(prefix + "attn_kv", dim, s.n_embd);
  a.kv_norm = tensors.rms_norm(prefix + "attn_kv_a_norm", dim, s.eps);
  a.rope = every > 0 ? k.far : k.near;
  a.scale = 1 / std::sqrt(static_cast<double>(dim));
  a.sinks = tensors.vector(prefix + "attn_sinks.weight", n_head);
  a.out_a = tensors.pile(prefix + "attn_output_a.weight", k.groups, k.out_rank, n_head * dim / k.groups);
  a.out_b = tensors.linear(prefix + "attn_output_b", s.n_embd, k.groups * k.out_rank);
  if (every == 0) return a;
  a.every = every, a.overlap = every == kIndexed;
  a.comp = compressor_of(tensors, prefix + "attn_compressor", s, every, dim, a.overlap);
  if (every == kIndexed && k.chosen > 0) {
    read_index(keys, tensors, prefix, k, a);
    return a;
  }
  for (const char* part : {"indexer.", "indexer_compressor_"}) tensors.ignore_all(prefix + part);
  return a;
}

blocks::Moe moe_of(Tensors& tensors, const std::string& prefix, const Sizes& k, std::int64_t i) {
  blocks::Moe m = experts_of(tensors, kForm, of_layer(k.experts, i), prefix, k.s.n_embd, k.s.eps);
  m.shared.limit = k.experts.shared_limits[static_cast<std::size_t>(i)];
  tensors.ignore(prefix + "exp_probs_b_vl.bias");
  if (i >= k.hash_layers) return m;
  m.route.bias = {};
  m.route.of_token =
      tensors.numbers(prefix + "ffn_gate_tid2eid.weight", k.s.n_vocab, k.experts.used, k.experts.n);
  return m;
}

Layer layer_of(const Keys& keys, Tensors& tensors, const Sizes& k, std::int64_t i) {
  const std::string prefix = layer_prefix(i);
  return {.attn_hyper = hyper_of(tensors, keys, prefix + "hc_attn", k.s, Streams::Mixing),
          .ffn_hyper = hyper_of(tensors, keys, prefix + "hc_ffn", k.s, Streams::Mixing),
          .attn_norm = tensors.rms_norm(prefix + "attn_norm", k.s.n_embd, k.s.eps),
          .ffn_norm = tensors.rms_norm(prefix + "ffn_norm", k.s.n_embd, k.s.eps),
          .attn = attention_of(keys, tensors, prefix, k, i),
          .moe = moe_of(tensors, prefix, k, i)};
}

// x: the streams [T, streams * n_embd].
ir::ValueId layer(ir::Builder& b, ir::ValueId x, const Layer& l, std::int64_t i) {
  const std::string prefix = layer_prefix(i), attn = prefix + "hc_attn_", ffn = prefix + "hc_ffn_";
  blocks::HyperRead in = hyper_read(b, x, l.attn_hyper, attn);
  ir::ValueId h = norm(b, in.x, l.attn_norm, prefix + "attn_norm");
  h = compressed_attention(b, h, l.attn, i, prefix);
  x = hyper_write(b, x, h, in, l.attn_hyper, attn, prefix + "attn_residual");
  in = hyper_read(b, x, l.ffn_hyper, ffn);
  h = norm(b, in.x, l.ffn_norm, prefix + "ffn_norm");
  return hyper_write(b, x, moe(b, h, h, l.moe, prefix), in, l.ffn_hyper, ffn, prefix + "l_out");
}

}  // namespace

LoadedModel load_deepseek4(const File& file) {
  // Keys.
  const Keys keys(file, kForm.name);
  std::vector<std::string> warnings;
  const Sizes k = read_keys(keys, warnings);
  const DecoderSizes& s = k.s;

  // Tensors.
  ir::Builder b("deepseek4.step");
  Tensors tensors(file, b);
  if (keys.predictors() > 0) tensors.ignore_layers_from(s.n_layer);
  const ir::WeightId embedding = tensors.matrix("token_embd.weight", s.n_vocab, s.n_embd);
  std::vector<Layer> layers;
  for (std::int64_t i = 0; i < s.n_layer; ++i) layers.push_back(layer_of(keys, tensors, k, i));
  const blocks::Hyper head_hyper = hyper_of(tensors, keys, "output_hc", s, Streams::Head);
  const blocks::Norm output_norm = tensors.rms_norm("output_norm", s.n_embd, s.eps);
  const blocks::Linear head = tensors.linear("output", s.n_vocab, s.n_embd);
  tensors.finish(warnings);

  // Graph.
  ir::ValueId x = blocks::spread(b, b.embed(embedding, "inp_embd"), head_hyper.streams, "inp_");
  for (std::int64_t i = 0; i < s.n_layer; ++i) {
    b.begin_layer(x);
    x = layer(b, x, layers[i], i);
  }
  b.end_layers(x);
  x = hyper_read(b, b.select(x, "outputs"), head_hyper, "hc_head_").x;
  b.output(linear(b, norm(b, x, output_norm, "output_norm"), head, "logits"));

  const std::vector<std::int64_t> windows(static_cast<std::size_t>(s.n_layer), k.window);
  return {.graph = b.take(), .info = model_info(keys, s, windows, tensors), .warnings = std::move(warnings)};
}

}  // namespace gc::gguf
