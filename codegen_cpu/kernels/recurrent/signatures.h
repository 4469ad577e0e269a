// The kernels' types as C++ calls them, for tests and benchmarks; recurrent.h says what the arguments are.
#pragma once

#include <cstdint>

#include "runtime/abi/program.h"

namespace gc::cpu {

using Conv = void(const gc_step*, std::int64_t group, std::int64_t slot, std::int64_t offset, const float* x,
                  std::int64_t xs, const float* taps, const float* bias, float* y, std::int64_t ys,
                  std::int64_t lo, std::int64_t hi);
using Scan = void(const gc_step*, std::int64_t group, std::int64_t slot, std::int64_t offset, const float*,
                  std::int64_t, const float*, std::int64_t, const float*, std::int64_t, const float*,
                  std::int64_t, const float*, std::int64_t, const float*, std::int64_t, const float* a,
                  const float* dt_bias, const float* d, float* y, std::int64_t ys, std::int64_t lo,
                  std::int64_t hi);

}  // namespace gc::cpu
