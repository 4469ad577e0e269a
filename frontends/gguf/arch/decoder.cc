#include "frontends/gguf/arch/decoder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "compiler/base/error.h"

namespace gc::gguf {
namespace {

constexpr std::uint32_t kMaxPositions = std::numeric_limits<std::int32_t>::max();

// Every layer has tensors of its own, so their number bounds block_count before anything is allocated by it.
std::int64_t layer_count(const Keys& keys) {
  const std::int64_t n_layer = keys.size("block_count", std::numeric_limits<std::uint32_t>::max());
  const auto n_tensors = static_cast<std::int64_t>(keys.file().tensors().size());
  if (n_layer > n_tensors) {
    keys.fail("block_count",
              cat("expected at most the file's number of tensors, ", n_tensors, ", found ", n_layer));
  }
  if (keys.predictors() >= n_layer) {
    keys.fail("nextn_predict_layers",
              cat("expected fewer than the ", n_layer, " layers, found ", keys.predictors()));
  }
  return n_layer - keys.predictors();
}

std::vector<blocks::HeadShape> head_shapes(const Keys& keys, std::int64_t n_layer, std::int64_t n_embd,
                                           std::int64_t least, bool own_local_heads) {
  const std::vector<std::int64_t> n_head = keys.sizes("attention.head_count", n_layer, least);
  const std::vector<std::int64_t> n_head_kv = keys.sizes("attention.head_count_kv", n_layer, n_head, least);
  const auto head_dim = [&](std::string_view suffix) {
    if (const auto dim = keys.find_size(suffix)) return *dim;
    const std::int64_t most = *std::max_element(n_head.begin(), n_head.end());
    if (most == 0 && least == 0) return std::int64_t{0};
    if (n_embd % most != 0) {
      keys.fail("attention.head_count", cat("expected a divisor of embedding_length ", n_embd, ", since ",
                                            quote(keys.full(suffix)), " is missing; found ", most));
    }
    return n_embd / most;
  };
  const std::int64_t k_dim = head_dim("attention.key_length"), v_dim = head_dim("attention.value_length");
  for (const auto& [suffix, dim] :
       {std::pair{"attention.key_length_swa", k_dim}, {"attention.value_length_swa", v_dim}}) {
    if (const auto swa = keys.find_size(suffix); swa && *swa != dim && !own_local_heads) {
      keys.unsupported(suffix,
                       cat("heads of another size than the ", dim, " of other layers are not supported"));
    }
  }
  std::vector<blocks::HeadShape> heads;
  for (std::int64_t i = 0; i < n_layer; ++i) {
    if (n_head_kv[i] > 0 && n_head[i] % n_head_kv[i] != 0) {
      keys.fail("attention.head_count_kv", cat("expected a divisor of head_count ", n_head[i], ", found ",
                                               n_head_kv[i], keys.of_layer("attention.head_count_kv", i)));
    }
    heads.push_back({.n_head = n_head[i], .n_head_kv = n_head_kv[i], .k_dim = k_dim, .v_dim = v_dim});
  }
  return heads;
}

// Rows of the embedding; the tokenizer's list of tokens, or without one the key vocab_size, must agree.
std::int64_t vocab_size(const Keys& keys) {
  const File& file = keys.file();
  const std::int64_t rows = file.tensor("token_embd.weight").ne[1];
  if (const Value* tokens = file.find("tokenizer.ggml.tokens")) {
    if (!tokens->is_array() || static_cast<std::int64_t>(tokens->count()) != rows) {
      file.fail_key(
          "tokenizer.ggml.tokens",
          cat("expected ", rows, " tokens, the rows of token_embd.weight, found ", tokens->describe()));
    }
  } else if (keys.has("vocab_size") && keys.size("vocab_size", kMaxPositions) != rows) {
    keys.fail("vocab_size", cat("expected ", rows, ", the rows of token_embd.weight, found ",
                                file.find(keys.full("vocab_size"))->describe()));
  }
  return rows;
}

// YaRN keeps fast frequencies, those that turn more than beta_fast times within the original context, and stretches
// those that turn less than beta_slow times; what is turned grows a little with the stretch.
void yarn(const Keys& keys, double factor, ir::RopeArgs& rope) {
  const double context = static_cast<double>(original_context(keys)), n = static_cast<double>(rope.dims);
  const auto pair_of = [&](double turns) {
    return n * std::log(context / (turns * 2 * std::numbers::pi)) / (2 * std::log(rope.base));
  };
  const double fast = keys.positive("rope.scaling.yarn_beta_fast", 32);
  const double slow = keys.positive("rope.scaling.yarn_beta_slow", 1);
  rope.low = std::max(0.0, std::floor(pair_of(fast)));
  rope.high = std::clamp(std::ceil(pair_of(slow)), 0.0, n - 1);
  const auto growth = [&](double by) { return factor <= 1 ? 1 : 1 + 0.1 * by * std::log(factor); };
  rope.magnitude *= growth(1) / growth(keys.factor("rope.scaling.yarn_log_multiplier"));
}

void scale_rope(const Keys& keys, ir::RopeArgs& rope) {
  const std::string_view type = keys.file().get_string(keys.full("rope.scaling.type"), "linear");
  if (type != "none" && type != "linear" && type != "yarn" && type != "longrope") {
    keys.unsupported("rope.scaling.type", "supported are none, linear, yarn and longrope");
  }
  // Writers put 0 for "none".
  const double magnitude = keys.factor("rope.scaling.attn_factor", 1);
  rope.magnitude = magnitude == 0 ? 1 : magnitude;
  if (type == "none") return;
  // The second is the key's name before scaling had types.
  const double factor = keys.factor("rope.scaling.factor", keys.factor("rope.scale_linear"));
  rope.scale = factor == 0 ? 1 : 1 / factor;
  if (type == "yarn") yarn(keys, factor == 0 ? 1 : factor, rope);
}

SamplingDefaults sampling_defaults(const File& file) {
  SamplingDefaults s;
  s.temperature = file.find_f32("general.sampling.temp");
  s.top_p = file.find_f32("general.sampling.top_p");
  s.min_p = file.find_f32("general.sampling.min_p");
  s.repeat_penalty = file.find_f32("general.sampling.penalty_repeat");
  s.xtc_probability = file.find_f32("general.sampling.xtc_probability");
  s.xtc_threshold = file.find_f32("general.sampling.xtc_threshold");
  s.mirostat_tau = file.find_f32("general.sampling.mirostat_tau");
  s.mirostat_eta = file.find_f32("general.sampling.mirostat_eta");
  auto count = [&file](const char* key) -> std::optional<int64_t> {
    const Value* v = file.find(key);
    if (!v) return std::nullopt;
    const std::optional<int64_t> n = v->is_array() ? std::nullopt : v->as_int();
    if (!n || *n < -1 || *n > INT32_MAX) file.fail_key(key, cat("expected a count, found ", v->describe()));
    return n;
  };
  s.top_k = count("general.sampling.top_k");
  s.repeat_last_n = count("general.sampling.penalty_last_n");
  s.mirostat = count("general.sampling.mirostat");
  s.samplers = file.get_string("general.sampling.sequence", "");
  return s;
}

}  // namespace

DecoderSizes decoder_sizes(const Keys& keys, const char* eps_key, const MayBeZero& zero,
                           bool own_local_heads) {
  const std::int64_t least = zero.layers ? 0 : 1;
  DecoderSizes s;
  s.n_layer = layer_count(keys);
  s.n_embd = keys.size("embedding_length");
  s.n_ctx_train = keys.size("context_length", kMaxPositions);
  s.n_vocab = vocab_size(keys);
  s.heads = head_shapes(keys, s.n_layer, s.n_embd, least, own_local_heads);
  s.n_ff = keys.sizes("feed_forward_length", s.n_layer, least);
  s.eps = zero.eps ? keys.factor(eps_key) : keys.positive(eps_key);
  return s;
}

void refuse_unknown_forms(const Keys& keys, const Follows& follows) {
  const File& file = keys.file();
  const std::uint32_t n_expert = file.get_u32(keys.full("expert_count"), 0);
  if (n_expert > 0) {
    const auto used =
        keys.has("expert_used_count") ? file.find(keys.full("expert_used_count"))->as_uint() : std::nullopt;
    if (used && *used > n_expert) {
      keys.fail("expert_used_count", cat("expected at most expert_count ", n_expert, ", found ", *used));
    }
  }
  if (!follows.experts) keys.refuse_unless_zero("expert_count", "a mixture of experts");
  if (!follows.alibi) keys.refuse_unless_zero("attention.max_alibi_bias", "ALiBi");
  if (!follows.clamp) keys.refuse_unless_zero("attention.clamp_kqv", "clamping of q, k and v");
  if (!follows.ahead && !file.get_bool(keys.full("attention.causal"), true)) {
    keys.unsupported("attention.causal", "attention to later tokens is not supported");
  }
}

ir::RopeArgs rope_args(const Keys& keys, std::int64_t head_dim, bool neox, bool own_local_dims,
                       const char* base) {
  ir::RopeArgs rope;
  rope.neox = neox;
  rope.base = keys.positive(base, 10000);
  rope.dims = keys.find_size("rope.dimension_count").value_or(head_dim);
  if (rope.dims > head_dim || rope.dims % 2 != 0) {
    const char* suffix = keys.has("rope.dimension_count") ? "rope.dimension_count" : "attention.key_length";
    keys.fail(suffix, cat("expected an even number of dimensions for RoPE, at most ", head_dim, ", found ",
                          rope.dims));
  }
  if (const auto swa = keys.find_size("rope.dimension_count_swa");
      swa && *swa != rope.dims && !own_local_dims) {
    keys.unsupported("rope.dimension_count_swa",
                     cat("another number than the ", rope.dims, " of other layers is not supported"));
  }
  scale_rope(keys, rope);
  return rope;
}

std::int64_t local_rope_dims(const Keys& keys, const ir::RopeArgs& rope, std::int64_t head_dim) {
  const std::int64_t dims = keys.find_size("rope.dimension_count_swa").value_or(rope.dims);
  if (dims > head_dim || dims % 2 != 0) {
    keys.fail("rope.dimension_count_swa",
              cat("expected an even number of dimensions for RoPE, at most ", head_dim, ", found ", dims));
  }
  return dims;
}

std::int64_t original_context(const Keys& keys) {
  const char* key = "rope.scaling.original_context_length";
  if (keys.file().get_u32(keys.full(key), 0) > 0) return keys.size(key, kMaxPositions);
  return keys.size("context_length", kMaxPositions);
}

void rope_factors(const Keys& keys, Tensors& tensors, ir::RopeArgs& rope, std::int64_t most_dims) {
  const auto of = [&](const char* name) { return tensors.beginning(name, rope.dims / 2, most_dims / 2); };
  if (tensors.has("rope_freqs.weight")) {
    rope.factors = of("rope_freqs.weight");
    return;
  }
  if (!tensors.has("rope_factors_short.weight")) return;
  rope.factors = of("rope_factors_short.weight");
  rope.long_factors = of("rope_factors_long.weight");
  rope.short_context = original_context(keys);
}

std::vector<std::int64_t> layer_windows(const Keys& keys, std::int64_t n_layer, std::int64_t default_window,
                                        std::int64_t default_period, bool first_sees_all) {
  const char* key = "attention.sliding_window_pattern";
  const std::int64_t window =
      keys.file().get_u32(keys.full("attention.sliding_window"), static_cast<std::uint32_t>(default_window));
  if (window > kMaxPositions)
    keys.fail("attention.sliding_window", cat("expected at most ", kMaxPositions, ", found ", window));
  std::vector<std::int64_t> windows;
  const Value* pattern = keys.file().find(keys.full(key));
  if (pattern != nullptr && pattern->is_array()) {
    for (bool slides : keys.flags(key, n_layer, false)) windows.push_back(slides ? window : 0);
    return windows;
  }
  if (pattern != nullptr && pattern->type() == ValueType::kBool) {
    keys.fail(key, "expected a period or an array of one flag for each layer, found a single flag");
  }
  const std::int64_t period = keys.file().get_u32(keys.full(key), static_cast<std::uint32_t>(default_period));
  for (std::int64_t i = 0; i < n_layer; ++i) {
    const bool slides = period == 0 || (first_sees_all ? i : i + 1) % period != 0;
    windows.push_back(slides ? window : 0);
  }
  return windows;
}

std::string layer_prefix(std::int64_t layer) { return cat("blk.", layer, "."); }

ModelInfo model_info(const Keys& keys, const DecoderSizes& sizes, const std::vector<std::int64_t>& windows,
                     const Tensors& tensors) {
  const File& file = keys.file();
  const auto text = [&](std::string_view key) { return std::string(file.get_string(key, "")); };
  ModelInfo info;
  info.name = text("general.name");
  info.architecture = keys.architecture();
  info.n_layer = sizes.n_layer;
  info.n_embd = sizes.n_embd;
  info.n_vocab = sizes.n_vocab;
  info.n_ctx_train = sizes.n_ctx_train;
  info.n_parameters = tensors.n_parameters();
  for (std::int64_t window : windows) {
    info.window = std::max(info.window, window);
    info.n_layer_window += window > 0;
  }
  info.tied_head = !tensors.has("output.weight");
  info.author = text("general.author");
  info.license = text("general.license");
  info.license_link = text("general.license.link");
  info.url = text("general.url");
  info.chat_template = text("tokenizer.chat_template");
  info.sampling = sampling_defaults(file);
  return info;
}

}  // namespace gc::gguf
