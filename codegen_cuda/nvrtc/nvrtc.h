// CUDA source to cubins, by NVRTC in a program of its own that the compiler carries (helper.c says why) and talks to by
// pipes. NVRTC is opened by name: a file that the user gives, what the loader knows, or a toolkit in /usr/local/cuda. Its
// headers are not needed: device code includes nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "codegen_cuda/arch.h"

namespace gc::cuda {

// What ptxas says of a kernel.
struct KernelUse {
  std::string name;
  int registers = 0;
  std::int64_t shared = 0;  // bytes, static
  std::int64_t spill_stores = 0, spill_loads = 0, stack = 0;
};
// A line of it.
std::string to_string(const KernelUse& use);

struct Cubin {
  std::vector<std::uint8_t> bytes;
  std::vector<KernelUse> kernels;
};

// `library`: path of libnvrtc, empty: look for it. `name`: what the source is called in messages. Throws a user error with
// NVRTC's log where the source is at fault or NVRTC can't be had.
Cubin compile_cubin(std::string_view source, const std::string& name, const Arch& arch,
                    const std::string& library);

}  // namespace gc::cuda
