// Weights from a seed, for tests and tools without a file. They depend on the seed, the weight's name and the row alone,
// so a graph means the same before and after a pass. Matrices have a variance of 1/columns, vectors lie around 1.
#pragma once

#include <cstdint>

#include "compiler/ir/interpret.h"

namespace gc::ir {

ReadRow random_weights(uint64_t seed);

}  // namespace gc::ir
