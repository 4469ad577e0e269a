#pragma once
// Arithmetic that reports overflow, and reads of little-endian numbers at any address.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

namespace gcrt {

// True when the result fits; *out is set either way (wrapped on overflow).
template <class T>
[[nodiscard]] constexpr bool checked_add(T a, T b, T* out) {
  return !__builtin_add_overflow(a, b, out);
}
template <class T>
[[nodiscard]] constexpr bool checked_sub(T a, T b, T* out) {
  return !__builtin_sub_overflow(a, b, out);
}
template <class T>
[[nodiscard]] constexpr bool checked_mul(T a, T b, T* out) {
  return !__builtin_mul_overflow(a, b, out);
}
// Rounds up to a multiple of `align` (a power of two).
[[nodiscard]] constexpr bool checked_align(uint64_t x, uint64_t align, uint64_t* out) {
  if (!checked_add(x, align - 1, out)) return false;
  *out &= ~(align - 1);
  return true;
}
// Is [offset, offset + count * size) inside a buffer of `limit` bytes?
[[nodiscard]] constexpr bool in_bounds(uint64_t offset, uint64_t count, uint64_t size, uint64_t limit) {
  uint64_t bytes = 0;
  return checked_mul(count, size, &bytes) && offset <= limit && bytes <= limit - offset;
}

// Both targets are little-endian; memcpy keeps unaligned addresses legal.
template <class T>
inline T load_le(const void* p) {
  T v;
  memcpy(&v, p, sizeof(T));
  return v;
}
template <class T>
inline void store_le(void* p, T v) {
  memcpy(p, &v, sizeof(T));
}

}  // namespace gcrt
