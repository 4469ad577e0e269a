#include "frontends/gguf/arch/dense.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "compiler/base/strings.h"
#include "compiler/blocks/layer.h"
#include "compiler/ir/builder.h"
#include "frontends/gguf/arch/decoder.h"
#include "frontends/gguf/arch/embedding.h"
#include "frontends/gguf/arch/experts.h"
#include "frontends/gguf/arch/hyper.h"
#include "frontends/gguf/arch/latent.h"
#include "frontends/gguf/arch/recurrent.h"
#include "frontends/gguf/arch/tensors.h"

namespace gc::gguf {
namespace {

using HeadNorms = Form::HeadNorms;
using NormAt = blocks::Attention::NormAt;

// What keys say of all layers.
struct Shared {
  DecoderSizes s;
  ExpertSizes experts;
  std::vector<std::int64_t> windows;
  std::vector<bool> rope_pattern;  // with Turned::ByKey
  std::vector<bool> recurrent;     // of each layer, where there are mixers
  bool ahead = false;              // later positions are seen too
  ir::RopeArgs rope, local_rope;
  LatentSizes latent, local_latent;  // where the form has it
  std::vector<bool> indexers;        // layers that choose positions; empty: attention isn't sparse
  std::int64_t reach = 0;            // Form::reach
  blocks::Residuals residuals;
  double gate_cap = 0, up_cap = 0;
  std::vector<blocks::Xielu> xielu;  // of each layer, where the form has it
  std::optional<blocks::Temper> temper;
  double out_scale = 1;
  double alibi = 0, clamp = 0, attention_scale = 0, embedding_scale = 0, residual_scale = 0, logit_scale = 0;
};

double ntk_base(const Keys& keys, double base, double dims) {
  const double alpha = keys.factor("rope.scaling.alpha");
  return alpha == 0 ? base : base * std::pow(alpha, dims / (dims - 2));
}

std::int64_t half_of(const Keys& keys, std::int64_t dims) {
  if (dims % 4 != 0)
    keys.fail("rope.dimension_count", cat("expected a multiple of 4, of which half is turned, found ", dims));
  return dims / 2;
}

// Dimensions that the layers turn which turn most.
std::int64_t most_turned(const Shared& k) {
  const bool slides = std::ranges::any_of(k.windows, [](std::int64_t window) { return window > 0; });
  return slides ? std::max(k.rope.dims, k.local_rope.dims) : k.rope.dims;
}

// Files have the parameters that were trained, of which softplus is the factor. xielu.eps, which keeps the trained
// function's exponent below 0 at 0, has no meaning: there exp(0) - 1 = 0.
std::vector<blocks::Xielu> xielu_of(const Keys& keys, std::int64_t n_layer) {
  const auto of = [&](const char* key) { return keys.of_layers(key, n_layer); };
  const std::vector<double> p = of("xielu.alpha_p"), n = of("xielu.alpha_n"), beta = of("xielu.beta");
  const auto softplus = [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); };
  std::vector<blocks::Xielu> all;
  for (std::size_t i = 0; i < p.size(); ++i)
    all.push_back({.alpha_p = softplus(p[i]), .alpha_n = beta[i] + softplus(n[i]), .beta = beta[i]});
  return all;
}

std::optional<blocks::Temper> temper_of(const Keys& keys, const Form& f) {
  const double by = keys.factor("attention.temperature_scale");
  if (by == 0) return {};
  if (f.latent.there) return blocks::Temper{.by = by, .period = keys.size("attention.temperature_length")};
  return blocks::Temper{.by = by, .period = original_context(keys)};
}

void read_logit_scale(const Keys& keys, const Form& f, Shared& k, std::vector<std::string>& warnings) {
  switch (f.logits) {
    case Form::Logits::Plain:
      return keys.warn_unless_zero("logit_scale", warnings);
    case Form::Logits::TimesIfThere:
      k.logit_scale = keys.factor("logit_scale");
      return;
    case Form::Logits::Fixed:
      k.logit_scale = f.logit_scale;
      return;
    case Form::Logits::Times:
    case Form::Logits::Over:
      k.logit_scale =
          f.logit_scale > 0 ? keys.positive("logit_scale", f.logit_scale) : keys.positive("logit_scale");
      return;
  }
}

std::vector<bool> recurrent_layers(const Keys& keys, const Form& f, const DecoderSizes& s) {
  const auto n_layer = static_cast<std::size_t>(s.n_layer);
  std::vector<bool> layers(n_layer, f.mixer != nullptr && f.mixer_beside);
  if (f.mixer == nullptr || f.mixer_beside) return layers;
  if (f.recurrent_key) return recurrent_by_key(keys, s.n_layer);
  for (std::size_t i = 0; i < n_layer; ++i) layers[i] = s.heads[i].n_head_kv == 0;
  return layers;
}

Shared read_keys(const Keys& keys, const Form& f, std::vector<std::string>& warnings) {
  refuse_unknown_forms(keys, {.alibi = f.alibi_key || f.alibi > 0,
                              .clamp = f.clamp_key,
                              .experts = f.unused_experts || f.experts.in != Form::Experts::In::None,
                              .ahead = f.ahead || embeds(keys)});
  const char* eps = f.norm == blocks::Norm::Kind::Rms ? kRmsEps : kLayerNormEps;
  const MayBeZero zero{.eps = f.zero_eps, .layers = f.pruned || f.mixer != nullptr};
  Shared k{.s = decoder_sizes(keys, eps, zero, f.latent.local_sizes)};
  k.recurrent = recurrent_layers(keys, f, k.s);
  k.ahead = f.ahead || (embeds(keys) && !keys.file().get_bool(keys.full("attention.causal"), true));
  for (std::int64_t& n : k.s.n_ff) n /= f.ff_divisor;
  if (f.experts.in != Form::Experts::In::None) k.experts = expert_sizes(keys, f, k.s.n_layer);
  k.windows.assign(static_cast<std::size_t>(k.s.n_layer), 0);
  if (f.slides) {
    k.windows = layer_windows(keys, k.s.n_layer, f.default_window, f.period, f.first_sees_all);
  } else {
    keys.warn_unless_zero("attention.sliding_window", warnings);
  }
  for (std::int64_t& window : k.windows) {
    if (!k.ahead || window == 0) continue;
    if (!f.centred)
      keys.unsupported("attention.sliding_window", "windows that see later tokens are not supported here");
    window = window / 2 + 1;
  }
  if (f.turn != Form::Turn::None) {
    k.rope = rope_args(keys, k.s.heads[0].k_dim, f.turn == Form::Turn::Halves, f.local_dims);
    if (f.ntk_alpha) k.rope.base = ntk_base(keys, k.rope.base, static_cast<double>(k.s.heads[0].k_dim));
    if (f.turned == Form::Turned::ByKey) {
      k.rope_pattern = keys.flags("attention.rope_pattern", k.s.n_layer, true);
    }
    k.local_rope = k.rope;
    if (!f.local_scaled) k.local_rope = {.base = k.rope.base, .dims = k.rope.dims, .neox = k.rope.neox};
    if (f.local_base > 0) k.local_rope.base = f.local_base;
    if (f.local_dims) k.local_rope.dims = local_rope_dims(keys, k.rope, k.s.heads[0].k_dim);
    if (f.half_dims) k.rope.dims = half_of(keys, k.rope.dims);
    k.local_rope.base = keys.positive("rope.freq_base_swa", k.local_rope.base);
  }
  if (f.latent.there) {
    k.latent = latent_sizes(keys, f, k.rope, /*local=*/false);
    k.local_latent = f.latent.local_sizes ? latent_sizes(keys, f, k.local_rope, /*local=*/true) : k.latent;
  }
  k.reach = f.reach;
  if (f.indexer.there) {
    const std::int64_t used = keys.size("attention.indexer.top_k");
    if (used < k.s.n_ctx_train) {
      k.indexers = indexer_owners(keys, f, k.s.n_layer, k.s.n_ctx_train);
      if (!k.latent.absorbed || k.latent.q_rank == 0)
        keys.unsupported(
            "attention.indexer.top_k",
            "without key_length_mla, value_length_mla and q_lora_rank, sparse attention is not supported");
    } else {
      k.reach = used;  // the whole context is seen: nothing chooses
    }
  }
  if (f.residuals) {
    const std::uint32_t every = keys.file().get_u32(keys.full("attn_res.block_size"), 0);
    if (every > 0) k.residuals = {.every = keys.size("attn_res.block_size"), .eps = k.s.eps};
  }
  if (f.situ) {
    k.gate_cap = keys.positive("activation.situ_beta");
    k.up_cap = keys.factor("activation.situ_linear_beta");
  }
  if (f.xielu) k.xielu = xielu_of(keys, k.s.n_layer);
  k.alibi = f.alibi_key ? keys.factor("attention.max_alibi_bias", f.alibi) : f.alibi;
  if (f.clamp_key) k.clamp = keys.factor("attention.clamp_kqv");
  if (f.temper_key) k.temper = temper_of(keys, f);
  if (f.value_scale_key && keys.factor("attention.value_scale") != 0)
    k.out_scale = keys.positive("attention.value_scale");
  k.embedding_scale = f.embedding_scale, k.residual_scale = f.residual_scale;
  if (!f.scale_keys) {
    for (const char* suffix : {"embedding_scale", "residual_scale"}) keys.warn_unless_zero(suffix, warnings);
  } else {
    k.attention_scale = keys.factor("attention.scale");
    k.embedding_scale = keys.factor("embedding_scale", f.embedding_scale);
    k.residual_scale = keys.factor("residual_scale", f.residual_scale);
  }
  read_logit_scale(keys, f, k, warnings);
  return k;
}

// The norm of one place in a layer or beside the layers.
blocks::Norm norm_of(Tensors& tensors, const Form& f, const std::string& prefix, const char* stem,
                     const DecoderSizes& s) {
  if (stem == nullptr) return {};
  if (!f.norm_weights) return {.kind = f.norm, .eps = s.eps};
  blocks::Norm n = tensors.norm(f.norm, prefix + stem, s.n_embd, s.eps);
  if (f.rms_biases) n.bias = tensors.vector(prefix + stem + ".bias", s.n_embd);
  return n;
}

void head_norms(Tensors& tensors, const Form& f, const std::string& prefix, double eps,
                blocks::Attention& a) {
  const blocks::HeadShape& h = a.shape;
  const std::string q = prefix + "attn_q_norm", k = prefix + "attn_k_norm";
  const bool there = tensors.has(q + ".weight");
  switch (f.head_norms) {
    case HeadNorms::None:
      return;
    case HeadNorms::EachIfThere:
      if (!there) return;
      [[fallthrough]];
    case HeadNorms::Each:
    case HeadNorms::EachTurned:
      a.q_norm = tensors.norm(f.norm, q, h.k_dim, eps);
      a.k_norm = tensors.norm(f.norm, k, h.k_dim, eps);
      a.norm_at = f.head_norms == HeadNorms::EachTurned ? NormAt::TurnedHeads : NormAt::Heads;
      return;
    case HeadNorms::WholeIfThere:
      if (!there) return;
      [[fallthrough]];
    case HeadNorms::Whole:
      a.q_norm = tensors.norm(f.norm, q, h.q_rows(), eps);
      a.k_norm = tensors.norm(f.norm, k, h.k_rows(), eps);
      a.norm_at = NormAt::Whole;
      return;
    case HeadNorms::OwnWeightsIfThere:
      if (!there) return;
      [[fallthrough]];
    case HeadNorms::OwnWeights:
      a.q_norm = a.k_norm = {.kind = f.norm, .eps = eps};
      a.q_gain = tensors.flat(q + ".weight", h.n_head, h.k_dim);
      a.k_gain = tensors.flat(k + ".weight", h.n_head_kv, h.k_dim);
      return;
  }
}

bool turns(const Form& f, const Shared& k, std::int64_t layer) {
  if (f.turn == Form::Turn::None) return false;
  switch (f.turned) {
    case Form::Turned::All:
      return true;
    case Form::Turned::Never:
      return false;
    case Form::Turned::Sliding:
      return k.windows[layer] > 0 || (f.leading_turn && layer < k.experts.first);
    case Form::Turned::NotEveryFourth:
      return (layer + 1) % 4 != 0;
    case Form::Turned::ByKey:
      return k.rope_pattern[layer];
  }
  return true;
}

blocks::Linear gate_of(Tensors& tensors, const Form& f, const std::string& prefix, std::int64_t n_head,
                       std::int64_t n_values, std::int64_t n_embd) {
  const std::string stem = prefix + "attn_gate";
  switch (f.gates) {
    case Form::Gates::None:
      return {};
    case Form::Gates::OfHeads:
      return tensors.linear(stem, n_head, n_embd);
    case Form::Gates::OfValues:
      return tensors.linear(stem, n_values, n_embd);
    case Form::Gates::OfEither:
      return tensors.linear(stem, tensors.rows_of(stem + ".weight") == n_head ? n_head : n_values, n_embd);
  }
  return {};
}

ir::WeightId sinks_of(Tensors& tensors, const Form& f, const std::string& prefix, std::int64_t n_head) {
  const std::string name = prefix + "attn_sinks.weight";
  const bool there = f.sinks == Form::Sinks::Needed || (f.sinks == Form::Sinks::IfThere && tensors.has(name));
  return there ? tensors.vector(name, n_head) : ir::WeightId{};
}

blocks::Attention attention_of(Tensors& tensors, const Form& f, const Shared& k, std::int64_t layer) {
  const std::string prefix = layer_prefix(layer);
  const auto dim = static_cast<double>(k.s.heads[layer].k_dim);
  blocks::Attention a{.shape = k.s.heads[layer]};
  if (a.shape.n_head_kv == 0) {
    a.out = tensors.linear(prefix + "attn_output", k.s.n_embd, k.s.n_embd);
    return a;
  }
  a.qkv = tensors.qkv(prefix, a.shape, k.s.n_embd, f.gate_in_q);
  a.gate_in_q = f.gate_in_q;
  if (!f.qkv_bias) a.qkv.fused.bias = a.qkv.q.bias = a.qkv.k.bias = a.qkv.v.bias = {};
  a.clamp = k.clamp;
  head_norms(tensors, f, prefix, k.s.eps, a);
  if (turns(f, k, layer)) a.rope = k.windows[layer] > 0 ? k.local_rope : k.rope;
  a.temper = k.temper;
  a.scale = k.attention_scale > 0 ? k.attention_scale : f.score_by_dim ? 1 / dim : 1 / std::sqrt(dim);
  if (f.score_scale > 0) a.scale = f.score_scale;
  a.cap = f.score_cap;
  if (f.plain_turned_norms && a.rope) {
    a.q_norm = a.k_norm = {.kind = blocks::Norm::Kind::Rms, .eps = k.s.eps};
    a.norm_at = NormAt::TurnedHeads;
  }
  if (f.unturned_temper_period > 0 && !a.rope)
    a.temper = blocks::Temper{.by = 0.1, .period = f.unturned_temper_period, .offset = 1};
  a.alibi = k.alibi;
  a.window = k.windows[layer];
  a.ahead = k.ahead;
  a.sinks = sinks_of(tensors, f, prefix, a.shape.n_head);
  a.gate = gate_of(tensors, f, prefix, a.shape.n_head, a.shape.out_cols(), k.s.n_embd);
  a.gate_fn = f.gate_fn;
  a.out = tensors.linear(prefix + "attn_output", k.s.n_embd, a.shape.out_cols());
  if (!f.out_bias) a.out.bias = {};
  a.out_scale = k.out_scale;
  if (f.sub_norms) a.out_norm = tensors.norm(f.norm, prefix + "attn_sub_norm", a.shape.out_cols(), k.s.eps);
  return a;
}

blocks::Ffn ffn_of(Tensors& tensors, const Form& f, const std::string& prefix, std::int64_t n_ff,
                   std::int64_t n_embd, double eps) {
  if (f.gate == Form::Gate::Own) {
    blocks::Ffn ffn = tensors.gated_ffn(prefix, n_ff, n_embd, f.fn);
    if (!f.ffn_bias) ffn.gate.bias = ffn.up.bias = ffn.down.bias = {};
    ffn.limit = f.ffn_limit, ffn.up_one = f.ffn_up_one;
    if (f.sub_norms) ffn.down_norm = tensors.norm(f.norm, prefix + "ffn_sub_norm", n_ff, eps);
    return ffn;
  }
  const bool joined = f.gate == Form::Gate::InUp;
  blocks::Ffn ffn{.up = tensors.linear(prefix + "ffn_up", joined ? 2 * n_ff : n_ff, n_embd),
                  .down = tensors.linear(prefix + "ffn_down", n_embd, n_ff),
                  .fn = f.fn,
                  .gate_in_up = joined};
  if (!joined) ffn.divisors = tensors.find_vector(prefix + "ffn.act.scales", n_ff);
  return ffn;
}

// Whether an indexer stands in this layer or in one before it, none of which slides.
bool choosing(const Shared& k, std::int64_t layer) {
  for (std::int64_t i = 0; i <= layer && !k.indexers.empty(); ++i)
    if (k.indexers[static_cast<std::size_t>(i)] && k.windows[static_cast<std::size_t>(i)] == 0) return true;
  return false;
}

blocks::LatentAttention latent_attention_of(const Keys& keys, Tensors& tensors, const Form& f,
                                            const Shared& k, std::int64_t layer) {
  const bool slides = k.windows[layer] > 0;
  const std::string prefix = layer_prefix(layer);
  blocks::LatentAttention a = latent_of(tensors, f, slides ? k.local_latent : k.latent, prefix,
                                        k.s.heads[layer].n_head, k.s.n_embd, k.s.eps);
  if (turns(f, k, layer)) a.rope = slides ? k.local_rope : k.rope;
  if (!a.rope) a.reach = k.reach;  // which RoPE's tables bound else
  a.temper = k.temper;
  a.window = k.windows[layer];
  a.sinks = sinks_of(tensors, f, prefix, a.n_head);
  a.gate = gate_of(tensors, f, prefix, a.n_head, a.n_head * a.v_dim, k.s.n_embd);
  a.gate_fn = f.gate_fn;
  a.sparse = !k.indexers.empty() && !slides;
  if (!a.sparse) return a;
  if (!choosing(k, layer))
    keys.fail("attention.indexer.types", cat("layer ", layer, " has no indexer, and none is before it"));
  if (k.indexers[static_cast<std::size_t>(layer)])
    a.indexer = indexer_of(keys, tensors, f, k.rope, prefix, k.latent.q_rank, k.s.n_embd, k.s.eps);
  return a;
}

// The feed-forward network or the experts of a layer, or both.
void feed_forward(Tensors& tensors, const Form& f, const Shared& k, std::int64_t i, blocks::Layer& l) {
  const bool routed = !f.experts.where_routed || tensors.has(l.prefix + "ffn_gate_inp.weight");
  const bool experts = routed && experts_in_layer(k.experts, i);
  const bool beside = f.experts.dense == Form::Experts::Dense::Before;
  if (!experts || beside)
    l.ffn = ffn_of(tensors, f, l.prefix, dense_size(tensors, f, l.prefix, k.s.n_ff[i]), k.s.n_embd, k.s.eps);
  if (experts) l.moe = experts_of(tensors, f, of_layer(k.experts, i), l.prefix, k.s.n_embd, k.s.eps);
  if (f.xielu) l.ffn.xielu = k.xielu[static_cast<std::size_t>(i)];
  if (!k.experts.shared_limits.empty())
    for (blocks::Ffn* ffn : {&l.ffn, &l.moe.shared})
      ffn->limit = k.experts.shared_limits[static_cast<std::size_t>(i)],
      ffn->limit_out = !f.experts.limits_before_fn;
  for (blocks::Ffn* ffn : {&l.ffn, &l.moe.shared}) ffn->gate_cap = k.gate_cap, ffn->up_cap = k.up_cap;
  l.moe.experts.gate_cap = k.gate_cap, l.moe.experts.up_cap = k.up_cap;
  if (!experts) return;
  l.early_router = f.experts.early_router;
  if (beside) l.moe_norm = norm_of(tensors, f, l.prefix, "ffn_norm_exps", k.s);
}

// The context is as long as the graph is right.
void limit_reach(const Form& f, Shared& k, std::vector<std::string>& warnings) {
  if (k.reach == 0) return;
  for (ir::RopeArgs* rope : {&k.rope, &k.local_rope})
    rope->limit = rope->limit == 0 ? k.reach : std::min(rope->limit, k.reach);
  if (f.indexed && k.reach < k.s.n_ctx_train)
    warnings.push_back(cat("sparse attention is not supported yet: the context ends at ", k.reach,
                           " tokens, up to where it sees all, the model was made for ", k.s.n_ctx_train));
}

blocks::Layer layer_of(const Keys& keys, Tensors& tensors, const Form& f, const Shared& k, std::int64_t i) {
  const DecoderSizes& s = k.s;
  const blocks::HeadShape& heads = s.heads[i];
  blocks::Layer l{.prefix = layer_prefix(i), .parallel = f.parallel};
  const bool network = s.n_ff[i] > 0, alone = f.single && network;
  const bool recurrent = k.recurrent[i] && !alone;
  const bool attends = !alone && (f.mixer == nullptr ? heads.n_head > 0 : !recurrent || f.mixer_beside);
  if (attends || recurrent) {
    const bool none = f.first_unnormed && i == 0 && !tensors.has(l.prefix + f.attn_norm + ".weight");
    if (!none) l.attn_norm = norm_of(tensors, f, l.prefix, f.attn_norm, s);
    if (attends && f.latent.there) {
      l.latent = latent_attention_of(keys, tensors, f, k, i);
    } else if (attends) {
      l.attn = attention_of(tensors, f, k, i);
    }
    if (recurrent) l.mixer = f.mixer(keys, tensors, s, l.prefix);
    l.post_attn_norm = norm_of(tensors, f, l.prefix, f.post_attn_norm, s);
  }
  if (network) {
    l.ffn_norm = norm_of(tensors, f, l.prefix, f.single ? f.attn_norm : f.ffn_norm, s);
    feed_forward(tensors, f, k, i, l);
    l.post_ffn_norm = norm_of(tensors, f, l.prefix, f.post_ffn_norm, s);
  }
  if (f.hyper || f.hyper_mixes) {
    const Streams streams = f.hyper_mixes ? Streams::Mixing : Streams::Plain;
    l.attn_hyper = hyper_of(tensors, keys, l.prefix + "hc_attn", k.s, streams);
    l.ffn_hyper = hyper_of(tensors, keys, l.prefix + "hc_ffn", k.s, streams);
  }
  if (k.residuals) {
    l.residuals = k.residuals;
    l.attn_score = tensors.matrix(l.prefix + "attn_res_score.weight", 1, s.n_embd);
    l.ffn_score = tensors.matrix(l.prefix + "ffn_res_score.weight", 1, s.n_embd);
  }
  if (f.indexed || (f.indexer.there && !l.latent.indexer)) tensors.ignore_all(l.prefix + "indexer");
  if (k.residual_scale > 0) l.branch_scale = k.residual_scale;
  return l;
}

}  // namespace

LoadedModel load_dense(const File& file, const Form& f) {
  // Keys.
  const Keys keys(file, f.name);
  std::vector<std::string> warnings;
  Shared k = read_keys(keys, f, warnings);
  const DecoderSizes& s = k.s;

  // Tensors.
  ir::Builder b(std::string(f.name) + ".step");
  Tensors tensors(file, b);
  const ir::WeightId embedding = tensors.matrix("token_embd.weight", s.n_vocab, s.n_embd);
  ir::WeightId positions;
  if (f.position_table == Form::Table::Needed ||
      (f.position_table == Form::Table::IfThere && tensors.has("position_embd.weight")))
    positions = tensors.matrix("position_embd.weight", s.n_ctx_train, s.n_embd);
  const blocks::Norm token_norm = norm_of(tensors, f, "", f.token_norm, s);
  if (f.turn != Form::Turn::None && f.factors) {
    rope_factors(keys, tensors, k.rope, most_turned(k));
    if (!f.half_dims) {
      k.local_rope.factors = k.rope.factors, k.local_rope.long_factors = k.rope.long_factors;
      k.local_rope.short_context = k.rope.short_context;
    }
  } else {
    tensors.ignore("rope_freqs.weight");
  }
  limit_reach(f, k, warnings);
  std::vector<blocks::Layer> layers;
  if (keys.predictors() > 0) tensors.ignore_layers_from(s.n_layer);
  for (std::int64_t i = 0; i < s.n_layer; ++i) {
    layers.push_back(layer_of(keys, tensors, f, k, i));
  }
  const blocks::Norm output_norm = norm_of(tensors, f, "", f.output_norm, s);
  blocks::Hyper head_hyper;
  if (f.hyper) head_hyper = hyper_of(tensors, keys, "output_hc", s, Streams::Head);
  ir::WeightId output_score;
  if (k.residuals) output_score = tensors.matrix("output_res_score.weight", 1, s.n_embd);
  const bool own_head =
      f.head == Form::Head::Own || (f.head == Form::Head::OwnIfThere && tensors.has("output.weight"));
  blocks::Linear head = own_head ? tensors.linear("output", s.n_vocab, s.n_embd)
                                 : blocks::Linear{embedding, tensors.find_vector("output.bias", s.n_vocab)};
  if (!f.head_bias) head.bias = {};
  if (k.ahead) tensors.ignore_all("cls.");  // a classifier beside the embedding
  tensors.finish(warnings);

  // Graph. x: the residual stream [T, n_embd].
  ir::ValueId x = b.embed(embedding, "inp_embd");
  if (k.embedding_scale > 0) x = b.scale(x, k.embedding_scale, "inp_scaled");
  if (positions.valid()) x = b.add(x, b.embed_position(positions, "pos_embd"), "inp_pos");
  x = norm(b, x, token_norm, "inp_norm");
  if (f.hyper || f.hyper_mixes) x = blocks::spread(b, x, keys.size("hyper_connection.count"), "inp_");
  blocks::Kept kept;
  for (std::int64_t i = 0; i < s.n_layer; ++i) {
    b.begin_layer(x);
    x = layer(b, x, layers[i], i, &kept);
  }
  b.end_layers(x);
  if (k.residuals) x = blocks::read_residuals(b, x, kept.residuals, k.residuals, output_score, "output_res_");
  x = b.select(x, "outputs");
  if (f.hyper) x = blocks::hyper_read(b, x, head_hyper, "hc_head_").x;
  if (f.hyper_mixes) x = blocks::stream_mean(b, x, keys.size("hyper_connection.count"), "hc_mean");
  x = norm(b, x, output_norm, "output_norm");  // [R, n_embd]
  const bool scaled = k.logit_scale > 0 && k.logit_scale != 1;
  x = linear(b, x, head, scaled ? "logits_raw" : "logits");
  if (scaled) x = b.scale(x, f.logits == Form::Logits::Over ? 1 / k.logit_scale : k.logit_scale, "logits");
  b.output(x);

  return {
      .graph = b.take(), .info = model_info(keys, s, k.windows, tensors), .warnings = std::move(warnings)};
}

}  // namespace gc::gguf
