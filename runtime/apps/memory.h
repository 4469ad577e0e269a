#pragma once
// The programs' allocator: large blocks straight from the kernel, small ones from malloc.
//
// Caches and arenas are reserved for the whole context when a session is made, and most of their pages are never
// touched. mmap with MAP_NORESERVE promises addresses, not memory, so a context of 131,072 starts as fast as one of
// 512, and a host that counts promised memory lets it pass. Blocks are zero pages at first and go back when released.
#include <stdint.h>

#include "runtime/base/allocator.h"

namespace gcrt {

// Bytes that were asked for when memory ran out; 0 if it never did.
struct MemoryFailure {
  uint64_t bytes = 0;
};

// `failure` outlives the allocator; several threads may allocate.
Allocator app_allocator(MemoryFailure* failure);

}  // namespace gcrt
