// Scalar decoders of every float and block format: slow, obvious, and the meaning that packed layouts and kernels
// are tested against. Bit for bit what the public Python package `gguf` computes.
#pragma once

#include <cstdint>

#include "compiler/quant/formats.h"

namespace gc {

// False for the integer types, which are data and not matrices.
bool has_reference(Format format);

// n values (whole blocks) of `src`, at any alignment, to dst[n]. F64 is rounded to f32.
void dequantize_row(Format format, const void* src, float* dst, std::int64_t n);

}  // namespace gc
