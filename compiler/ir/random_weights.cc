#include "compiler/ir/random_weights.h"

#include <cmath>

namespace gc::ir {
namespace {

// splitmix64 and FNV-1a: the same numbers with every standard library.
uint64_t mix(uint64_t& state) {
  uint64_t z = state += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

uint64_t hash(std::string_view s) {
  uint64_t h = 0xcbf29ce484222325;
  for (unsigned char c : s) h = (h ^ c) * 0x100000001b3;
  return h;
}

}  // namespace

ReadRow random_weights(uint64_t seed) {
  return [seed](const Weight& w, int64_t row, float* out) {
    uint64_t state = seed ^ hash(w.name) ^ (uint64_t(row) * 0x9e3779b97f4a7c15);
    int64_t n = w.shape.back();
    bool vector = w.shape.size() == 1;
    // Uniform in [-s, s) has a variance of s^2 / 3.
    float spread = vector ? 0.2f : std::sqrt(3.0f / float(n));
    for (int64_t i = 0; i < n; i++)
      out[i] = (vector ? 1.0f : 0.0f) + spread * (float(mix(state) >> 40) / float(1 << 23) - 1.0f);
  };
}

}  // namespace gc::ir
