// Matrices of random blocks with sane scales, as a file would hold them, for tests and benchmarks of what reads them.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/quant/formats.h"

namespace gc::pack {

// [rows, cols] in the file's form: any bits for values and integer scales, f16 factors of magnitude 2^-7 .. 2^1 and
// floats of magnitude up to 2, of both signs.
std::vector<std::uint8_t> random_matrix(Format format, std::int64_t rows, std::int64_t cols,
                                        std::uint32_t seed);

// Packed whole.
std::vector<std::uint8_t> packed(Format format, std::int64_t rows, std::int64_t cols,
                                 const std::vector<std::uint8_t>& raw);

}  // namespace gc::pack
