// --emit cuda: a model's kernels as CUDA source, and as cubins.
#pragma once

#include <string>

#include "compiler/ir/ir.h"
#include "compiler/options.h"

namespace gc {

// The source of all kernels of a step, with keys and values in f16. With options.cuda_archs also ARCH.cubin and ARCH.txt,
// which says what ptxas gave each kernel, in options.save_temps. Throws Unsupported for what has no device kernel, a user
// error where NVRTC can't be had.
std::string cuda_source(const Options& options, const ir::Graph& graph);

}  // namespace gc
