#include "runtime/core/threads.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace gcrt {
namespace {

constexpr int64_t kSpinNs = 40000;  // above a barrier's usual wait, below a scheduler's slice

int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// Returns when *word is no longer `old`.
void wait_change(uint32_t* word, uint32_t old, uint32_t* sleepers) {
  const int64_t until = now_ns() + kSpinNs;
  do {
    for (int i = 0; i < 64; ++i) {
      if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != old) return;
      pause_cpu();
    }
  } while (now_ns() < until);
  __atomic_fetch_add(sleepers, 1, __ATOMIC_SEQ_CST);
  while (__atomic_load_n(word, __ATOMIC_SEQ_CST) == old)
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, old, nullptr, nullptr, 0);
  __atomic_fetch_sub(sleepers, 1, __ATOMIC_SEQ_CST);
}

// Changes *word and wakes who sleeps on it. Sequentially consistent with the sleeper's count and check, so that
// either this sees the sleeper or the sleeper sees the change.
void change(uint32_t* word, uint32_t value, uint32_t* sleepers) {
  __atomic_store_n(word, value, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(sleepers, __ATOMIC_SEQ_CST) != 0)
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
}

// The beginning of a small file; false when it can't be read.
bool read_text(const char* path, char* out, size_t capacity) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t n = read(fd, out, capacity - 1);
  close(fd);
  if (n < 0) return false;
  out[n] = 0;
  return true;
}

// CPUs' worth of time in the cpu.max of a cgroup directory, 0 when it sets no limit.
uint32_t quota_of(const char* directory) {
  char path[512], text[64];
  if (strlen(directory) + 9 >= sizeof path) return 0;
  strcpy(path, directory);
  strcat(path, "/cpu.max");
  if (!read_text(path, text, sizeof text) || strncmp(text, "max", 3) == 0) return 0;
  char* end = nullptr;
  const long long quota = strtoll(text, &end, 10), period = strtoll(end, nullptr, 10);
  if (quota <= 0 || period <= 0) return 0;
  return static_cast<uint32_t>((quota + period - 1) / period);
}

// The tightest quota from this process's cgroup up to the root (version 2).
uint32_t cgroup_cpus() {
  char text[512], directory[512] = "/sys/fs/cgroup";
  uint32_t best = quota_of(directory);
  if (!read_text("/proc/self/cgroup", text, sizeof text)) return best;
  char* at = strstr(text, "0::/");
  if (at == nullptr) return best;
  at += 3;
  at[strcspn(at, "\n")] = 0;
  if (strlen(directory) + strlen(at) + 1 > sizeof directory) return best;
  const size_t root = strlen(directory);
  strcat(directory, at);
  while (strlen(directory) > root) {
    const uint32_t quota = quota_of(directory);
    if (quota != 0 && (best == 0 || quota < best)) best = quota;
    char* slash = strrchr(directory + root, '/');
    if (slash == nullptr) break;
    *slash = 0;
  }
  return best;
}

}  // namespace

uint32_t usable_cpus() {
  cpu_set_t set;
  uint32_t n = 1;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    n = static_cast<uint32_t>(CPU_COUNT(&set));
  } else if (const long all = sysconf(_SC_NPROCESSORS_ONLN); all > 0) {
    n = static_cast<uint32_t>(all);  // more CPUs than the set can name
  }
  const uint32_t quota = cgroup_cpus();
  if (quota != 0 && quota < n) n = quota;
  return n == 0 ? 1 : n;
}

void Barrier::wait() {
  if (workers_ <= 1) return;
  const uint32_t epoch = __atomic_load_n(&epoch_, __ATOMIC_ACQUIRE);
  if (__atomic_add_fetch(&arrived_, 1, __ATOMIC_ACQ_REL) == workers_) {
    __atomic_store_n(&arrived_, 0, __ATOMIC_RELAXED);
    change(&epoch_, epoch + 1, &sleepers_);
  } else {
    wait_change(&epoch_, epoch, &sleepers_);
  }
}

Status WorkerPool::start(uint32_t workers, Allocator allocator) {
  stop();
  stop_ = false;
  process_ = getpid();
  first_epoch_ = epoch_;
  workers_ = workers == 0 ? 1 : workers;
  barrier_.init(workers_);
  done_.init(workers_);
  threads_ = Vec<Thread>(allocator);
  if (!threads_.reserve(workers_ - 1)) {
    workers_ = 0;
    return kErrMemory;
  }
  for (uint32_t i = 1; i < workers_; ++i) {
    if (!threads_.push(Thread{this, i, {}})) return kErrMemory;  // reserved above
    if (pthread_create(&threads_.back().id, nullptr, main, &threads_.back()) == 0) continue;
    threads_.pop();
    stop();
    return kErrSystem;
  }
  return kOk;
}

void WorkerPool::use(uint32_t workers, Threads threads) {
  stop();
  workers_ = workers == 0 ? 1 : workers;
  barrier_.init(workers_);
  others_ = threads;
}

// In a forked child: they are the parent's, and whoever slept or was awaited in the copied words is not here.
void WorkerPool::forget_threads() {
  threads_.reset();
  barrier_ = Barrier();
  done_ = Barrier();
  sleepers_ = 0;
}

void WorkerPool::stop() {
  others_ = Threads();
  if (!threads_.empty() && process_ != getpid()) forget_threads();
  stop_ = true;
  change(&epoch_, epoch_ + 1, &sleepers_);
  for (Thread& t : threads_) pthread_join(t.id, nullptr);
  threads_.reset();
  workers_ = 0;
}

void* WorkerPool::main(void* thread) {
  const Thread* t = static_cast<const Thread*>(thread);
  t->pool->serve(t->worker);
  return nullptr;
}

void WorkerPool::serve(uint32_t worker) {
  for (uint32_t seen = first_epoch_;;) {
    wait_change(&epoch_, seen, &sleepers_);
    ++seen;
    if (stop_) return;
    job_(context_, worker);
    done_.wait();
  }
}

Status WorkerPool::run(Job job, void* context) {
  if (others_.run != nullptr) {
    others_.run(others_.user, workers_, job, context);
    return kOk;
  }
  if (workers_ > 1 && process_ != getpid()) {
    const uint32_t workers = workers_;
    if (start(workers, threads_.allocator()) != kOk) {
      workers_ = workers;  // the next job tries again
      process_ = 0;
      return kErrSystem;
    }
  }
  job_ = job;
  context_ = context;
  if (workers_ > 1) change(&epoch_, epoch_ + 1, &sleepers_);
  job(context, 0);
  done_.wait();
  return kOk;
}

}  // namespace gcrt
