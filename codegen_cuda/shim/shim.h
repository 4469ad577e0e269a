// Device sources as C++ for the host: put in front of an emitted source (-include, with -DGC_SHIM). What CUDA's language
// adds, by fibers: each thread of a block is one, and runs until it has to wait for others. shim.cc has the scheduler.
//
// So kernels are run and checked without a GPU, from the very text that NVRTC compiles; what stays unseen is PTX itself
// (each instruction's scalar body stands beside it in device/base.cuh), the memory model between blocks and timing.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#define __global__ __attribute__((visibility("default")))
#define __device__
#define __host__
#define __launch_bounds__(...)
#define __grid_constant__
// Shared memory lies in a section of its own, which is filled with NaN before each block. Only kernels' entries may
// declare it (templates' variables can't be put there).
#define __shared__ static __attribute__((section("gc_shared")))

namespace gc_shim {

struct Dim3 {
  unsigned x = 0, y = 0, z = 0;
};
extern thread_local Dim3 thread_index, block_index;

// All threads of the block; all lanes of the warp. A thread that ends while others wait, or waits alone, is a fault.
void sync_block();
void sync_warp();
// The value that lane `from` of the warp gives to the same call.
std::uint32_t exchange(std::uint32_t mine, int from);
// The n words (at most kShared) of each lane of the warp, lane after lane, until the lane's next call.
constexpr int kShared = 8;
const std::uint32_t* share(const std::uint32_t* mine, int n);
int lane();

template <class To, class From>
To bit_cast(From x) {
  static_assert(sizeof(To) == sizeof(From));
  To y;
  std::memcpy(&y, &x, sizeof y);
  return y;
}

float f32_of_f16(std::uint16_t bits);
std::uint16_t f16_of_f32(float x);

}  // namespace gc_shim

#define threadIdx gc_shim::thread_index
#define blockIdx gc_shim::block_index

inline void __syncthreads() { gc_shim::sync_block(); }
inline void __syncwarp() { gc_shim::sync_warp(); }
template <class T>
T __shfl_xor_sync(unsigned mask, T x, int with) {
  static_assert(sizeof(T) == 4);
  if (mask != 0xffffffffu) __builtin_trap();  // whole warps alone
  return gc_shim::bit_cast<T>(gc_shim::exchange(gc_shim::bit_cast<std::uint32_t>(x), gc_shim::lane() ^ with));
}
