// Recurrences, in values of states brought on a second: a prompt's 64 rows one after the other (the block of a unit stays
// in the first-level cache), and one generated row (the states stream: bytes are read and written once).
#include <benchmark/benchmark.h>

#include "codegen_cpu/kernels/recurrent/recurrent.h"
#include "codegen_cpu/kernels/recurrent/signatures.h"
#include "codegen_cpu/kernels/testing.h"
#include "runtime/abi/program.h"

namespace gc::cpu {
namespace {

using testing::Buffer;
using testing::Kernels;

// A step of `rows` rows of one sequence, past its first position, with its state.
struct Step {
  Step(std::int64_t state_floats, std::int64_t rows)
      : slot_bytes(4 * state_floats), state(static_cast<std::size_t>(state_floats)) {
    testing::fill_random(state, 1, 0.01f);
    for (std::int64_t t = 0; t < rows; ++t) row.push_back({.pos = static_cast<std::int32_t>(t + 1)});
    seq.tables[0] = {&slot, 1, 0};
    pool = reinterpret_cast<std::uint8_t*>(state.data());
    step.rows = row.data();
    step.n_rows = static_cast<std::uint32_t>(rows);
    step.seqs = &seq;
    step.pools = &pool;
  }
  std::int64_t slot_bytes;
  Buffer<float> state;
  std::vector<gc_row> row;
  std::uint32_t slot = 0;
  gc_seq seq{};
  std::uint8_t* pool;
  gc_step step{};
};

void bench_scan(benchmark::State& state, const ScanSpec& spec) {
  const std::int64_t rows = state.range(0), n = spec.heads * spec.values,
                     widest = std::max(n, spec.heads * spec.keys);
  Kernels k(best_host_isa());
  auto* f = k.get<Scan>(k.name(scan(k.e(), spec)));
  Step step(n * spec.keys, rows);
  Buffer<float> x(static_cast<std::size_t>(rows * widest)), y(x.size()),
      w(static_cast<std::size_t>(n * spec.keys));
  testing::fill_random(x, 2, 0.1f);
  for (float& v : w) v = -1;
  const float* p = x.data();
  const std::int64_t xs = 4 * widest;
  for (auto _ : state)
    f(&step.step, 0, step.slot_bytes, 0, p, xs, p, xs, p, xs, p, xs, p, xs, p, xs, w.data(), w.data(),
      w.data(), y.data(), 4 * n, 0, spec.units(best_host_isa()));
  state.counters["values"] = benchmark::Counter(
      static_cast<double>(state.iterations() * rows * n * spec.keys), benchmark::Counter::kIsRate);
}

using Kind = ScanSpec::Kind;
BENCHMARK_CAPTURE(bench_scan, mamba2_2_7b,
                  ScanSpec{.kind = Kind::Ssm, .heads = 80, .groups = 1, .keys = 128, .values = 64, .d = true})
    ->Arg(1)
    ->Arg(64);
BENCHMARK_CAPTURE(
    bench_scan, mamba_2_8b,
    ScanSpec{.kind = Kind::SsmStates, .heads = 1, .groups = 1, .keys = 16, .values = 5120, .d = true})
    ->Arg(1)
    ->Arg(64);
BENCHMARK_CAPTURE(
    bench_scan, qwen3next,
    ScanSpec{.kind = Kind::Delta, .heads = 32, .groups = 16, .keys = 128, .values = 128, .scale = 0.1f})
    ->Arg(1)
    ->Arg(64);
BENCHMARK_CAPTURE(bench_scan, kimi_linear,
                  ScanSpec{.kind = Kind::Delta,
                           .heads = 32,
                           .groups = 32,
                           .keys = 128,
                           .values = 128,
                           .gate_of_keys = true,
                           .scale = 0.1f})
    ->Arg(1)
    ->Arg(64);

BENCHMARK_CAPTURE(bench_scan, rwkv6_1_6b,
                  ScanSpec{
                      .kind = Kind::Wkv, .heads = 32, .groups = 32, .keys = 64, .values = 64, .bonus = true})
    ->Arg(1)
    ->Arg(64);
BENCHMARK_CAPTURE(bench_scan, rwkv7_1_5b,
                  ScanSpec{.kind = Kind::Wkv7, .heads = 32, .groups = 32, .keys = 64, .values = 64})
    ->Arg(1)
    ->Arg(64);

void bench_conv(benchmark::State& state) {
  const std::int64_t rows = state.range(0), n = 8192;
  const ConvSpec spec{n, 3, true, ir::Fn::silu};
  Kernels k(best_host_isa());
  auto* f = k.get<Conv>(k.name(conv(k.e(), spec)));
  Step step(3 * n, rows);
  Buffer<float> x(static_cast<std::size_t>(rows * n)), y(x.size()), w(static_cast<std::size_t>(4 * n));
  testing::fill_random(x, 2);
  testing::fill_random(w, 3);
  for (auto _ : state)
    f(&step.step, 0, step.slot_bytes, 0, x.data(), 4 * n, w.data(), w.data(), y.data(), 4 * n, 0,
      spec.units());
  state.counters["values"] =
      benchmark::Counter(static_cast<double>(state.iterations() * rows * n), benchmark::Counter::kIsRate);
}
BENCHMARK(bench_conv)->Arg(1)->Arg(64);

}  // namespace
}  // namespace gc::cpu

BENCHMARK_MAIN();
