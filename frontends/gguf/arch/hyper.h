// Hyper-connections as files have them: STEM_fn, STEM_base and STEM_scale; hyper_connection.*.
#pragma once

#include <string>

#include "compiler/blocks/hyper.h"
#include "frontends/gguf/arch/decoder.h"
#include "frontends/gguf/arch/keys.h"
#include "frontends/gguf/arch/tensors.h"

namespace gc::gguf {

// Head: it reads alone.
enum class Streams { Plain, Mixing, Head };

blocks::Hyper hyper_of(Tensors& tensors, const Keys& keys, const std::string& stem, const DecoderSizes& s,
                       Streams streams);

}  // namespace gc::gguf
