#include "runtime/apps/cli/peak.h"

#include "runtime/apps/cli/app.h"

namespace gcrt {
namespace {

constexpr int kPasses = 16;
constexpr int64_t kLongEnough = 4000000;  // ns of a pass

struct Pass {
  const gc_peak& peak;
  uint64_t n;
};

void multiply(void* context, uint32_t) {
  const Pass* p = static_cast<Pass*>(context);
  p->peak.run(p->n);
}

int64_t time_of(WorkerPool& pool, Pass pass) {
  const int64_t start = now_ns();
  pool.run(multiply, &pass);
  return now_ns() - start;
}

}  // namespace

double measure_prompt_peak(WorkerPool& pool, const gc_peak& peak) {
  if (peak.run == nullptr) return 0;
  Pass pass = {peak, 256};
  while (time_of(pool, pass) < kLongEnough) pass.n *= 2;
  int64_t best = INT64_MAX;
  for (int i = 0; i < kPasses; ++i) {
    const int64_t took = time_of(pool, pass);
    if (took < best) best = took;
  }
  return static_cast<double>(pass.n * peak.macs) * pool.workers() * 1e9 / static_cast<double>(best);
}

}  // namespace gcrt
