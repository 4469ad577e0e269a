// RWKV 6 and 7, and models of Qwen 2's form (RMS norms, a gated hidden layer) whose attention became RWKV's time mixing.
// RWKV's own have layer norms, one more behind the embedding, and channel mixing in place of the hidden layer; halved rows
// every few layers keep f16 in its range, and files have their weights scaled to match.
#include "compiler/blocks/rwkv.h"

#include "compiler/base/strings.h"
#include "compiler/blocks/layer.h"
#include "frontends/gguf/arch/arch.h"
#include "frontends/gguf/arch/decoder.h"

namespace gc::gguf {
namespace {

using blocks::Norm;

struct Heads {
  std::int64_t dim, count;
};

Heads wkv_heads(const Keys& keys, std::int64_t n_embd) {
  const std::int64_t dim = keys.size("wkv.head_size");
  if (n_embd % dim != 0)
    keys.fail("wkv.head_size", cat("expected a divisor of embedding_length ", n_embd, ", found ", dim));
  return {dim, n_embd / dim};
}

blocks::HeadsNorm heads_norm(Tensors& tensors, const std::string& prefix, std::int64_t n_embd) {
  const std::string stem = prefix + "time_mix_ln";
  return {.weight = tensors.vector(stem + ".weight", n_embd), .bias = tensors.vector(stem + ".bias", n_embd)};
}

blocks::TimeMix6 time_mix6(const Keys& keys, Tensors& tensors, const DecoderSizes& s, std::int64_t layer,
                           const std::string& prefix) {
  const std::int64_t n = s.n_embd, rank = keys.size("time_mix_extra_dim");
  const auto [dim, heads] = wkv_heads(keys, n);
  const std::string mix = prefix + "time_mix_";
  const auto linear = [&](const char* part, std::int64_t out, std::int64_t in) {
    return tensors.linear(mix + part, out, in);
  };
  blocks::TimeMix6 m{.heads = heads, .groups = heads, .dim = dim, .rank = rank};
  if (const std::int64_t kv = s.heads[static_cast<std::size_t>(layer)].n_head_kv; kv > 0) {
    if (heads % kv != 0)
      keys.fail("attention.head_count_kv", cat("expected a divisor of the ", heads, " heads, found ", kv));
    m.groups = kv;
  }
  m.lerp_x = tensors.vector(mix + "lerp_x.weight", n);
  m.blend = linear("w1", 5 * rank, n);
  m.blend_up = tensors.stack(mix + "w2.weight", 5, n, rank);
  if (tensors.has(mix + "lerp_fused.weight")) {
    m.lerps = tensors.far_rows(mix + "lerp_fused.weight", 5, n, /*flat=*/true);
  } else {
    static constexpr const char* kParts[] = {"w", "k", "v", "r", "g"};
    for (std::size_t i = 0; i < m.lerp.size(); ++i)
      m.lerp[i] = tensors.vector(cat(mix, "lerp_", kParts[i], ".weight"), n);
  }
  const std::int64_t decay_rank = keys.size("time_decay_extra_dim");
  m.decay_down = linear("decay_w1", decay_rank, n);
  m.decay_up = linear("decay_w2", n, decay_rank);
  m.decay = tensors.vector(mix + "decay.weight", n);
  m.r = linear("receptance", n, n), m.g = linear("gate", n, n), m.out = linear("output", n, n);
  m.k = linear("key", m.groups * dim, n), m.v = linear("value", m.groups * dim, n);
  if (tensors.has(mix + "first.weight")) {
    m.bonus = tensors.floats(mix + "first.weight", heads, dim);
    m.norm = heads_norm(tensors, prefix, n);
  }
  return m;
}

blocks::TimeMix7 time_mix7(const Keys& keys, Tensors& tensors, const DecoderSizes& s, std::int64_t layer,
                           const std::string& prefix) {
  const std::int64_t n = s.n_embd;
  const auto [dim, heads] = wkv_heads(keys, n);
  const std::string mix = prefix + "time_mix_";
  const auto linear = [&](const char* part, std::int64_t out, std::int64_t in) {
    return tensors.linear(mix + part, out, in);
  };
  const auto vector = [&](const char* part) { return tensors.vector(cat(mix, part, ".weight"), n); };
  blocks::TimeMix7 m{.heads = heads, .dim = dim};
  m.r = linear("receptance", n, n), m.k = linear("key", n, n), m.v = linear("value", n, n);
  m.out = linear("output", n, n);
  const std::int64_t decay_rank = keys.size("attention.decay_lora_rank");
  m.w = vector("w0"), m.w_down = linear("w1", decay_rank, n), m.w_up = linear("w2", n, decay_rank);
  const std::int64_t a_rank = keys.size("attention.iclr_lora_rank");
  m.a = vector("a0"), m.a_down = linear("a1", a_rank, n), m.a_up = linear("a2", n, a_rank);
  const std::int64_t v_rank = keys.size("attention.value_residual_mix_lora_rank");
  if (layer == 0) {  // whose values are the first themselves
    for (const char* part : {"v0", "v1", "v2"}) tensors.ignore(cat(mix, part, ".weight"));
  } else {
    m.v_blend = vector("v0"), m.v_down = linear("v1", v_rank, n), m.v_up = linear("v2", n, v_rank);
  }
  const bool gated = tensors.has(mix + "g1.weight");
  if (gated) {
    const std::int64_t rank = keys.size("attention.gate_lora_rank");
    m.g_down = linear("g1", rank, n), m.g_up = linear("g2", n, rank);
  }
  m.lerps = tensors.far_rows(mix + "lerp_fused.weight", gated ? 6 : 5, n, /*flat=*/false);
  m.key_unit = vector("k_k"), m.key_blend = vector("k_a"), m.own = vector("r_k");
  if (tensors.has(mix + "ln.weight")) m.norm = heads_norm(tensors, prefix, n);
  return m;
}

blocks::ChannelMix channel_mix_of(Tensors& tensors, const DecoderSizes& s, std::int64_t layer,
                                  const std::string& prefix, bool gated) {
  const std::string mix = prefix + "channel_mix_";
  const std::int64_t n = s.n_embd, n_ff = s.n_ff[static_cast<std::size_t>(layer)];
  blocks::ChannelMix m{.lerp_k = tensors.vector(mix + "lerp_k.weight", n),
                       .k = tensors.linear(mix + "key", n_ff, n),
                       .v = tensors.linear(mix + "value", n, n_ff)};
  if (!gated) return m;
  m.lerp_r = tensors.vector(mix + "lerp_r.weight", n);
  m.r = tensors.linear(mix + "receptance", n, n);
  return m;
}

struct Variant {
  const char* name;
  bool seven;  // else six
  bool qwen;   // Qwen 2's form around the time mixing
};

struct LayerParts {
  Norm time_norm, channel_norm;
  blocks::TimeMix6 six;
  blocks::TimeMix7 seven;
  blocks::ChannelMix channel;
  blocks::Ffn ffn;
};

LayerParts layer_parts(const Keys& keys, Tensors& tensors, const DecoderSizes& s, const Variant& v,
                       std::int64_t i) {
  const std::string prefix = layer_prefix(i);
  const Norm::Kind kind = v.qwen ? Norm::Kind::Rms : Norm::Kind::Layer;
  LayerParts l{.time_norm = tensors.norm(kind, prefix + "attn_norm", s.n_embd, s.eps)};
  l.channel_norm = tensors.norm(kind, prefix + (v.qwen ? "ffn_norm" : "attn_norm_2"), s.n_embd, s.eps);
  if (v.seven)
    l.seven = time_mix7(keys, tensors, s, i, prefix);
  else
    l.six = time_mix6(keys, tensors, s, i, prefix);
  if (v.qwen)
    l.ffn = tensors.gated_ffn(prefix, s.n_ff[static_cast<std::size_t>(i)], s.n_embd, ir::Fn::silu);
  else
    l.channel = channel_mix_of(tensors, s, i, prefix, !v.seven);
  return l;
}

LoadedModel load(const File& file, const Variant& variant) {
  // Keys.
  const Keys keys(file, variant.name);
  std::vector<std::string> warnings;
  refuse_unknown_forms(keys);
  const DecoderSizes s = decoder_sizes(keys, variant.qwen ? kRmsEps : kLayerNormEps, {.layers = true});
  // The kin has no channel mixing, which shifts too.
  const std::int64_t shifts = variant.qwen ? 1 : 2;
  if (keys.find_size("token_shift_count").value_or(shifts) != shifts)
    keys.unsupported("token_shift_count", cat("layers shift ", shifts, " times here"));
  const double halved_every = keys.factor("rescale_every_n_layers");

  // Tensors.
  ir::Builder b(std::string(variant.name) + ".step");
  Tensors tensors(file, b);
  const ir::WeightId embedding = tensors.matrix("token_embd.weight", s.n_vocab, s.n_embd);
  Norm embedding_norm;
  if (!variant.qwen) embedding_norm = tensors.norm(Norm::Kind::Layer, "token_embd_norm", s.n_embd, s.eps);
  std::vector<LayerParts> layers;
  for (std::int64_t i = 0; i < s.n_layer; ++i) layers.push_back(layer_parts(keys, tensors, s, variant, i));
  const Norm output_norm =
      tensors.norm(variant.qwen ? Norm::Kind::Rms : Norm::Kind::Layer, "output_norm", s.n_embd, s.eps);
  const blocks::Linear head = tensors.linear("output", s.n_vocab, s.n_embd);
  tensors.finish(warnings);

  // Graph. x: the residual stream [T, n_embd].
  ir::ValueId x = norm(b, b.embed(embedding, "inp_embd"), embedding_norm, "inp_norm"), first;
  for (std::int64_t i = 0; i < s.n_layer; ++i) {
    const std::string prefix = layer_prefix(i);
    const LayerParts& l = layers[static_cast<std::size_t>(i)];
    b.begin_layer(x);
    ir::ValueId h = norm(b, x, l.time_norm, prefix + "attn_norm");
    h = variant.seven ? time_mix(b, h, l.seven, i, prefix, first) : time_mix(b, h, l.six, i, prefix);
    x = b.add(x, h, prefix + "time_residual");
    h = norm(b, x, l.channel_norm, prefix + "ffn_norm");
    h = variant.qwen ? ffn(b, h, l.ffn, prefix) : channel_mix(b, h, l.channel, i, prefix);
    x = b.add(x, h, prefix + "l_out");
    if (halved_every > 0 && (i + 1) % static_cast<std::int64_t>(halved_every) == 0)
      x = b.scale(x, 0.5, prefix + "l_out_halved");
  }
  b.end_layers(x);
  x = norm(b, b.select(x, "outputs"), output_norm, "output_norm");  // [R, n_embd]
  b.output(linear(b, x, head, "logits"));

  return {.graph = b.take(),
          .info = model_info(keys, s, /*windows=*/{}, tensors),
          .warnings = std::move(warnings)};
}

}  // namespace

LoadedModel load_rwkv6(const File& file) {
  return load(file, {.name = "rwkv6", .seven = false, .qwen = false});
}
LoadedModel load_rwkv7(const File& file) {
  return load(file, {.name = "rwkv7", .seven = true, .qwen = false});
}
LoadedModel load_rwkv6qwen2(const File& file) {
  return load(file, {.name = "rwkv6qwen2", .seven = false, .qwen = true});
}
LoadedModel load_arwkv7(const File& file) {
  return load(file, {.name = "arwkv7", .seven = true, .qwen = true});
}

}  // namespace gc::gguf
