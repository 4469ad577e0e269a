// Speed of the products on tiles beside the machine's peak, measured in the same run: tdpbf16ps on tiles that stay in
// registers. A line is the best of many samples, product and peak taking turns.
//
//   bazel run --config=bench //codegen_cpu/kernels/matmul:tile_bench -- [--mb=N] [--k=N] [--rows=N] [--threads=N] [FORMAT...]
//
// --mb: megabytes of weights a thread streams through, by default past every cache; 1 shows what a kernel does with weights
// at hand. --k, --rows, --threads: only lines of these. FORMAT: by default q4_k, q5_0, q6_k.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <thread>
#include <utility>

#include "codegen_cpu/jit.h"
#include "codegen_cpu/kernels/matmul/matmul.h"
#include "codegen_cpu/kernels/matmul/test_data.h"
#include "codegen_cpu/kernels/matmul/tile_matmul.h"
#include "codegen_cpu/prompt_rows.h"
#include "compiler/base/error.h"
#include "compiler/base/strings.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace gc::cpu {
namespace {

using TileFn = void(const std::uint8_t* panels, const void* x, float* y, std::int64_t y_stride,
                    std::int64_t n_panels, std::int64_t n_rows, std::uint8_t* scratch);

constexpr int kPeakProducts = 8;
constexpr std::int64_t kPeakLoops = 16000;  // long enough that the unit is awake
constexpr double kProductFlops = 2.0 * 16 * 16 * 32;
constexpr double kSeconds = 0.4;          // a line's samples
constexpr std::int64_t kSlack = 1 << 20;  // prefetches past the end

void emit_peak(Emitter& e) {
  e.function("peak", {i64("n")}, [&](const Args& args) {
    const auto tile = [&](int i) { return e.b().getInt8(static_cast<std::uint8_t>(i)); };
    for (int i = 0; i < 8; ++i) e.b().CreateIntrinsic(llvm::Intrinsic::x86_tilezero, {}, {tile(i)});
    e.for_range(e.i64(0), args["n"], 1, [&](llvm::Value*) {
      for (int i = 0; i < kPeakProducts; ++i)
        e.b().CreateIntrinsic(llvm::Intrinsic::x86_tdpbf16ps, {},
                              {tile(i % 4), tile(4 + i % 2), tile(6 + i / 2 % 2)});
    });
  });
}

// The slowest thread's own time, so that starting and ending them doesn't count, nor what a thread does before.
double seconds(const std::function<void(int)>& work, const std::function<void()>& before, int threads) {
  std::atomic<int> ready{0};
  std::vector<double> took(threads);
  const auto part = [&](int t) {
    before();
    for (++ready; ready < threads;) {
    }
    const auto begin = std::chrono::steady_clock::now();
    work(t);
    took[t] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  std::vector<std::thread> pool;
  for (int t = 1; t < threads; ++t) pool.emplace_back(part, t);
  part(0);
  for (std::thread& t : pool) t.join();
  return *std::max_element(took.begin(), took.end());
}

// Memory as programs have it: large pages.
class Pages {
 public:
  explicit Pages(std::int64_t bytes) : bytes_((bytes + kLarge - 1) / kLarge * kLarge) {
    all_ = mmap(nullptr, bytes_ + kLarge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    GC_CHECK(all_ != MAP_FAILED, "no memory");
    const auto at = reinterpret_cast<std::uintptr_t>(all_);
    data_ = static_cast<std::uint8_t*>(all_) + ((at + kLarge - 1) / kLarge * kLarge - at);
    madvise(data_, bytes_, MADV_HUGEPAGE);
    std::memset(data_, 0, bytes_);
  }
  Pages(Pages&& o) : bytes_(o.bytes_), all_(std::exchange(o.all_, nullptr)), data_(o.data_) {}
  ~Pages() {
    if (all_) munmap(all_, bytes_ + kLarge);
  }
  std::uint8_t* get() const { return data_; }

 private:
  static constexpr std::int64_t kLarge = 2 << 20;
  std::int64_t bytes_;
  void* all_;
  std::uint8_t* data_;
};

// What a tile of weights costs to unpack, in products of tiles; most of it hides behind them.
double unpacking(Jit& jit, const std::string& name, const std::uint8_t* panels, std::int64_t k,
                 std::uint8_t* scratch, double seconds_a_product) {
  using UnpackFn =
      void(const std::uint8_t* panel0, const std::uint8_t* panel1, std::int64_t begin, std::int64_t blocks,
           std::uint8_t* tiles, std::int64_t ahead, std::int64_t first, std::int64_t last);
  auto* f = jit.get<UnpackFn>(name);
  const std::int64_t blocks = std::min<std::int64_t>(k / 32, 16), loops = 20;
  double best = 1e9;
  for (int sample = 0; sample < 200; ++sample)
    best = std::min(best, seconds(
                              [&](int) {
                                for (std::int64_t i = 0; i < loops; ++i)
                                  f(panels, panels, 0, blocks, scratch, 0, 0, blocks);
                              },
                              [] {}, 1));
  return best / static_cast<double>(loops * blocks) / seconds_a_product;
}

using GluFn = void(const std::uint8_t* gate, const std::uint8_t* up, const void* x, void* y,
                   std::int64_t n_panels, std::int64_t n_rows, std::uint8_t* scratch);

struct Options {
  std::int64_t mb = 128, k = 0, rows = 0, threads = 0;  // 0: all
};

// A product of n columns a thread, or a gated unit of half as many.
void line(const Options& options, const Isa& isa, Format format, std::int64_t k, std::int64_t n,
          std::int64_t rows, int threads, bool glu) {
  llvm::LLVMContext context;
  Emitter e(context, isa, "bench");
  const std::string name(glu ? tile_glu(e, format, k, {ir::Fn::gelu_tanh, n / 2})->getName()
                             : tile_matmul(e, format, k)->getName());
  emit_peak(e);
  tiles_begin(e);
  Jit jit(e);
  auto* peak = jit.get<void(std::int64_t)>("peak");
  auto* begin = jit.get<void()>("tiles_begin");
  const std::int64_t panels = n / kPanelRows;  // of each thread
  const std::vector<std::uint8_t> packed = pack::packed(format, n, k, pack::random_matrix(format, n, k, 1));
  const std::int64_t x_bytes = generated_at(rows) / kBlockRows * block_bytes(k);
  const std::int64_t stride = 4 * n + 64;  // as in programs
  const Pages x(x_bytes);
  // Zeros would flatter: the unit runs at a higher clock, and gates have no work.
  std::mt19937 random(1);
  for (std::int64_t i = 0; i < x_bytes; i += 2) {
    const auto value = static_cast<std::uint16_t>(0x3c00 | (random() & 0x83ff));  // 2^-7 .. 2^-5, either sign
    std::memcpy(x.get() + i, &value, 2);
  }
  const auto matrix = static_cast<std::int64_t>(packed.size());
  const std::int64_t matrices = std::max<std::int64_t>((options.mb << 20) / matrix, 1);
  std::vector<Pages> weights, scratch, y;
  for (int t = 0; t < threads; ++t) {
    weights.emplace_back(matrices * matrix + kSlack);
    for (std::int64_t i = 0; i < matrices; ++i)
      std::memcpy(weights[t].get() + i * matrix, packed.data(), packed.size());
    scratch.emplace_back(tile_scratch_bytes(isa, k));
    y.emplace_back(generated_at(rows) * stride);
  }
  double ours = 1e9, bound = 1e9, total = 0;
  for (std::int64_t sample = 0; total < kSeconds; ++sample) {
    const double a = seconds(
        [&](int t) {
          const std::uint8_t* w = weights[t].get() + sample % matrices * matrix;
          if (glu)
            jit.get<GluFn>(name)(w, w + panels / 2 * panel_bytes(format, k), x.get(), y[t].get(), panels / 2,
                                 rows, scratch[t].get());
          else
            jit.get<TileFn>(name)(w, x.get(), reinterpret_cast<float*>(y[t].get()), stride, panels, rows,
                                  scratch[t].get());
        },
        begin, threads);
    const double b = seconds([&](int) { peak(kPeakLoops); }, begin, threads);
    ours = std::min(ours, a);
    bound = std::min(bound, b);
    total += a + b;
  }
  const double rate = 2.0 * static_cast<double>(n * k * rows) * threads / ours;
  const double most = kProductFlops * kPeakProducts * kPeakLoops * threads / bound;
  const double product = bound / static_cast<double>(kPeakProducts * kPeakLoops);
  const std::string unpack = cat("unpack_tiles_", info(format).text_name, "_", k);
  std::printf(
      "%-5s %-7s k %5d n %5d rows %4d threads %d  %6.2f TFLOPS of %5.2f: %.2f  (a tile unpacked: %.1f "
      "products)\n",
      std::string(info(format).text_name).c_str(), glu ? "gate+up" : "", static_cast<int>(k),
      static_cast<int>(n), static_cast<int>(rows), threads, rate / 1e12, most / 1e12, rate / most,
      unpacking(jit, unpack, weights[0].get(), k, scratch[0].get(), product));
  std::fflush(stdout);
}

}  // namespace
}  // namespace gc::cpu

int main(int argc, char** argv) {
  using namespace gc;
  using namespace gc::cpu;
  const Isa& isa = all_isas().back();  // the only one with tiles
  if (!isa.has_amx || !host_runs(isa)) {
    std::printf("this machine has no tiles\n");
    return 1;
  }
  Options options;
  std::vector<std::string> formats;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const auto number = [&](const char* flag, std::int64_t* value) {
      if (arg.rfind(flag, 0) != 0) return false;
      *value = std::atoll(arg.c_str() + std::strlen(flag));
      return true;
    };
    if (!number("--mb=", &options.mb) && !number("--k=", &options.k) && !number("--rows=", &options.rows) &&
        !number("--threads=", &options.threads))
      formats.push_back(arg);
  }
  if (formats.empty()) formats = {"q4_k", "q5_0", "q6_k"};
  const auto wanted = [](std::int64_t chosen, std::int64_t value) { return chosen == 0 || chosen == value; };
  for (Format format : matmul_formats()) {
    const std::string name(info(format).text_name);
    if (!has_tile_matmul(format) || std::find(formats.begin(), formats.end(), name) == formats.end())
      continue;
    for (std::int64_t k : {640, 1152, 2048, 2560, 10240}) {
      if (k % info(format).block_values != 0 || !wanted(options.k, k)) continue;
      for (std::int64_t n : {1024, 2560})
        for (std::int64_t rows : {32, 128, 512})
          if ((rows == 512 || n == 1024) && wanted(options.rows, rows))
            for (int threads : {1, 2})
              for (bool glu : {false, true})
                if (wanted(options.threads, threads)) line(options, isa, format, k, n, rows, threads, glu);
    }
  }
  return 0;
}
