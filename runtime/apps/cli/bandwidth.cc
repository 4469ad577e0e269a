// Loads of 64 bytes in four streams a worker: one stream leaves the line buffers of recent cores half empty. The
// width of the load is that of the best vector unit, since narrow loads can bind before memory does.
#include "runtime/apps/cli/bandwidth.h"

#include "runtime/apps/cli/app.h"
#include "runtime/core/cpu_features.h"

namespace gcrt {
namespace {

constexpr int kPasses = 8;
constexpr int64_t kEnough = 400000000;  // ns in all, once there were two passes
constexpr size_t kStreams = 4;

typedef uint64_t CacheLine __attribute__((vector_size(64)));

// Returns something that depends on every line, so that no load can go.
#define GCRT_READ_LINES(name, attributes)                                         \
  attributes uint64_t name(const CacheLine* lines, size_t n) {                    \
    const size_t part = n / kStreams;                                             \
    CacheLine sum[kStreams] = {};                                                 \
    for (size_t i = 0; i < part; ++i)                                             \
      for (size_t s = 0; s < kStreams; ++s) sum[s] ^= lines[s * part + i];        \
    const CacheLine all = sum[0] ^ sum[1] ^ sum[2] ^ sum[3];                      \
    return all[0] ^ all[1] ^ all[2] ^ all[3] ^ all[4] ^ all[5] ^ all[6] ^ all[7]; \
  }
GCRT_READ_LINES(read_plain, )
#if defined(__x86_64__)
GCRT_READ_LINES(read_avx2, __attribute__((target("avx2"))))
GCRT_READ_LINES(read_avx512, __attribute__((target("avx512f"))))
#endif
#undef GCRT_READ_LINES

struct Pass {
  uint64_t (*read)(const CacheLine*, size_t);
  const CacheLine* lines;
  size_t n;
  uint32_t workers;
  uint64_t sink;
};

void read_share(void* context, uint32_t worker) {
  Pass* p = static_cast<Pass*>(context);
  const size_t from = p->n * worker / p->workers, to = p->n * (worker + 1) / p->workers;
  const uint64_t sum = p->read(p->lines + from, to - from);
  __atomic_fetch_xor(&p->sink, sum, __ATOMIC_RELAXED);
}

// Bytes per second, the best of `passes` and, past `enough` of them, of those until kEnough is over.
double best_pass(WorkerPool& pool, Span<const uint8_t> data, int passes, int enough) {
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(data.data()) + 63) & ~uintptr_t{63};
  const uintptr_t end = reinterpret_cast<uintptr_t>(data.end());
  if (end < begin + 64 * kStreams) return 0;
  Pass pass = {read_plain, reinterpret_cast<const CacheLine*>(begin), (end - begin) / 64, pool.workers(), 0};
#if defined(__x86_64__)
  const uint64_t have = cpu_features();
  if (have >> kCpu_avx2 & 1) pass.read = read_avx2;
  if (have >> kCpu_avx512f & 1) pass.read = read_avx512;
#endif
  int64_t best = INT64_MAX;
  const int64_t until = now_ns() + kEnough;
  for (int i = 0; i < passes && (i < enough || now_ns() < until); ++i) {
    const int64_t start = now_ns();
    pool.run(read_share, &pass);
    best = min_of(best, now_ns() - start);
  }
  return best > 0 ? static_cast<double>(pass.n) * 64 * 1e9 / static_cast<double>(best) : 0;
}

}  // namespace

double measure_read_bandwidth(WorkerPool& pool, Span<const uint8_t> data) {
  return best_pass(pool, data, kPasses, 3);  // the first one brings pages and caches in
}

double read_bandwidth_now(WorkerPool& pool, Span<const uint8_t> data) { return best_pass(pool, data, 2, 2); }

}  // namespace gcrt
