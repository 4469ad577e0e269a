#include "runtime/apps/memory.h"

#include <stdlib.h>
#include <sys/mman.h>

namespace gcrt {
namespace {

constexpr size_t kLarge = 128 << 10;  // below, malloc's packing of small blocks is worth more
constexpr size_t kPage = 4096;        // mmap's alignment at least

void* allocate(void* user, size_t bytes, size_t align) {
  void* p = nullptr;
  if (bytes >= kLarge && align <= kPage) {
    p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) p = nullptr;
  } else {
    const Allocator libc = libc_allocator();
    p = libc.allocate(libc.user, bytes, align);
  }
  if (p == nullptr) __atomic_store_n(&static_cast<MemoryFailure*>(user)->bytes, bytes, __ATOMIC_RELAXED);
  return p;
}

void release(void*, void* p, size_t bytes, size_t align) {
  if (bytes >= kLarge && align <= kPage)
    munmap(p, bytes);
  else
    free(p);
}

}  // namespace

Allocator app_allocator(MemoryFailure* failure) { return {allocate, release, failure}; }

}  // namespace gcrt
