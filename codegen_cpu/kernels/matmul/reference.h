// The contract of matmul.h as scalar code: one row of activations times one row of weights.
#pragma once

#include <cstdint>
#include <span>

#include "compiler/quant/activation.h"
#include "compiler/quant/formats.h"

namespace gc::cpu {

// `panel` is the packed panel, `row` 0..15 in it.
float block_dot_reference(Format format, std::span<const ActBlock32> x, const std::uint8_t* panel,
                          std::int64_t row);
float float_dot_reference(Format format, std::span<const float> x, const std::uint8_t* panel,
                          std::int64_t row);

}  // namespace gc::cpu
