// A row of compiler/quant/layouts.def as a struct of literals for device code (device/decode.cuh says what is in it).
#pragma once

#include <string>

#include "compiler/quant/formats.h"

namespace gc::cuda {

// Empty if device code decodes matrices of the format, else what is missing.
std::string undecodable(Format format);

// The struct's name, "Q4_K".
std::string format_type(Format format);
std::string format_struct(Format format);

}  // namespace gc::cuda
