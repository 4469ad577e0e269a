// What tests and benchmarks of matrix kernels run on: a packed random matrix and random activations, in memory that is
// aligned as in a program.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "codegen_cpu/act_layout.h"
#include "compiler/pack/random_matrix.h"
#include "compiler/quant/activation.h"
#include "compiler/quant/layouts.h"

namespace gc::cpu {

struct Freer {
  void operator()(void* p) const { std::free(p); }
};
// 64-byte aligned.
template <class T>
using Aligned = std::unique_ptr<T[], Freer>;
template <class T>
Aligned<T> aligned(std::size_t n) {
  return Aligned<T>(static_cast<T*>(std::aligned_alloc(64, (n * sizeof(T) + 63) / 64 * 64)));
}

inline Aligned<std::uint8_t> aligned_copy(const std::vector<std::uint8_t>& bytes) {
  auto copy = aligned<std::uint8_t>(bytes.size());
  std::memcpy(copy.get(), bytes.data(), bytes.size());
  return copy;
}

// Blocks of 32 with very different magnitudes, one in ten all zero.
inline std::vector<float> random_activations(std::int64_t n, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> x(static_cast<std::size_t>(n));
  float magnitude = 1;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (i % 32 == 0)
      magnitude = random() % 10 == 0 ? 0.0f : std::ldexp(1.0f, static_cast<int>(random() % 12) - 6);
    x[i] = magnitude * (static_cast<float>(random()) * 0x1p-31f - 1.0f);
  }
  return x;
}

using MatmulFn = void(const std::uint8_t* panels, const void* x, std::int64_t x_stride, float* y,
                      std::int64_t y_stride, std::int64_t n_panels, std::int64_t n_rows);
using QuantizeFn = void(const float* x, std::int64_t x_stride, std::uint8_t* y, std::int64_t y_stride,
                        std::int64_t rows);
using RowDecodeFn = void(const std::uint8_t* panels, std::int64_t row, float* out, float scale);

}  // namespace gc::cpu
