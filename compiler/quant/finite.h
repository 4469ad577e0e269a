// Weights that are NaN or infinite make every token NaN; a broken file is refused by the tensor's name when it is compiled.
// Floats are looked at one by one; of blocks only the f16 and f32 factors, since whole numbers times finite factors are
// finite, or so large that no model has them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "compiler/quant/formats.h"

namespace gc {

// The first of the rows [n, cols] in `bytes` that has a value or a factor that is NaN or infinite.
std::optional<std::int64_t> first_row_not_finite(Format format, std::int64_t cols,
                                                 std::span<const std::uint8_t> bytes);

}  // namespace gc
