// The fibers of shim.h. A block's threads are 128 stacks and one scheduler, all on one thread of the host: a thread runs
// until it waits at a barrier or a shuffle, then another one that may go on. Which one is drawn from a seed, so a missing
// barrier shows as another result for some seed instead of never. Blocks of a grid run in a drawn order too.
//
// ucontext's swapcontext would do, but asks the kernel for signal masks at every switch: 0.4 us against 5 ns, at a
// million switches a token. Here a switch is the callee-saved registers and the stack pointer; other machines than x86-64
// take ucontext.
#include "codegen_cuda/shim/shim.h"

#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "runtime/abi/cuda_step.h"

extern "C" {
extern char __start_gc_shared[] __attribute__((weak)), __stop_gc_shared[] __attribute__((weak));
}

namespace gc_shim {

thread_local Dim3 thread_index, block_index;

namespace {

constexpr int kThreads = 128, kWarp = 32;
constexpr std::size_t kStack = 256 * 1024;

[[noreturn]] void fault(const char* what) {
  std::fprintf(stderr, "gc_shim: block (%u, %u, %u): %s\n", block_index.x, block_index.y, block_index.z,
               what);
  std::abort();
}

#if defined(__x86_64__)

struct Context {
  void* stack_pointer = nullptr;
};

// Saves what a function must keep, changes stacks, takes up what was saved there.
__attribute__((naked)) void switch_to(Context* /*from*/, const Context* /*to*/) {
  asm("pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
      "movq %rsp, (%rdi)\n movq (%rsi), %rsp\n"
      "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n"
      "ret\n");
}

void prepare(Context& c, char* stack, void (*entry)()) {
  auto** top = reinterpret_cast<void**>(stack + kStack);
  *--top = nullptr;  // where the entry would return to: keeps the stack as the ABI wants it
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; i++) *--top = nullptr;
  c.stack_pointer = top;
}

#else

struct Context {
  ucontext_t c;
};
void switch_to(Context* from, const Context* to) { swapcontext(&from->c, &to->c); }
void prepare(Context& c, char* stack, void (*entry)()) {
  getcontext(&c.c);
  c.c.uc_stack.ss_sp = stack;
  c.c.uc_stack.ss_size = kStack;
  c.c.uc_link = nullptr;
  makecontext(&c.c, entry, 0);
}

#endif

using Kernel = void (*)(gc::device::Step, gc::device::At);

// Those who wait for each other; a round is over when all have come.
struct Meeting {
  int size = 0, here = 0;
  unsigned round = 0;
};

struct Fiber {
  Context context;
  bool done = false;
  const Meeting* at = nullptr;  // waits for its round to end
  unsigned round = 0;
};

class Block {
 public:
  Block() : stacks_(kThreads * kStack) { all_.size = kThreads; }

  void run(Kernel kernel, const gc::device::Step& step, const gc::device::At& at, std::uint64_t& random) {
    kernel_ = kernel, step_ = &step, at_ = &at;
    all_.here = 0;
    for (int w = 0; w < kThreads / kWarp; w++) warps_[w].size = kWarp, warps_[w].here = 0;
    for (int i = 0; i < kThreads; i++) {
      fibers_[i].done = false, fibers_[i].at = nullptr;
      prepare(fibers_[i].context, &stacks_[i * kStack], [] { current->enter(); });
    }
    if (__start_gc_shared)
      std::memset(__start_gc_shared, 0xff, static_cast<std::size_t>(__stop_gc_shared - __start_gc_shared));
    current = this;
    for (int left = kThreads; left > 0;) {
      const int done = turn(random);
      if (done < 0) fault("its threads wait for one that doesn't come");
      left -= done;
    }
  }

  void wait(Meeting& m) {
    Fiber& f = fibers_[running_];
    if (++m.here == m.size) {
      m.here = 0, m.round++;
      return;
    }
    f.at = &m, f.round = m.round;
    yield();
  }
  void sync_all() { wait(all_); }
  void sync_warp() { wait(warps_[running_ / kWarp]); }
  std::uint32_t exchange(std::uint32_t mine, int from) {
    Meeting& m = warps_[running_ / kWarp];
    // The next call's values lie apart: a lane may come to it while others still read these.
    std::uint32_t* slots = values_[m.round & 1][running_ / kWarp];
    slots[running_ % kWarp] = mine;
    wait(m);
    return slots[from];
  }
  const std::uint32_t* share(const std::uint32_t* mine, int n) {
    if (n > kShared) fault("a lane shares too many words");
    Meeting& m = warps_[running_ / kWarp];
    std::uint32_t* slots = words_[m.round & 1][running_ / kWarp];
    std::memcpy(slots + running_ % kWarp * n, mine, static_cast<std::size_t>(n) * sizeof *mine);
    wait(m);
    return slots;
  }
  int lane() const { return running_ % kWarp; }

  static Block* current;

 private:
  void enter() {
    kernel_(*step_, *at_);
    fibers_[running_].done = true;
    yield();
    fault("a thread that has ended runs");
  }
  void yield() { switch_to(&fibers_[running_].context, &scheduler_); }

  // Runs every thread that may run once, beginning anywhere and in either direction. Threads that ended; -1: none could run.
  int turn(std::uint64_t& random) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const int begin = static_cast<int>(random >> 33) % kThreads,
              step = (random >> 62 & 1) != 0 ? 1 : kThreads - 1;
    int done = 0;
    bool ran = false;
    for (int i = 0, at = begin; i < kThreads; i++, at = (at + step) % kThreads) {
      Fiber& f = fibers_[at];
      if (f.done || (f.at && f.at->round == f.round)) continue;
      f.at = nullptr;
      running_ = at;
      thread_index.x = static_cast<unsigned>(at);
      switch_to(&scheduler_, &f.context);
      ran = true;
      done += f.done ? 1 : 0;
    }
    return ran ? done : -1;
  }

  Kernel kernel_ = nullptr;
  const gc::device::Step* step_ = nullptr;
  const gc::device::At* at_ = nullptr;
  std::vector<char> stacks_;
  Fiber fibers_[kThreads];
  Context scheduler_;
  Meeting all_, warps_[kThreads / kWarp];
  std::uint32_t values_[2][kThreads / kWarp][kWarp];
  std::uint32_t words_[2][kThreads / kWarp][kWarp * kShared];
  int running_ = 0;
};

Block* Block::current = nullptr;

}  // namespace

void sync_block() { Block::current->sync_all(); }
void sync_warp() { Block::current->sync_warp(); }
std::uint32_t exchange(std::uint32_t mine, int from) { return Block::current->exchange(mine, from); }
const std::uint32_t* share(const std::uint32_t* mine, int n) { return Block::current->share(mine, n); }
int lane() { return Block::current->lane(); }

float f32_of_f16(std::uint16_t bits) { return static_cast<float>(bit_cast<_Float16>(bits)); }
std::uint16_t f16_of_f32(float x) { return bit_cast<std::uint16_t>(static_cast<_Float16>(x)); }

}  // namespace gc_shim

// Runs one launch: all blocks of the grid, in an order drawn from the seed.
extern "C" __attribute__((visibility("default"))) void gc_shim_launch(void* kernel, const unsigned* grid,
                                                                      const gc::device::Step* step,
                                                                      const gc::device::At* at,
                                                                      std::uint64_t seed) {
  static gc_shim::Block block;
  const std::uint64_t n = std::uint64_t{grid[0]} * grid[1] * grid[2];
  std::uint64_t random = seed * 2 + 1;
  // Blocks in steps of a number that has no factor in common with n, from anywhere on.
  std::uint64_t step_by = random % n | 1;
  const auto gcd = [](std::uint64_t a, std::uint64_t b) {
    while (b != 0) a = std::exchange(b, a % b);
    return a;
  };
  while (n > 1 && gcd(step_by, n) != 1) step_by += 2;
  std::uint64_t i = random % n;
  for (std::uint64_t k = 0; k < n; k++, i = (i + step_by) % n) {
    gc_shim::block_index = {unsigned(i % grid[0]), unsigned(i / grid[0] % grid[1]),
                            unsigned(i / grid[0] / grid[1])};
    block.run(reinterpret_cast<gc_shim::Kernel>(kernel), *step, *at, random);
  }
}
