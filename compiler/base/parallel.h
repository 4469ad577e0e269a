// One piece of work on several threads.
#pragma once

#include <functional>

namespace gc {

// Of this machine, at least 1.
int processors();

// Runs `work` on the caller's thread and on up to `threads` - 1 more, and returns when all of them are done. `work`
// takes its next item from a counter that all share, so whatever number runs does everything: where the system has
// no more threads or address space, fewer run. `work` must not throw.
void run_on_threads(int threads, const std::function<void()>& work);

}  // namespace gc
