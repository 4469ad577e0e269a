// Attention of a generated token over a long context, in bytes of keys and values a second beside a plain read of the
// same memory, and of a prompt, in flops beside the most that the unit does: f32 FMA, or with `bf16` tdpbf16ps or
// vdpbf16ps. Kernel
// and bound take turns in the same run; both are the best of many samples.
//
//   bazel run //codegen_cpu/kernels/attention:attention_bench [-- --benchmark_filter=...]
#include <benchmark/benchmark.h>
#include <immintrin.h>
#include <sys/mman.h>

#include <ctime>
#include <numeric>

#include "codegen_cpu/kernels/attention/attention.h"
#include "codegen_cpu/kernels/matmul/tile_matmul.h"
#include "codegen_cpu/kernels/testing.h"
#include "codegen_cpu/kv_layout.h"
#include "codegen_cpu/vec/vec.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace gc::cpu {
namespace {

using llvm::Value;
using testing::Buffer;
using testing::Kernels;
using Attn = void(const gc_step*, std::int64_t group, std::int64_t block_bytes, std::int64_t state_offset,
                  const float* q, std::int64_t qs, const float* q_norm, const float* fine,
                  const float* coarse, const float* sinks, void* y, std::int64_t ys, std::int64_t begin,
                  std::int64_t end, void* scratch);

// ---- Bounds ----

constexpr int kChains = 12, kProducts = 8;
constexpr std::int64_t kTurns = 20000;
constexpr double kFmaFlops = 2.0 * kChains * 16 * kTurns;
constexpr double kTileFlops = 2.0 * kProducts * 16 * 16 * 32 * kTurns;
constexpr double kDotFlops = 2 * kFmaFlops;

// void(y): independent multiply-adds in registers.
llvm::Function* fma_peak(Emitter& e) {
  return e.function("fma_peak", {out("y")}, [&](const Args& a) {
    Vec v(e);
    Value* x = v.splat(0.5);
    Vec::Values acc;
    for (int i = 0; i < kChains; ++i) acc.push_back(v.load(e.at(a["y"], i * 64)));
    acc = e.for_range(e.i64(0), e.i64(kTurns), 1, acc, [&](Value*, const Vec::Values& in) {
      Vec::Values next;
      for (Value* y : in) next.push_back(v.fma(y, x, x));
      return next;
    });
    for (int i = 0; i < kChains; ++i) v.store(acc[i], e.at(a["y"], i * 64));
  });
}

// void(y): products of pairs of bf16 in registers.
llvm::Function* dot_peak(Emitter& e) {
  return e.function("bf16_peak", {out("y")}, [&](const Args& a) {
    Vec v(e);
    auto* pairs = llvm::FixedVectorType::get(e.b().getBFloatTy(), 32);
    Value* x = e.load(pairs, a["y"], 64);
    Vec::Values acc(kChains, v.zero());
    acc = e.for_range(e.i64(0), e.i64(kTurns), 1, acc, [&](Value*, const Vec::Values& in) {
      Vec::Values next;
      for (Value* y : in)
        next.push_back(e.b().CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512, {}, {y, x, x}));
      return next;
    });
    for (int i = 0; i < kChains; ++i) v.store(acc[i], e.at(a["y"], i * 64));
  });
}

llvm::Function* tile_peak(Emitter& e) {
  return e.function("bf16_peak", {out("y")}, [&](const Args&) {
    const auto tile = [&](int i) { return e.b().getInt8(static_cast<std::uint8_t>(i)); };
    for (int i = 0; i < 8; ++i) e.b().CreateIntrinsic(llvm::Intrinsic::x86_tilezero, {}, {tile(i)});
    e.for_range(0, kTurns, 1, [&](Value*) {
      for (int i = 0; i < kProducts; ++i)
        e.b().CreateIntrinsic(llvm::Intrinsic::x86_tdpbf16ps, {},
                              {tile(i % 4), tile(4 + i % 2), tile(6 + i / 2 % 2)});
    });
  });
}

// void(p, i64 bytes, y): every line once.
llvm::Function* read_peak(Emitter& e) {
  return e.function("read_peak", {in("p"), i64("bytes"), out("y")}, [&](const Args& a) {
    Vec v(e);
    Vec::Values sums(4, v.zero());
    sums = e.for_range(e.i64(0), a["bytes"], 256, sums, [&](Value* i, const Vec::Values& in) {
      Vec::Values next;
      for (int k = 0; k < 4; ++k) {
        e.prefetch(e.at(e.at(a["p"], i), 4096 + 64 * k));
        next.push_back(v.add(in[k], v.load(e.at(e.at(a["p"], i), 64 * k))));
      }
      return next;
    });
    for (int k = 0; k < 4; ++k) v.store(sums[k], e.at(a["y"], 64 * k));
  });
}

// Of this thread, so that time given to other processes doesn't count.
double now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}
double seconds(const std::function<void()>& f) {
  const double begin = now();
  f();
  return now() - begin;
}

// Out of all caches: a token reads its whole context once, after gigabytes of other things.
__attribute__((target("clflushopt"))) void evict(const std::uint8_t* p, std::int64_t bytes) {
  for (std::int64_t i = 0; i < bytes; i += 64) _mm_clflushopt(const_cast<std::uint8_t*>(p + i));
  _mm_mfence();
}

// As sessions keep their keys and values. What it holds is lost.
void on_huge_pages(std::uint8_t* p, std::int64_t bytes) {
  constexpr std::uintptr_t kHugePage = std::uintptr_t{2} << 20;
  const auto begin = (reinterpret_cast<std::uintptr_t>(p) + kHugePage - 1) & ~(kHugePage - 1);
  const auto end = reinterpret_cast<std::uintptr_t>(p + bytes) & ~(kHugePage - 1);
  if (begin >= end) return;
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

// ---- Attention ----

struct Shape {
  std::int64_t rows, group, dim, context;
  int kv_type;
  bool bf16 = false;
};

void run(benchmark::State& state, const Shape& s) {
  constexpr std::int64_t kFine = 1024;
  const Isa& isa = best_host_isa();
  if (s.bf16 && !isa.has_bf16dot) return state.SkipWithError("no products of bf16 on this machine");
  const bool tiles = s.bf16 && isa.has_amx;
  AttnSpec spec{.heads = s.group, .kv_heads = 1, .k_dim = s.dim, .v_dim = s.dim};
  spec.scale = 0.0625f;
  spec.kv_type = s.kv_type;
  spec.bf16 = s.bf16;
  spec.ints = s.rows == 1 && attn_has_ints(spec);
  spec.rope = {s.dim, true, kFine};
  Kernels k(isa);
  const std::string name = k.name(attn(k.e(), spec));
  fma_peak(k.e()), read_peak(k.e());
  if (s.bf16) tiles ? tile_peak(k.e()) : dot_peak(k.e());
  if (tiles) tiles_begin(k.e());
  const std::int64_t blocks = (s.context + s.rows) / GC_KV_BLOCK + 1,
                     bytes = kv_state_bytes(1, s.dim, s.dim, spec.kv_type);
  Buffer<std::uint8_t> pool(blocks * bytes + 8192), scratch(attn_scratch_bytes(isa, spec));
  on_huge_pages(pool.data(), blocks * bytes);
  std::fill(pool.begin(), pool.end(), 0x2c);  // 0.066
  Buffer<float> q(s.rows * s.group * s.dim), y(s.rows * s.group * s.dim + 256), table(kFine * s.dim);
  testing::fill_random(q, 1);
  std::fill(y.begin(), y.end(), 0.25f);
  std::fill(table.begin(), table.end(), 0.5f);
  std::vector<std::uint32_t> ids(blocks);
  std::iota(ids.begin(), ids.end(), 0u);
  gc_seq seq = {};
  seq.tables[0] = {ids.data(), std::uint32_t(blocks), 0};
  std::vector<gc_row> table_rows(s.rows);
  double seen = 0;
  for (std::int64_t t = 0; t < s.rows; ++t) {
    table_rows[t].pos = std::int32_t(s.context - s.rows + t);
    seen += double(s.context - s.rows + t + 1);
  }
  std::uint8_t* pools[] = {pool.data()};
  gc_step step = {};
  step.rows = table_rows.data();
  step.n_rows = std::uint32_t(s.rows);
  step.seqs = &seq;
  step.pools = pools;
  auto* f = k.get<Attn>(name);
  if (tiles) k.get<void()>("tiles_begin")();
  auto attention = [&] {
    f(&step, 0, bytes, 0, q.data(), s.group * s.dim * 4, nullptr, table.data(), table.data(), nullptr,
      y.data(), s.group * s.dim * 4, 0, s.rows, scratch.data());
  };
  auto* fma = k.get<void(float*)>("fma_peak");
  auto* read = k.get<void(const void*, std::int64_t, float*)>("read_peak");
  auto* bf16 = s.bf16 ? k.get<void(float*)>("bf16_peak") : nullptr;
  const std::int64_t read_bytes = (s.context + GC_KV_BLOCK - 1) / GC_KV_BLOCK * bytes;
  double ours = 1e9, bound = 1e9;
  for (auto _ : state) {
    state.PauseTiming();
    if (s.rows == 1) evict(pool.data(), read_bytes);
    state.ResumeTiming();
    ours = std::min(ours, seconds(attention));
    state.PauseTiming();
    if (s.rows == 1) evict(pool.data(), read_bytes);
    bound = std::min(bound, seconds([&] {
                       if (s.rows == 1)
                         read(pool.data(), read_bytes, y.data());
                       else if (s.bf16)
                         bf16(y.data());
                       else
                         fma(y.data());
                     }));
    state.ResumeTiming();
  }
  if (s.rows == 1) {
    const double rate = seen * double(bytes) / GC_KV_BLOCK / ours;
    state.counters["GB/s"] = rate / 1e9;
    state.counters["of_read"] = rate / (double(read_bytes) / bound);
  } else {
    const double rate = seen * double(4 * s.group * s.dim) / ours;
    state.counters["TFLOPS"] = rate / 1e12;
    state.counters["of_peak"] = rate / ((tiles ? kTileFlops : s.bf16 ? kDotFlops : kFmaFlops) / bound);
  }
}

void decode(benchmark::State& state) {
  run(state, {1, state.range(0), state.range(1), state.range(2), static_cast<int>(state.range(3))});
}
BENCHMARK(decode)
    ->ArgNames({"group", "dim", "context", "kv"})
    ->ArgsProduct(
        {{1, 4, 8}, {64, 96, 128, 256}, {8192, 32768}, {GC_KV_F32, GC_KV_F16, GC_KV_BF16, GC_KV_Q8_0}});

void prompt(benchmark::State& state) {
  run(state, {256, state.range(0), state.range(1), 512, static_cast<int>(state.range(2))});
}
BENCHMARK(prompt)
    ->ArgNames({"group", "dim", "kv"})
    ->ArgsProduct({{1, 3, 4}, {64, 128, 256}, {GC_KV_F32, GC_KV_F16, GC_KV_BF16, GC_KV_Q8_0}});

void prompt_bf16(benchmark::State& state) {
  run(state, {512 / state.range(0), state.range(0), state.range(1), state.range(2), GC_KV_BF16, true});
}
BENCHMARK(prompt_bf16)
    ->ArgNames({"group", "dim", "context"})
    ->ArgsProduct({{1, 3, 4}, {64, 96, 128, 256}, {512}})
    ->ArgsProduct({{1, 4}, {64, 256}, {256, 4096, 16384}});

}  // namespace
}  // namespace gc::cpu

BENCHMARK_MAIN();
