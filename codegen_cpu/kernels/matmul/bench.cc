// Speed of every matrix kernel on this machine, beside what the machine can do, measured in the same run:
//   read   GB/s of a prefetched read of as much memory by as many threads
//   peak   rate of the ISA's vector product on registers; a share of it is a share of the issue rate, and more than it
//          (share > 1) is what matrix tiles bring
//   tiles  rate of tdpbssd on registers, in products of 8 rows by 16 by 32 columns: what plane_tiles.cc needs
// A line is the best of many samples of a millisecond or so, kernel and bound taking turns: short enough to fall between
// the slices of busy neighbours. One row streams through memory past every cache, the bound from the other half of it.
//
//   bazel run --config=bench //codegen_cpu/kernels/matmul:bench -- [--isa=NAME [--coarse]] [--mb=N] [--benchmark_filter=REGEX]
//   ... -- --types[=Q4_K,Q6_K] [--seconds=S]
//
// Lines "prompt_": products of prompt rows (dot_matmul.h), --coarse in 8 bits.
// --mb: megabytes of weights to stream through, by default past every cache; 1 shows what a kernel does from the second
// level.
// --types: one row, of every type, as a table: the matrices of a layer of Llama 3.2 1B in random blocks of that type.
// Bytes are those of the file, of which the packed image has `image` times as many.
//   1, 2      GB/s on so many threads;  of read: their share of what as many threads read
//   unpacked  GB/s on one thread from its second-level cache: what unpacking and multiplying allow
//   goal      of the lower of the two bounds, 1 thread
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>

#include "codegen_cpu/jit.h"
#include "codegen_cpu/kernels/matmul/dot_matmul.h"
#include "codegen_cpu/kernels/matmul/matmul.h"
#include "codegen_cpu/kernels/matmul/peak.h"
#include "codegen_cpu/kernels/matmul/test_data.h"
#include "codegen_cpu/kernels/matmul/tile_matmul.h"
#include "codegen_cpu/vec/dot.h"
#include "codegen_cpu/vec/vec.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace gc::cpu {
namespace {

using llvm::Value;
using Values = Emitter::Values;

using DotFn = void(const std::uint8_t* panels, const void* x, std::int64_t x_stride, float* y,
                   std::int64_t y_stride, std::int64_t n_panels, std::int64_t n_rows, std::uint8_t* scratch);

constexpr std::int64_t kSampleBytes = std::int64_t{12} << 20;  // of them a thread reads in one sample
double line_seconds = 1.5;                                     // a line's samples

// void(p, i64 bytes, y): reads memory as four streams side by side (faster than one), prefetching ahead.
void emit_read(Emitter& e) {
  e.function("read", {in("p"), i64("bytes"), out("y")}, [&](const Args& args) {
    auto* type = llvm::FixedVectorType::get(e.b().getInt32Ty(), 16);
    Value* zero = llvm::Constant::getNullValue(type);
    Value* quarter = e.b().CreateShl(e.b().CreateLShr(args["bytes"], e.i64(8)), e.i64(6));
    const Values sums =
        e.for_range(e.i64(0), quarter, 64, {zero, zero, zero, zero}, [&](Value* i, const Values& in) {
          Values out;
          for (int j = 0; j < 4; ++j) {
            Value* p = e.at(e.at(args["p"], i), e.i64(j), quarter);
            e.prefetch(e.at(p, 1024));
            out.push_back(e.b().CreateXor(in[j], e.load(type, p, 64)));
          }
          return out;
        });
    Value* all = e.b().CreateXor(e.b().CreateXor(sums[0], sums[1]), e.b().CreateXor(sums[2], sums[3]));
    e.store(all, args["y"], 64);
  });
}

constexpr int kPeakRegisters = 12;  // independent sums: more than any latency needs

int peak_chains(const Isa& isa) { return kPeakRegisters * isa.vector_bytes / 64; }

// void(x, i64 n, y): n times 8 steps on each of the sums.
void emit_peak(Emitter& e) {
  e.function("peak", {in("x"), i64("n"), out("y")}, [&](const Args& args) {
    const std::unique_ptr<Dot> dot = Dot::for_row(e);
    // Weights of their own for each sum, or products would be shared.
    std::vector<Values> w(peak_chains(e.isa()));
    for (std::size_t i = 0; i < w.size(); ++i) {
      for (int o = 0; o < dot->operands(); ++o)
        w[i].push_back(
            e.load(dot->operand_type(), e.at(args["x"], static_cast<std::int64_t>(i) * 128 + 64 * o), 64));
    }
    const Values init(peak_chains(e.isa()), llvm::Constant::getNullValue(dot->acc_type()));
    // A pointer that LLVM can't know, so that products aren't moved out of the loop.
    auto* opaque = llvm::InlineAsm::get(llvm::FunctionType::get(e.ptr(), {e.ptr()}, false), "", "=r,0", true);
    const Values sums = e.for_range(e.i64(0), args["n"], 1, init, [&](Value*, const Values& in) {
      Values acc = in;
      for (int s = 0; s < 8; ++s) {
        const Values x = dot->activation(e.b().CreateCall(opaque, {args["x"]}), 0, s);
        for (std::size_t i = 0; i < acc.size(); ++i) acc[i] = dot->mac(acc[i], w[i], x);
      }
      return acc;
    });
    for (std::size_t i = 0; i < sums.size(); ++i)
      e.store(sums[i], e.at(args["y"], static_cast<std::int64_t>(i) * 64), 64);
  });
  // The same with f32 FMA.
  e.function("peak_f32", {in("x"), i64("n"), out("y")}, [&](const Args& args) {
    Vec v(e);
    Value* w = v.load(args["x"]);
    const Values sums = e.for_range(e.i64(0), args["n"], 1, Values(peak_chains(e.isa()), v.zero()),
                                    [&](Value*, const Values& in) {
                                      Values acc = in;
                                      for (int s = 0; s < 8; ++s) {
                                        for (Value*& a : acc) a = v.fma(w, w, a);
                                      }
                                      return acc;
                                    });
    for (std::size_t i = 0; i < sums.size(); ++i)
      v.store(sums[i], e.at(args["y"], static_cast<std::int64_t>(i) * 64));
  });
}

constexpr std::int64_t kTilesOfLoop = 32;

// void(x, i64 n, y): n times kTilesOfLoop products on four tiles in turn.
void emit_tile_peak(Emitter& e) {
  e.function("peak_tiles", {in("x"), i64("n"), out("y")}, [&](const Args& args) {
    const auto tile = [&](int i) { return e.b().getInt8(static_cast<std::uint8_t>(i)); };
    const auto op = [&](llvm::Intrinsic::ID id, std::initializer_list<Value*> list) {
      e.b().CreateIntrinsic(id, {}, list);
    };
    e.b().CreateCall(tiles_begin(e));
    for (int t = 0; t < 8; ++t) op(llvm::Intrinsic::x86_tilezero, {tile(t)});
    e.for_range(e.i64(0), args["n"], 1, [&](Value*) {
      for (int t = 0; t < kTilesOfLoop; ++t)
        op(llvm::Intrinsic::x86_tdpbssd, {tile(t % 4), tile(4), tile(6)});
    });
    e.b().CreateCall(tiles_end(e));
  });
}

// work(thread, n): the n-th sample.
using Work = std::function<void(int, std::int64_t)>;

double seconds(const Work& work, int threads, std::int64_t n) {
  std::atomic<int> ready{0};
  std::atomic<bool> go{false};
  std::vector<std::thread> pool;
  for (int t = 1; t < threads; ++t) {
    pool.emplace_back([&, t] {
      ++ready;
      while (!go) benchmark::ClobberMemory();
      work(t, n);
    });
  }
  while (ready < threads - 1) benchmark::ClobberMemory();
  const auto begin = std::chrono::steady_clock::now();
  go = true;
  work(0, n);
  for (std::thread& t : pool) t.join();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Best times of two kinds of work, taking turns.
std::pair<double, double> best(const Work& a, const Work& b, int threads) {
  double best_a = 1e9, best_b = 1e9, total = 0;
  for (std::int64_t n = 0; total < line_seconds; ++n) {
    const double sa = seconds(a, threads, n), sb = seconds(b, threads, n);
    best_a = std::min(best_a, sa);
    best_b = std::min(best_b, sb);
    total += sa + sb;
  }
  return {best_a, best_b};
}

// Of all threads, in bytes of the image.
struct Rates {
  double ours, read;
};

class Bench {
 public:
  // `bytes` of memory, 64-byte aligned, to stream through.
  Bench(const Isa& isa, std::uint8_t* memory, std::int64_t bytes)
      : isa_(isa), memory_(memory), bytes_(bytes) {}

  // One row through matrices of `ks`, a share of the bytes each; `bytes` of the memory.
  Rates one_row(Format format, std::int64_t bytes, int threads,
                std::span<const std::pair<std::int64_t, double>> shares) {
    const ir::Elem input = matmul_input(format);
    const bool q16 = input == ir::Elem::Q16;
    llvm::LLVMContext context;
    Emitter e(context, isa_, "bench");
    emit_read(e);
    for (const auto& [k, share] : shares) {
      matmul(e, {format, k, input});
      if (q16) quantize(e, k);
    }
    Jit jit(e);
    double ours = 0, bound = 0, whole = 0;  // seconds a byte
    for (const auto& [k, share] : shares) {
      const std::int64_t panel = panel_bytes(format, k);
      const std::int64_t panels = std::max<std::int64_t>(std::min(kSampleBytes, bytes / 4) / panel, 1);
      const std::int64_t samples = std::max<std::int64_t>(bytes / (panels * panel), 1);
      fill(format, k, samples * panels * panel);
      const auto sample = [&](int t, std::int64_t n) {
        return memory_ + (n * threads + t) % samples * panels * panel;
      };
      const std::vector<float> x = random_activations(k, 5);
      auto xq = aligned<std::uint8_t>(q16 ? act_row_bytes(k) : k * 4);
      if (q16) {
        jit.get<QuantizeFn>("quantize_" + std::to_string(k))(x.data(), k * 4, xq.get(), act_row_bytes(k), 1);
      } else {
        std::memcpy(xq.get(), x.data(), x.size() * 4);
      }
      std::vector<Aligned<float>> y;
      for (int t = 0; t < threads; ++t) y.push_back(aligned<float>(panels * kPanelRows));
      auto* f = jit.get<MatmulFn>(matmul_name({format, k, input}));
      auto* read = jit.get<void(const std::uint8_t*, std::int64_t, float*)>("read");
      const auto [t_ours, t_read] =
          best([&](int t, std::int64_t n) { f(sample(t, n), xq.get(), 0, y[t].get(), 0, panels, 1); },
               [&](int t, std::int64_t n) {
                 read(sample(t, n + samples / threads / 2), panels * panel, y[t].get());
               },
               threads);
      const double size = static_cast<double>(threads * panels * panel);
      ours += share * t_ours / size;
      bound += share * t_read / size;
      whole += share;
    }
    return {whole / ours, whole / bound};
  }

  void run(benchmark::State& state, Format format, std::int64_t k, std::int64_t rows, int threads) {
    const ir::Elem input = matmul_input(format);
    const bool q16 = input == ir::Elem::Q16;
    llvm::LLVMContext context;
    Emitter e(context, isa_, "bench");
    emit_read(e);
    emit_peak(e);
    const bool tiles = isa_.has_amx && q16;
    if (tiles) emit_tile_peak(e);
    const MatmulSpec spec{format, k, input};
    matmul(e, spec);
    if (q16) quantize(e, k);
    const auto emitted = std::chrono::steady_clock::now();
    Jit jit(e);
    const double compile = std::chrono::duration<double>(std::chrono::steady_clock::now() - emitted).count();

    // A few packed panels, repeated over the memory; less of it a sample where rows make the work long.
    const std::int64_t panel = panel_bytes(format, k);
    const std::int64_t panels = std::clamp<std::int64_t>(
        std::min(kSampleBytes, bytes_ / 4) / (rows == 1 ? 1 : 4 * rows) / panel,
        std::min<std::int64_t>(8, bytes_ / panel / threads), bytes_ / panel / threads);
    const std::int64_t samples = bytes_ / (panels * panel);
    fill(format, k, bytes_);
    const auto sample = [&](int t, std::int64_t n) {
      return memory_ + (n * threads + t) % samples * panels * panel;
    };
    const std::vector<float> x = random_activations(rows * k, 5);
    const std::int64_t x_stride = q16 ? act_row_bytes(k) : k * 4, y_stride = panels * 64;
    auto xq = aligned<std::uint8_t>(rows * x_stride);
    if (q16) {
      jit.get<QuantizeFn>("quantize_" + std::to_string(k))(x.data(), k * 4, xq.get(), x_stride, rows);
    } else {
      std::memcpy(xq.get(), x.data(), x.size() * 4);
    }
    std::vector<Aligned<float>> y;
    for (int t = 0; t < threads; ++t) {
      y.push_back(aligned<float>(std::max<std::int64_t>(rows * y_stride / 4, 16 * kPeakRegisters)));
      std::fill_n(y[t].get(), rows * y_stride / 4, 0.0f);
    }
    auto* f = jit.get<MatmulFn>(matmul_name(spec));
    auto* read = jit.get<void(const std::uint8_t*, std::int64_t, float*)>("read");
    auto* peak = jit.get<void(const std::uint8_t*, std::int64_t, float*)>(q16 ? "peak" : "peak_f32");
    const auto multiply = [&](int t, std::int64_t n) {
      f(sample(t, n), xq.get(), x_stride, y[t].get(), y_stride, panels, rows);
    };
    constexpr std::int64_t kPeakLoops = 5000;
    const double macs = 16.0 * static_cast<double>(panels * k * rows);
    for (auto _ : state) {
      if (rows == 1) {
        const auto read_sample = [&](int t, std::int64_t n) {
          read(sample(t, n + samples / threads / 2), panels * panel, y[t].get());
        };
        const auto [ours, bound] = best(multiply, read_sample, threads);
        const double size = static_cast<double>(threads * panels * panel);
        state.counters["GB/s"] = size / ours / 1e9;
        state.counters["read"] = size / bound / 1e9;
        state.counters["share"] = bound / ours;
        state.SetIterationTime(ours);
      } else {
        const auto [ours, bound] =
            best(multiply, [&](int t, std::int64_t) { peak(xq.get(), kPeakLoops, y[t].get()); }, threads);
        // A mac() is 64 products of a plane; f32 FMA 16.
        const double rate = static_cast<double>(kPeakLoops * 8 * peak_chains(isa_)) / bound;
        const double needed = q16 ? macs / 64 * (isa_.has_vnni ? 2 : 1) : macs / 16;
        state.counters["GOPS"] = 2 * macs * threads / ours / 1e9;
        state.counters["peak"] = 2 * macs / needed * rate * threads / 1e9;
        state.counters["share"] = needed / ours / rate;
        if (tiles) {
          constexpr std::int64_t kTileLoops = 500;
          auto* tile_peak = jit.get<void(const std::uint8_t*, std::int64_t, float*)>("peak_tiles");
          const auto [again, of_tiles] = best(
              multiply, [&](int t, std::int64_t) { tile_peak(xq.get(), kTileLoops, y[t].get()); }, threads);
          const double tile_rate = static_cast<double>(kTileLoops * kTilesOfLoop) / of_tiles;
          state.counters["tiles"] = 2 * 8 * 16 * 32 * tile_rate * threads / 1e9;
          state.counters["of_tiles"] = macs / (8 * 16 * 32) / again / tile_rate;
        }
        state.counters["GB/s"] = static_cast<double>(threads * panels * panel) / ours / 1e9;
        state.SetIterationTime(ours);
      }
    }
    state.counters["compile_ms"] = compile * 1e3;
  }

  // The product of prompt rows, as a worker of two does it in a layer of `n` rows of weights.
  void run_prompt(benchmark::State& state, Format format, std::int64_t k, std::int64_t n, std::int64_t rows) {
    const PromptWay way = prompt_way(isa_);
    llvm::LLVMContext context;
    Emitter e(context, isa_, "bench");
    const std::int64_t peak_macs = prompt_peak(e, false).macs;
    const std::string name(dot_matmul(e, format, k)->getName());
    quantize(e, k);
    Jit jit(e);
    const auto panels = aligned_copy(pack::packed(format, n, k, pack::random_matrix(format, n, k, 1)));
    const bool q16 = prompt_input(way) == ir::Elem::Q16;
    const std::int64_t x_stride = act_row_bytes(k), y_stride = 4 * n + 64;
    auto x = aligned<std::uint8_t>(rows * x_stride);
    std::memset(x.get(), 0, rows * x_stride);
    const std::vector<float> values = random_activations(rows * k, 5);
    if (q16)
      jit.get<QuantizeFn>("quantize_" + std::to_string(k))(values.data(), k * 4, x.get(), x_stride, rows);
    auto y = aligned<float>(rows * y_stride / 4);
    auto scratch = aligned<std::uint8_t>(prompt_scratch_bytes(isa_, k));
    auto* f = jit.get<DotFn>(name);
    auto* peak = jit.get<void(std::int64_t)>("prompt_peak");
    constexpr std::int64_t kPeakLoops = 5000;
    const double macs = static_cast<double>(n * k * rows);
    for (auto _ : state) {
      const auto [ours, bound] = best(
          [&](int, std::int64_t) {
            f(panels.get(), x.get(), x_stride, y.get(), y_stride, n / kPanelRows, rows, scratch.get());
          },
          [&](int, std::int64_t) { peak(kPeakLoops); }, 1);
      const double rate = static_cast<double>(kPeakLoops * peak_macs) / bound;
      state.counters["GOPS"] = 2 * macs / ours / 1e9;
      state.counters["peak"] = 2 * rate / 1e9;
      state.counters["share"] = macs / ours / rate;
      state.SetIterationTime(ours);
    }
  }

 private:
  // The first `bytes` of the memory are panels of random blocks.
  void fill(Format format, std::int64_t k, std::int64_t bytes) {
    const auto image = pack::packed(format, 64, k, pack::random_matrix(format, 64, k, 1));
    const auto size = static_cast<std::int64_t>(image.size());
    for (std::int64_t at = 0; at < bytes; at += size)
      std::memcpy(memory_ + at, image.data(), static_cast<std::size_t>(std::min(size, bytes - at)));
  }

  const Isa& isa_;
  std::uint8_t* memory_;
  std::int64_t bytes_;
};

// A layer of Llama 3.2 1B: columns, and the share of its values in matrices of so many.
constexpr std::pair<std::int64_t, double> kLayer[] = {{2048, 21504.0 / 29696}, {8192, 8192.0 / 29696}};

// GB/s of the file's bytes, as a table.
// `types`: names between commas, or nothing for all.
void print_types(Bench& bench, std::int64_t bytes, const std::string& types) {
  const bool two = std::thread::hardware_concurrency() > 1;
  std::printf(
      "\n| type | bits | image | 1 | of read | 2 | of read | unpacked | goal |\n"
      "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
  for (Format format : matmul_formats()) {
    if (!types.empty() &&
        ("," + types + ",").find("," + std::string(name(format)) + ",") == std::string::npos)
      continue;
    const double file = static_cast<double>(row_bytes(format, 8192));
    const double image = static_cast<double>(panel_bytes(format, 8192)) / (kPanelRows * file);
    const Rates one = bench.one_row(format, bytes, 1, kLayer);
    const Rates both = two ? bench.one_row(format, bytes, 2, kLayer) : Rates{};
    const Rates cached = bench.one_row(format, std::int64_t{1} << 20, 1, {kLayer, 1});
    const auto gb = [&](double rate) { return rate / image / 1e9; };
    std::printf("| %s | %.2f | %.2f | %.1f | %.2f | %.1f | %.2f | %.1f | %.2f |\n",
                std::string(name(format)).c_str(), 8 * file / 8192, image, gb(one.ours),
                gb(one.ours) / (one.read / 1e9), gb(both.ours), two ? gb(both.ours) / (both.read / 1e9) : 0,
                gb(cached.ours), gb(one.ours) / std::min(one.read / 1e9, gb(cached.ours)));
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace gc::cpu

int main(int argc, char** argv) {
  using namespace gc;
  using namespace gc::cpu;
  Isa coarse;
  const Isa* isa = &best_host_isa();
  benchmark::Initialize(&argc, argv);
  std::int64_t megabytes = 384;
  bool only_types = false;
  std::string types;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const Isa* named = arg.rfind("--isa=", 0) == 0 ? isa_by_name(arg.substr(6)) : nullptr;
    if (named) {
      isa = named;
    } else if (arg == "--coarse") {
      coarse = *isa;
      coarse.coarse_prompts = true;
      isa = &coarse;
    } else if (arg.rfind("--mb=", 0) == 0) {
      megabytes = std::max(1, std::atoi(arg.c_str() + 5));
    } else if (arg == "--types" || arg.rfind("--types=", 0) == 0) {
      only_types = true;
      if (arg.size() > 8) types = arg.substr(8);
    } else if (arg.rfind("--seconds=", 0) == 0) {
      line_seconds = std::atof(arg.c_str() + 10);
    } else {
      std::fprintf(stderr, "unknown argument or ISA: %s\n", argv[i]);
      return 1;
    }
  }
  std::printf("ISA %s, %d MB of weights\n", std::string(isa->name).c_str(), static_cast<int>(megabytes));
  const std::int64_t bytes = megabytes << 20;
  constexpr std::int64_t kSlack = 8192;  // prefetches past the end
  auto memory = aligned<std::uint8_t>(static_cast<std::size_t>(bytes + kSlack));
  std::memset(memory.get(), 0, static_cast<std::size_t>(bytes + kSlack));
  Bench bench(*isa, memory.get(), bytes);
  if (only_types) {
    print_types(bench, bytes, types);
    return 0;
  }
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  for (Format format : matmul_formats()) {
    std::vector<std::int64_t> columns = {2560};
    if (format == Format::Q8_0 || format == Format::Q5_0) columns.insert(columns.begin(), 640);
    for (std::int64_t k : columns) {
      for (std::int64_t rows : {1, 2, 3, 4, 6, 8, 16, 64}) {
        for (int threads : rows == 1 && cores > 1 ? std::vector<int>{1, 2} : std::vector<int>{1}) {
          const std::string title = matmul_name({format, k, matmul_input(format)}) +
                                    "/rows:" + std::to_string(rows) + "/threads:" + std::to_string(threads);
          benchmark::RegisterBenchmark(
              title.c_str(),
              [=, &bench](benchmark::State& state) { bench.run(state, format, k, rows, threads); })
              ->Iterations(1)
              ->UseManualTime()
              ->Unit(benchmark::kMillisecond);
        }
      }
    }
  }
  if (prompt_way(*isa) != PromptWay::Tiles)  // those have tile_bench
    for (Format format : matmul_formats()) {
      if (!has_prompt_matmul(prompt_way(*isa), format)) continue;
      for (std::int64_t rows : {32, 512}) {
        const std::string title =
            "prompt_" + std::string(info(format).text_name) + "_2560/rows:" + std::to_string(rows);
        benchmark::RegisterBenchmark(
            title.c_str(),
            [=, &bench](benchmark::State& state) { bench.run_prompt(state, format, 2560, 1280, rows); })
            ->Iterations(1)
            ->UseManualTime()
            ->Unit(benchmark::kMillisecond);
      }
    }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
