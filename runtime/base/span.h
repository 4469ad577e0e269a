#pragma once
// Views that own nothing: Span<T> over elements, Str over bytes that are meant as text (not necessarily
// UTF-8, not zero-terminated). Indexing is checked in debug builds only; data from outside is checked where
// it enters.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef NDEBUG
#define GCRT_ASSERT(cond) ((void)0)
#else
#define GCRT_ASSERT(cond) ((cond) ? (void)0 : __builtin_trap())
#endif

namespace gcrt {

template <class T>
struct Span {
  T* ptr = nullptr;
  size_t len = 0;

  constexpr Span() = default;
  constexpr Span(T* p, size_t n) : ptr(p), len(n) {}
  template <size_t N>
  constexpr Span(T (&a)[N]) : ptr(a), len(N) {}
  // Span<T> to Span<const T>.
  constexpr operator Span<const T>() const { return {ptr, len}; }

  constexpr T* data() const { return ptr; }
  constexpr size_t size() const { return len; }
  constexpr bool empty() const { return len == 0; }
  constexpr T* begin() const { return ptr; }
  constexpr T* end() const { return ptr + len; }
  constexpr T& operator[](size_t i) const {
    GCRT_ASSERT(i < len);
    return ptr[i];
  }
  // Both clamp to the end.
  constexpr Span sub(size_t from, size_t n = SIZE_MAX) const {
    if (from > len) from = len;
    size_t left = len - from;
    return {ptr + from, n < left ? n : left};
  }
};

struct Str {
  const char* ptr = nullptr;
  size_t len = 0;

  constexpr Str() = default;
  constexpr Str(const char* p, size_t n) : ptr(p), len(n) {}
  // From a zero-terminated string.
  constexpr Str(const char* z) : ptr(z), len(z ? __builtin_strlen(z) : 0) {}

  constexpr const char* data() const { return ptr; }
  constexpr size_t size() const { return len; }
  constexpr bool empty() const { return len == 0; }
  constexpr const char* begin() const { return ptr; }
  constexpr const char* end() const { return ptr + len; }
  constexpr char operator[](size_t i) const {
    GCRT_ASSERT(i < len);
    return ptr[i];
  }
  constexpr Str sub(size_t from, size_t n = SIZE_MAX) const {
    if (from > len) from = len;
    size_t left = len - from;
    return {ptr + from, n < left ? n : left};
  }
  bool starts_with(Str s) const { return s.len <= len && (s.len == 0 || memcmp(ptr, s.ptr, s.len) == 0); }
  bool ends_with(Str s) const {
    return s.len <= len && (s.len == 0 || memcmp(ptr + len - s.len, s.ptr, s.len) == 0);
  }
};

inline bool operator==(Str a, Str b) {
  return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}
inline bool operator!=(Str a, Str b) { return !(a == b); }
// Byte order, a prefix first.
inline int compare(Str a, Str b) {
  size_t n = a.len < b.len ? a.len : b.len;
  int c = n ? memcmp(a.ptr, b.ptr, n) : 0;
  if (c != 0) return c;
  return a.len < b.len ? -1 : a.len > b.len;
}

template <class T>
constexpr T min_of(T a, T b) {
  return b < a ? b : a;
}
template <class T>
constexpr T max_of(T a, T b) {
  return a < b ? b : a;
}
template <class T>
constexpr void swap_values(T& a, T& b) {
  T t = static_cast<T&&>(a);
  a = static_cast<T&&>(b);
  b = static_cast<T&&>(t);
}

}  // namespace gcrt
