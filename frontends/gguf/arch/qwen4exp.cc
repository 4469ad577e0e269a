// Qwen 4 Experimental: Qwen 3.5's layers (the gated delta rule, its outputs gated by a sigmoid, and attention with gates in
// the queries; experts in all) between several residual streams, read and written by gates of low rank that stand for
// norms; a layer has beside that a memory of n-grams. An indexer chooses among blocks of positions: up to indexer.top_k all
// are seen, where the context ends. Its attention's biases, which files may carry, have no meaning.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "compiler/base/error.h"
#include "compiler/blocks/delta.h"
#include "compiler/blocks/hyper.h"
#include "compiler/blocks/moe.h"
#include "compiler/blocks/ngram.h"
#include "frontends/gguf/arch/arch.h"
#include "frontends/gguf/arch/decoder.h"
#include "frontends/gguf/arch/experts.h"
#include "frontends/gguf/arch/recurrent.h"

namespace gc::gguf {
namespace {

constexpr std::int64_t kMaxTokens = 8, kMaxHeads = 64;  // of an n-gram
constexpr std::uint32_t kMaxTaps = 64;

constexpr Form kForm{.name = "qwen4exp",
                     .experts = {.in = Form::Experts::In::Layers, .norm = Form::Experts::Norm::Always}};

struct Layer {
  blocks::GatedHyper attn_hyper, ffn_hyper;
  blocks::Mixer mixer;  // or:
  blocks::Attention attn;
  blocks::Moe moe;
  std::optional<blocks::NgramMemory> memory;
};

// STEM_norm, STEM_down, STEM_up, and STEM_inject but of the head.
blocks::GatedHyper hyper_of(const Keys& keys, Tensors& tensors, const std::string& stem,
                            const DecoderSizes& s, bool injects) {
  const std::int64_t n = keys.size("hyper_connection.count"), few = keys.size("hyper_connection.low_rank");
  const std::int64_t all = n * s.n_embd;
  blocks::GatedHyper h{.streams = n, .norm = tensors.flat(stem + "_norm.weight", n, s.n_embd), .eps = s.eps};
  h.down.weight = tensors.matrix(stem + "_down.weight", few, all);
  h.up.weight = tensors.matrix(stem + "_up.weight", all, few);
  if (injects) h.inject.weight = tensors.matrix(stem + "_inject.weight", n, all);
  return h;
}

// `count` whole numbers from `least` up.
std::vector<std::int64_t> numbers(const Keys& keys, const char* suffix, std::int64_t count,
                                  std::int64_t least) {
  const Value* value = keys.file().find(keys.full(suffix));
  if (value == nullptr || !value->is_array() || static_cast<std::int64_t>(value->count()) < count)
    keys.fail(suffix, cat("expected ", count, " numbers, found ", value ? value->describe() : "none"));
  std::vector<std::int64_t> list;
  for (std::int64_t i = 0; i < count; ++i) {
    list.push_back(value->as_int(static_cast<std::uint64_t>(i)).value_or(-1));
    if (list.back() < least || list.back() > std::numeric_limits<std::int64_t>::max() / 2)
      keys.fail(suffix, cat("expected numbers from ", least, " up, found ", value->describe()));
  }
  return list;
}

// The layer that has the memory; none: -1.
std::int64_t memory_layer(const Keys& keys, const std::vector<bool>& recurrent) {
  const char* suffix = "ple.layers";
  const Value* value = keys.file().find(keys.full(suffix));
  if (value == nullptr || value->count() == 0) return -1;
  if (value->count() > 1) keys.unsupported(suffix, "memories of n-grams in several layers");
  const std::int64_t layer = value->as_int(0).value_or(-1);
  if (layer < 0 || layer >= static_cast<std::int64_t>(recurrent.size()))
    keys.fail(suffix, cat("expected one of the ", recurrent.size(), " layers, found ", value->describe()));
  return layer;
}

blocks::NgramMemory memory_of(const Keys& keys, Tensors& tensors, const std::string& prefix,
                              const DecoderSizes& s) {
  const std::int64_t n_tokens = keys.size("ple.ngram_size", kMaxTokens);
  if (n_tokens < 2) keys.fail("ple.ngram_size", cat("expected 2 to ", kMaxTokens, ", found ", n_tokens));
  const std::int64_t heads = (n_tokens - 1) * keys.size("ple.heads_per_ngram", kMaxHeads);
  if (heads > kMaxHeads)
    keys.fail("ple.heads_per_ngram", cat("expected at most ", kMaxHeads, " heads in all, found ", heads));
  const std::int64_t streams = keys.size("hyper_connection.count"), all = streams * s.n_embd;
  const std::int64_t dim = keys.size("embedding_length_per_layer_input");
  const std::string table = "per_layer_token_embd.weight";
  const std::int64_t rows = tensors.rows_of(table);
  blocks::NgramMemory m{.streams = streams, .eps = s.eps};
  m.rows = {.table = tensors.matrix(table, rows, dim),
            .multipliers = numbers(keys, "ple.layer_multipliers", n_tokens, 0),
            .sizes = numbers(keys, "ple.head_vocab_sizes", heads, 1),
            .begins = numbers(keys, "ple.head_offsets", heads, 0),
            .end_token = keys.file().get_u32(keys.full("ple.eos_token_id"))};
  for (std::int64_t h = 0; h < heads; ++h)
    if (m.rows.begins[h] > rows || m.rows.sizes[h] > rows - m.rows.begins[h])
      keys.fail("ple.head_vocab_sizes", cat("expected heads within the ", rows, " rows of ", table,
                                            ", found ", m.rows.sizes[h], " from ", m.rows.begins[h], " on"));
  m.key = tensors.linear(prefix + "ple_key", all, heads * dim);
  m.value = tensors.linear(prefix + "ple_value", s.n_embd, heads * dim);
  m.key_norm = tensors.flat(prefix + "ple_norm_key.weight", streams, s.n_embd);
  m.query_norm = tensors.flat(prefix + "ple_norm_query.weight", streams, s.n_embd);
  m.conv_norm = tensors.flat(prefix + "ple_norm_conv.weight", streams, s.n_embd);
  m.conv = conv_of(tensors, prefix + "ple_conv1d", all, keys.size("ple.conv_kernel", kMaxTaps));
  m.conv.dilation = n_tokens;
  return m;
}

blocks::Attention attention_of(Tensors& tensors, const std::string& prefix, const DecoderSizes& s,
                               const blocks::HeadShape& heads, const ir::RopeArgs& rope) {
  blocks::Attention a{.shape = heads};
  a.qkv = tensors.qkv(prefix, heads, s.n_embd, /*gate_in_q=*/true);
  a.qkv.q.bias = a.qkv.k.bias = a.qkv.v.bias = {};
  a.q_norm = tensors.rms_norm(prefix + "attn_q_norm", heads.k_dim, s.eps);
  a.k_norm = tensors.rms_norm(prefix + "attn_k_norm", heads.k_dim, s.eps);
  a.rope = rope;
  a.scale = 1 / std::sqrt(static_cast<double>(heads.k_dim));
  a.gate_in_q = true;
  a.out.weight = tensors.matrix(prefix + "attn_output.weight", s.n_embd, heads.out_cols());
  tensors.ignore_all(prefix + "indexer.");
  return a;
}

Layer layer_of(const Keys& keys, Tensors& tensors, const DecoderSizes& s, const ExpertSizes& experts,
               const ir::RopeArgs& rope, std::int64_t i, bool recurrent, bool remembers) {
  const std::string prefix = layer_prefix(i);
  Layer l{.attn_hyper = hyper_of(keys, tensors, prefix + "hc_attn", s, true),
          .ffn_hyper = hyper_of(keys, tensors, prefix + "hc_ffn", s, true)};
  if (recurrent) {
    l.mixer = gated_delta_net_of(keys, tensors, s, prefix);
  } else {
    l.attn = attention_of(tensors, prefix, s, s.heads[i], rope);
  }
  l.moe = experts_of(tensors, kForm, experts, prefix, s.n_embd, s.eps);
  if (remembers) l.memory = memory_of(keys, tensors, prefix, s);
  return l;
}

// x: the streams [T, streams * n_embd].
ir::ValueId layer(ir::Builder& b, ir::ValueId x, const Layer& l, std::int64_t i) {
  const std::string prefix = layer_prefix(i), attn = prefix + "hc_attn_", ffn = prefix + "hc_ffn_";
  if (l.memory) x = ngram_memory(b, x, *l.memory, i, prefix);
  blocks::HyperRead in = gated_read(b, x, l.attn_hyper, attn);
  const ir::ValueId mixed =
      l.mixer ? l.mixer(b, in.x, i, prefix)
              : self_attention(b, in.x, l.attn, blocks::kv_state(b, i, l.attn.shape, 0), prefix);
  x = gated_write(b, x, mixed, in, attn, prefix + "attn_residual");
  in = gated_read(b, x, l.ffn_hyper, ffn);
  return gated_write(b, x, moe(b, in.x, in.x, l.moe, prefix), in, ffn, prefix + "l_out");
}

}  // namespace

LoadedModel load_qwen4exp(const File& file) {
  // Keys.
  const Keys keys(file, kForm.name);
  std::vector<std::string> warnings;
  refuse_unknown_forms(keys, {.experts = true});
  const DecoderSizes s = decoder_sizes(keys);
  ir::RopeArgs rope = rope_args(keys, s.heads[0].k_dim, /*neox=*/true);
  const std::int64_t reach = keys.size("attention.indexer.top_k");
  rope.limit = reach;
  if (reach < s.n_ctx_train)
    warnings.push_back(cat("sparse attention is not supported yet: the context ends at ", reach,
                           " tokens, up to where it sees all, the model was made for ", s.n_ctx_train));
  const ExpertSizes experts = expert_sizes(keys, kForm, s.n_layer);
  const std::vector<bool> recurrent = recurrent_by_key(keys, s.n_layer);
  const std::int64_t remembers = memory_layer(keys, recurrent), streams = keys.size("hyper_connection.count");

  // Tensors.
  ir::Builder b("qwen4exp.step");
  Tensors tensors(file, b);
  const ir::WeightId embedding = tensors.matrix("token_embd.weight", s.n_vocab, s.n_embd);
  std::vector<Layer> layers;
  for (std::int64_t i = 0; i < s.n_layer; ++i)
    layers.push_back(layer_of(keys, tensors, s, experts, rope, i, recurrent[i], i == remembers));
  const blocks::GatedHyper head_hyper = hyper_of(keys, tensors, "output_hc", s, false);
  const blocks::Linear head = tensors.has("output.weight") ? tensors.linear("output", s.n_vocab, s.n_embd)
                                                           : blocks::Linear{.weight = embedding};
  tensors.finish(warnings);

  // Graph.
  ir::ValueId x = blocks::spread(b, b.embed(embedding, "inp_embd"), streams, "inp_");
  for (std::int64_t i = 0; i < s.n_layer; ++i) {
    b.begin_layer(x);
    x = layer(b, x, layers[i], i);
  }
  b.end_layers(x);
  x = gated_read(b, b.select(x, "outputs"), head_hyper, "hc_head_").x;  // [R, n_embd]
  b.output(linear(b, x, head, "logits"));

  return {.graph = b.take(),
          .info = model_info(keys, s, /*windows=*/{}, tensors),
          .warnings = std::move(warnings)};
}

}  // namespace gc::gguf
