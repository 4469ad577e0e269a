// Attention of a generated token over a long context, in bytes of keys and values a second, and of a prompt, in
// multiply-adds a second beside the machine's most.
#include <benchmark/benchmark.h>

#include <numeric>

#include "codegen_cpu/kernels/attention/attention.h"
#include "codegen_cpu/kernels/testing.h"
#include "codegen_cpu/kv_layout.h"
#include "codegen_cpu/vec/vec.h"

namespace gc::cpu {
namespace {

using llvm::Value;
using testing::Buffer;
using testing::Kernels;
using Attn = void(const gc_step*, std::int64_t group, std::int64_t block_bytes, std::int64_t state_offset,
                  const float* q, std::int64_t qs, const float* q_norm, const float* fine,
                  const float* coarse, const float* sinks, void* y, std::int64_t ys, std::int64_t begin,
                  std::int64_t end, void* scratch);

void run(benchmark::State& state, std::int64_t rows, std::int64_t group, std::int64_t dim,
         std::int64_t context, int kv_type) {
  constexpr std::int64_t kFine = 1024;
  AttnSpec spec{.heads = group, .kv_heads = 1, .k_dim = dim, .v_dim = dim};
  spec.scale = 0.0625f;
  spec.kv_type = kv_type;
  spec.rope = {dim, true, kFine};
  Kernels k(best_host_isa());
  const std::string name = k.name(attn(k.e(), spec));
  const std::int64_t blocks = (context + rows) / GC_KV_BLOCK + 1,
                     bytes = kv_state_bytes(1, dim, dim, spec.kv_type);
  Buffer<std::uint8_t> pool(blocks * bytes), scratch(attn_scratch_bytes(spec));
  std::fill(pool.begin(), pool.end(), 0x2c);  // 0.066
  Buffer<float> q(rows * group * dim), y(rows * group * dim), table(kFine * dim);
  testing::fill_random(q, 1);
  std::fill(table.begin(), table.end(), 0.5f);
  std::vector<std::uint32_t> ids(blocks);
  std::iota(ids.begin(), ids.end(), 0u);
  gc_seq seq = {};
  seq.tables[0] = {ids.data(), std::uint32_t(blocks), 0};
  std::vector<gc_row> table_rows(rows);
  for (std::int64_t t = 0; t < rows; ++t) table_rows[t].pos = std::int32_t(context - rows + t);
  std::uint8_t* pools[] = {pool.data()};
  gc_step step = {};
  step.rows = table_rows.data();
  step.n_rows = std::uint32_t(rows);
  step.seqs = &seq;
  step.pools = pools;
  auto* f = k.get<Attn>(name);
  for (auto _ : state) {
    f(&step, 0, bytes, 0, q.data(), group * dim * 4, nullptr, table.data(), table.data(), nullptr, y.data(),
      group * dim * 4, 0, rows, scratch.data());
  }
  double seen = 0;
  for (const gc_row& row : table_rows) seen += row.pos + 1;
  const auto n = static_cast<double>(state.iterations());
  state.counters["bytes"] =
      benchmark::Counter(n * seen * double(bytes) / GC_KV_BLOCK, benchmark::Counter::kIsRate);
  state.counters["madds"] =
      benchmark::Counter(n * seen * double(2 * group * dim), benchmark::Counter::kIsRate);
}

void decode(benchmark::State& state) {
  run(state, 1, state.range(0), state.range(1), state.range(2), static_cast<int>(state.range(3)));
}
BENCHMARK(decode)
    ->ArgNames({"group", "dim", "context", "kv"})
    ->ArgsProduct({{1, 2, 4, 8}, {64, 128, 256}, {8192}, {GC_KV_F16}})
    ->Args({4, 256, 512, GC_KV_F16})
    ->ArgsProduct({{1, 4}, {64, 256}, {32768}, {GC_KV_F32, GC_KV_F16, GC_KV_BF16, GC_KV_Q8_0}});

void prompt(benchmark::State& state) {
  run(state, 256, state.range(0), state.range(1), 512, static_cast<int>(state.range(2)));
}
BENCHMARK(prompt)
    ->ArgNames({"group", "dim", "kv"})
    ->ArgsProduct({{1, 3, 4}, {64, 128, 256}, {GC_KV_F32, GC_KV_F16, GC_KV_BF16, GC_KV_Q8_0}});

// What the machine can: independent multiply-adds in registers.
void peak(benchmark::State& state) {
  Kernels k(best_host_isa());
  Emitter& e = k.e();
  const std::string name = k.name(e.function("peak", {out("y"), i64("n")}, [&](const Args& a) {
    Vec v(e);
    constexpr int kChains = 12;
    Value* x = v.splat(0.5);
    Vec::Values acc;
    for (int i = 0; i < kChains; ++i) acc.push_back(v.load(e.at(a["y"], i * 64)));
    acc = e.for_range(e.i64(0), a["n"], 1, acc, [&](Value*, const Vec::Values& in) {
      Vec::Values next;
      for (Value* y : in) next.push_back(v.fma(y, x, x));
      return next;
    });
    for (int i = 0; i < kChains; ++i) v.store(acc[i], e.at(a["y"], i * 64));
  }));
  Buffer<float> y(12 * 16);
  std::fill(y.begin(), y.end(), 0.25f);
  for (int i = 0; i < 16 * 12; ++i) y[i] = float(i);
  auto* f = k.get<void(float*, std::int64_t)>(name);
  constexpr std::int64_t kTurns = 100000;
  for (auto _ : state) f(y.data(), kTurns);
  state.counters["madds"] = benchmark::Counter(static_cast<double>(state.iterations()) * kTurns * 12 * 16,
                                               benchmark::Counter::kIsRate);
}
BENCHMARK(peak);

}  // namespace
}  // namespace gc::cpu

BENCHMARK_MAIN();
