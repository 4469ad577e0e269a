// A fixed set of workers that execute one job together and meet at barriers.
//
// Waiting, at a barrier or for the next job, spins for a few tens of microseconds and then sleeps on a futex. Pure
// spinning collapses on a busy machine (a peer fell from 20 to 0.45 tokens/s when other programs used the cores);
// sleeping at once costs a wake-up, 5 to 50 us, at each of the hundred barriers of a token. The caller is worker 0,
// so a pool of one has no thread and no cost. Threads are not pinned: the scheduler may move them off a busy core.
//
// A forked child has the pool's memory but not its threads: the first job there starts new ones. The process id tells
// (a system call a job, 0.1 us); handlers of pthread_atfork could not be taken back when a library is unloaded.
#pragma once

#include <pthread.h>
#include <stdint.h>
#include <sys/types.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/base/vec.h"

namespace gcrt {

// CPUs that this process may use at once: its affinity, cut to the cgroup's quota (rounded up). At least 1.
uint32_t usable_cpus();

class Barrier {
 public:
  void init(uint32_t workers) { workers_ = workers; }
  void wait();

 private:
  uint32_t workers_ = 1;
  alignas(64) uint32_t arrived_ = 0;
  alignas(64) uint32_t epoch_ = 0;
  alignas(64) uint32_t sleepers_ = 0;
};

class WorkerPool {
 public:
  using Job = void (*)(void* context, uint32_t worker);
  // Somebody else's threads: run() calls job(context, worker) for all workers at the same time and returns when all
  // have returned.
  struct Threads {
    void (*run)(void* user, uint32_t workers, Job job, void* context) = nullptr;
    void* user = nullptr;
  };

  WorkerPool() = default;
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;
  ~WorkerPool() { stop(); }

  // kErrMemory or GC_ERR_SYSTEM when threads can't be had; the pool is then empty.
  Status start(uint32_t workers, Allocator allocator);
  void use(uint32_t workers, Threads threads);
  void stop();
  uint32_t workers() const { return workers_; }

  // Every worker runs job(context, worker); returns when all are done. One caller at a time. GC_ERR_SYSTEM: this is a
  // forked child, and no threads can be had; no worker has run.
  Status run(Job job, void* context);
  Barrier& barrier() { return barrier_; }

 private:
  struct Thread {
    WorkerPool* pool = nullptr;
    uint32_t worker = 0;
    pthread_t id = {};
  };
  static void* main(void* thread);
  void serve(uint32_t worker);
  void forget_threads();

  Vec<Thread> threads_;
  Threads others_;
  pid_t process_ = 0;  // that threads_ are in
  uint32_t workers_ = 0;
  Barrier barrier_;  // of the job
  Barrier done_;
  Job job_ = nullptr;
  void* context_ = nullptr;
  bool stop_ = false;
  uint32_t first_epoch_ = 0;        // of jobs, when the threads were started
  alignas(64) uint32_t epoch_ = 0;  // of jobs
  alignas(64) uint32_t sleepers_ = 0;
};

}  // namespace gcrt
