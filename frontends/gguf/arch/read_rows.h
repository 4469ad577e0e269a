// The weights of a file for the interpreter: rows decoded to f32 by the reference decoders.
#pragma once

#include "compiler/ir/interpret.h"
#include "frontends/gguf/reader.h"

namespace gc::gguf {

// Reads tensors of `file`, which must outlive the result.
ir::ReadRow read_rows(const File& file);

}  // namespace gc::gguf
