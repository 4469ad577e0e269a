// Row-wise kernels around the matrix products, for one row and many, in elements a second.
#include <benchmark/benchmark.h>

#include "codegen_cpu/kernels/glu/glu.h"
#include "codegen_cpu/kernels/norm/norm.h"
#include "codegen_cpu/kernels/testing.h"

namespace gc::cpu {
namespace {

using testing::Buffer;
using testing::Kernels;

void count(benchmark::State& state, std::int64_t elements) {
  state.counters["elements"] =
      benchmark::Counter(static_cast<double>(state.iterations() * elements), benchmark::Counter::kIsRate);
}

void bench_residual_norm(benchmark::State& state) {
  const std::int64_t n = state.range(0), rows = state.range(1), out = act_row_bytes(n);
  using F =
      void(const float* x0, std::int64_t x0s, const float* x1, std::int64_t x1s, const float* post,
           const float* pre, float* y0, std::int64_t y0s, void* y1, std::int64_t y1s, std::int64_t rows);
  Kernels k(best_host_isa());
  const std::string name = k.name(residual_norm(k.e(), {n, true, true, 1e-6f, ir::Elem::Q16}));
  Buffer<float> x0(rows * n), x1(rows * n), y0(rows * n), w(n);
  testing::fill_random(x0, 1);
  testing::fill_random(x1, 2);
  testing::fill_random(w, 3);
  Buffer<std::uint8_t> y1(rows * out);
  auto* f = k.get<F>(name);
  for (auto _ : state) {
    f(x0.data(), n * 4, x1.data(), n * 4, w.data(), w.data(), y0.data(), n * 4, y1.data(), out, rows);
  }
  count(state, rows * n);
}
BENCHMARK(bench_residual_norm)->ArgNames({"n", "rows"})->ArgsProduct({{640, 2560}, {1, 64}});

void bench_glu(benchmark::State& state) {
  const auto fn = static_cast<ir::Fn>(state.range(0));
  const std::int64_t n = state.range(1), out = act_row_bytes(n);
  using F = void(const float* gate, std::int64_t gs, const float* up, std::int64_t us, void* y,
                 std::int64_t ys, std::int64_t rows);
  Kernels k(best_host_isa());
  const std::string name = k.name(glu(k.e(), {fn, n, ir::Elem::Q16}));
  Buffer<float> gate(n), up(n);
  testing::fill_random(gate, 1);
  testing::fill_random(up, 2);
  Buffer<std::uint8_t> y(out);
  auto* f = k.get<F>(name);
  for (auto _ : state) f(gate.data(), 0, up.data(), 0, y.data(), 0, 1);
  count(state, n);
}
BENCHMARK(bench_glu)
    ->ArgNames({"fn", "n"})
    ->ArgsProduct({{static_cast<int>(ir::Fn::gelu_tanh), static_cast<int>(ir::Fn::silu)}, {2048, 10240}});

}  // namespace
}  // namespace gc::cpu

BENCHMARK_MAIN();
