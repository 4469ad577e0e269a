// A program's CUDA part as the blob of runtime/abi/cuda.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codegen_cuda/arch.h"
#include "codegen_cuda/program.h"

namespace gc::cuda {

struct CompiledFor {
  const Arch* arch;
  std::vector<std::uint8_t> cubin;
};

std::vector<std::uint8_t> make_image(const Program& program, const plan::Plan& plan,
                                     std::span<const CompiledFor> cubins);

}  // namespace gc::cuda
