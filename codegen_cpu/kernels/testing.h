// For tests and benches of kernels: compile some on an ISA, call them; random rows; comparison with double.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "codegen_cpu/act_layout.h"
#include "codegen_cpu/emitter.h"
#include "codegen_cpu/isa.h"
#include "codegen_cpu/jit.h"

namespace gc::cpu::testing {

// Kernels are emitted through e(), kept by name, then compiled by the first get().
class Kernels {
 public:
  explicit Kernels(const Isa& isa) : emitter_(context_, isa, "kernels") {}
  Emitter& e() { return emitter_; }
  static std::string name(llvm::Function* f) { return f->getName().str(); }
  template <class F>
  F* get(const std::string& name) {
    if (!jit_) jit_ = std::make_unique<Jit>(emitter_);
    return jit_->get<F>(name);
  }

 private:
  llvm::LLVMContext context_;
  Emitter emitter_;
  std::unique_ptr<Jit> jit_;
};

// Memory aligned to 64 bytes.
template <class T>
class Buffer {
 public:
  explicit Buffer(std::size_t n) : store_(n * sizeof(T) + 64), n_(n) {
    const auto at = reinterpret_cast<std::uintptr_t>(store_.data());
    data_ = reinterpret_cast<T*>((at + 63) / 64 * 64);
  }
  Buffer(const Buffer&) = delete;
  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return n_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + n_; }
  bool operator==(const Buffer& other) const {
    return n_ == other.n_ && std::memcmp(data_, other.data_, n_ * sizeof(T)) == 0;
  }

 private:
  std::vector<unsigned char> store_;
  T* data_;
  std::size_t n_;
};

inline void fill_random(Buffer<float>& b, unsigned seed, float scale = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  for (float& x : b) x = normal(random);
}

// Largest difference over the reference's root mean square.
template <class A, class R>
double error(const A* actual, const R* reference, std::size_t n) {
  double square = 0, worst = 0;
  for (std::size_t i = 0; i < n; ++i) {
    square += double(reference[i]) * double(reference[i]);
    const double difference = std::abs(double(actual[i]) - double(reference[i]));
    worst = difference <= worst ? worst : difference;  // NaN counts
  }
  return worst / (std::sqrt(square / static_cast<double>(n)) + 1e-30);
}

using Quantize = void(const float* x, std::int64_t xs, void* y, std::int64_t ys, std::int64_t rows);

}  // namespace gc::cpu::testing
