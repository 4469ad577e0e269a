// What every decoder-only transformer's file says, read and checked once: sizes, heads of each layer, RoPE, sliding
// windows, vocabulary. An architecture's file takes from here what it has, and adds its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/base/model_info.h"
#include "compiler/blocks/attention.h"
#include "compiler/ir/builder.h"
#include "frontends/gguf/arch/keys.h"
#include "frontends/gguf/arch/tensors.h"

namespace gc::gguf {

struct DecoderSizes {
  std::int64_t n_layer, n_embd, n_ctx_train, n_vocab;
  std::vector<blocks::HeadShape> heads;  // [n_layer]
  std::vector<std::int64_t> n_ff;        // [n_layer]
  double eps;                            // of norms
};

// Keys of a norm's epsilon.
inline constexpr const char* kRmsEps = "attention.layer_norm_rms_epsilon";
inline constexpr const char* kLayerNormEps = "attention.layer_norm_epsilon";

// What files of an architecture may have as 0.
struct MayBeZero {
  bool eps = false;     // of norms
  bool layers = false;  // heads, key heads and hidden units of a layer: it lacks what they are of
};

// Unless `own_local_heads`, heads of sliding layers must have the sizes of the others'.
DecoderSizes decoder_sizes(const Keys& keys, const char* eps_key = kRmsEps, const MayBeZero& zero = {},
                           bool own_local_heads = false);

// Keys that an architecture follows, or that its writers put without a meaning.
struct Follows {
  bool alibi = false, clamp = false, experts = false, ahead = false;
};

// Refuses what this architecture's decoder does not do: mixtures of experts, ALiBi, clamped q, k and v, attention to later
// positions.
void refuse_unknown_forms(const Keys& keys, const Follows& follows = {});

// The RoPE of layers that see everything: rope.freq_base, rope.dimension_count, rope.scaling.* (none, linear, yarn, and
// longrope, whose factors are tensors: rope_factors).
// Unless `own_local_dims`, sliding layers must turn as many dimensions. `base`: its key.
ir::RopeArgs rope_args(const Keys& keys, std::int64_t head_dim, bool neox, bool own_local_dims = false,
                       const char* base = "rope.freq_base");
// Dimensions that sliding layers turn.
std::int64_t local_rope_dims(const Keys& keys, const ir::RopeArgs& rope, std::int64_t head_dim);

// Positions that the model was first trained for, before its RoPE was stretched.
std::int64_t original_context(const Keys& keys);

// Adds the file's divisors of frequencies: rope_freqs.weight for all positions, or rope_factors_short.weight, which hold
// in contexts up to the original one, and rope_factors_long.weight for longer ones. `most_dims`: those of the layers that
// turn most, for which the tensors have values; the others' are the first of them.
void rope_factors(const Keys& keys, Tensors& tensors, ir::RopeArgs& rope, std::int64_t most_dims);

// The window of each layer, 0: it sees everything. From attention.sliding_window (`default_window` where absent) and
// attention.sliding_window_pattern: an array that says of each layer whether it slides, or a period p: layer i
// slides unless (i + 1) % p == 0, or with first_sees_all i % p == 0 (p = 0: all slide).
std::vector<std::int64_t> layer_windows(const Keys& keys, std::int64_t n_layer, std::int64_t default_window,
                                        std::int64_t default_period, bool first_sees_all = false);

// The layer's prefix of tensors and values: "blk.3.".
std::string layer_prefix(std::int64_t layer);

// Everything that isn't specific to an architecture. `windows` may be empty.
ModelInfo model_info(const Keys& keys, const DecoderSizes& sizes, const std::vector<std::int64_t>& windows,
                     const Tensors& tensors);

}  // namespace gc::gguf
