// Recurrent mixers as files have them: keys ssm.* and shortconv.l_cache, tensors ssm_* and shortconv.*.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/blocks/recurrent.h"
#include "frontends/gguf/arch/decoder.h"
#include "frontends/gguf/arch/keys.h"
#include "frontends/gguf/arch/tensors.h"

namespace gc::gguf {

// Of each layer, from attention.recurrent_layers, else all but each full_attention_interval-th, or by default `interval`-th.
std::vector<bool> recurrent_by_key(const Keys& keys, std::int64_t n_layer, std::int64_t interval = 4);

// Each has the type Form::MixerOf. prefix: "blk.3.".
blocks::Mixer mamba_of(const Keys& keys, Tensors& tensors, const DecoderSizes& s, const std::string& prefix);
blocks::Mixer mamba2_of(const Keys& keys, Tensors& tensors, const DecoderSizes& s, const std::string& prefix);
blocks::Mixer short_conv_of(const Keys& keys, Tensors& tensors, const DecoderSizes& s,
                            const std::string& prefix);
// The gated delta rule, whose heads take keys in order (ssm_ba) or in turn (ssm_alpha, ssm_beta).
blocks::Mixer delta_net_of(const Keys& keys, Tensors& tensors, const DecoderSizes& s,
                           const std::string& prefix);
// The same with outputs gated by a sigmoid.
blocks::Mixer gated_delta_net_of(const Keys& keys, Tensors& tensors, const DecoderSizes& s,
                                 const std::string& prefix);
// Kimi delta attention: decays of each key.
blocks::Mixer kda_of(const Keys& keys, Tensors& tensors, const DecoderSizes& s, const std::string& prefix);
blocks::Mixer plamo2_mamba_of(const Keys& keys, Tensors& tensors, const DecoderSizes& s,
                              const std::string& prefix);

// STEM.weight [channels, taps] and STEM.bias where the file has it.
blocks::Conv conv_of(Tensors& tensors, const std::string& stem, std::int64_t channels, std::int64_t taps);

}  // namespace gc::gguf
