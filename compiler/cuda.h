// A model's kernels as CUDA source, and as the cubins that an executable carries.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/ir.h"
#include "compiler/options.h"
#include "compiler/plan/plan.h"

namespace gc {

// The source of all kernels of a step, with keys and values in f16. With options.cuda_archs also ARCH.cubin and ARCH.txt,
// which says what ptxas gave each kernel, in options.save_temps. Throws Unsupported for what has no device kernel, a user
// error where NVRTC can't be had.
std::string cuda_source(const Options& options, const ir::Graph& graph);

// What an executable has for --device cuda: keys and values are in f16.
struct CudaPart {
  static constexpr int kKvType = GC_KV_F16;
  plan::Plan plan;                  // its arena is the device's
  std::vector<std::uint8_t> image;  // runtime/abi/cuda.h
  std::uint64_t code_id = 0;
  std::vector<std::string> archs;  // names
};
// For options.cuda_archs, or all of codegen_cuda/arch.def. Throws as cuda_source.
CudaPart cuda_part(const Options& options, const ir::Graph& graph);

}  // namespace gc
