#include "compiler/base/parallel.h"

#include <algorithm>
#include <system_error>
#include <thread>
#include <vector>

namespace gc {

int processors() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

void run_on_threads(int threads, const std::function<void()>& work) {
  std::vector<std::thread> pool;
  pool.reserve(threads > 1 ? static_cast<std::size_t>(threads - 1) : 0);
  try {
    for (int t = 1; t < threads; ++t) pool.emplace_back([&work] { work(); });
  } catch (const std::system_error&) {
    // Those that run do the rest.
  }
  work();
  for (std::thread& thread : pool) thread.join();
}

}  // namespace gc
