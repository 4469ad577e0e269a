#include "runtime/base/allocator.h"

#include <stdlib.h>

namespace gcrt {
namespace {

void* libc_allocate(void*, size_t bytes, size_t align) {
  if (align <= alignof(max_align_t)) return malloc(bytes);
  // aligned_alloc wants a multiple of the alignment.
  size_t rounded = (bytes + align - 1) & ~(align - 1);
  return rounded < bytes ? nullptr : aligned_alloc(align, rounded);
}

void libc_release(void*, void* p, size_t, size_t) { free(p); }

}  // namespace

Allocator libc_allocator() { return Allocator{libc_allocate, libc_release, nullptr}; }

}  // namespace gcrt
