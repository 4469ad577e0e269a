// How fast the program's instruction for prompts multiplies here: the bound of a prompt's speed.
#pragma once

#include "runtime/abi/peak.h"
#include "runtime/core/threads.h"

namespace gcrt {

// Multiplications of a weight and an activation a second, of all the pool's workers together; 0 where the program has none.
double measure_prompt_peak(WorkerPool& pool, const gc_peak& peak);

}  // namespace gcrt
