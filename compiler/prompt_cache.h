// States that a file brings along (--prompt-cache-file): the model itself computes them, once, when it is compiled.
//
// The model is linked as a program of its own and run here, so that the states are those which the same code would compute
// at the first turn, bit for bit. Running the code in this process (as --tune does with kernels) would need the whole
// runtime in the compiler.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/link/artifact.h"

namespace gc {

// gc_model::prompt_cache for the text in a file: a record for each ISA. `input`: all of an executable but its kind.
// `output`: where the output will be; temporary files are made beside it. Throws a user error when the text can't be read,
// has no tokens or doesn't fit, or programs can't be run there.
std::vector<std::uint8_t> make_prompt_cache(link::LinkInput input, std::span<const std::string_view> isas,
                                            const std::string& text_file, const std::string& output);

}  // namespace gc
