#pragma once
// All memory of the runtime library comes through these hooks, so that a host program can account for it or
// place it. A hook may return null; nothing here aborts, the failure becomes kErrMemory.
#include <stddef.h>
#include <stdint.h>

namespace gcrt {

struct Allocator {
  // Returns `bytes` bytes aligned to `align` (a power of two), or null. `bytes` is never 0.
  void* (*allocate)(void* user, size_t bytes, size_t align) = nullptr;
  // `bytes` and `align` are those of the call that returned `p`; `p` is never null.
  void (*release)(void* user, void* p, size_t bytes, size_t align) = nullptr;
  void* user = nullptr;

  void* get(size_t bytes, size_t align) const { return allocate(user, bytes, align); }
  void put(void* p, size_t bytes, size_t align) const { release(user, p, bytes, align); }
};

// libc's malloc family.
Allocator libc_allocator();

}  // namespace gcrt

// Placement construction without <new>, which belongs to the C++ library.
struct gcrt_placement {};
inline void* operator new(size_t, gcrt_placement, void* p) noexcept { return p; }
inline void operator delete(void*, gcrt_placement, void*) noexcept {}
