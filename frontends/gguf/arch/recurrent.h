// Recurrent mixers as files have them: keys ssm.* and shortconv.l_cache, tensors ssm_* and shortconv.*.
#pragma once

#include <string>

#include "compiler/blocks/recurrent.h"
#include "frontends/gguf/arch/decoder.h"
#include "frontends/gguf/arch/keys.h"
#include "frontends/gguf/arch/tensors.h"

namespace gc::gguf {

// Each has the type Form::MixerOf. prefix: "blk.3.".
blocks::Mixer mamba_of(const Keys& keys, Tensors& tensors, const DecoderSizes& s, const std::string& prefix);
blocks::Mixer mamba2_of(const Keys& keys, Tensors& tensors, const DecoderSizes& s, const std::string& prefix);
blocks::Mixer short_conv_of(const Keys& keys, Tensors& tensors, const DecoderSizes& s,
                            const std::string& prefix);

// STEM.weight [channels, taps] and STEM.bias where the file has it.
blocks::Conv conv_of(Tensors& tensors, const std::string& stem, std::int64_t channels, std::int64_t taps);

}  // namespace gc::gguf
