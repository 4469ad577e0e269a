#pragma once
// Heaps, sorting and selection on arrays, with `less(a, b)` given by the caller. None is stable: give `less` a last
// word (an index) where that matters. Quicksort falls back to heapsort past a depth of 2 log2 n, so n log n holds
// for any input; insertion sort takes the short ends.
#include <stddef.h>

#include "runtime/base/span.h"

namespace gcrt {

// A heap keeps its greatest element (by `less`) in front. Four children a node: half the levels of a binary heap,
// and the children of 16-byte elements share a cache line.
template <class T, class Less>
void sift_down(T* a, size_t n, size_t i, Less less) {
  T v = a[i];
  for (size_t c = 4 * i + 1; c < n; c = 4 * i + 1) {
    size_t best = c, end = min_of(c + 4, n);
    for (size_t j = c + 1; j < end; ++j)
      if (less(a[best], a[j])) best = j;
    if (!less(v, a[best])) break;
    a[i] = a[best];
    i = best;
  }
  a[i] = v;
}
template <class T, class Less>
void sift_up(T* a, size_t i, Less less) {
  T v = a[i];
  while (i) {
    size_t parent = (i - 1) / 4;
    if (!less(a[parent], v)) break;
    a[i] = a[parent];
    i = parent;
  }
  a[i] = v;
}
template <class T, class Less>
void make_heap(T* a, size_t n, Less less) {
  for (size_t i = (n + 2) / 4; i-- > 0;) sift_down(a, n, i, less);
}
// Moves the greatest to a[n - 1]; [0, n - 1) is a heap then.
template <class T, class Less>
void pop_heap(T* a, size_t n, Less less) {
  swap_values(a[0], a[n - 1]);
  if (n > 2) sift_down(a, n - 1, 0, less);
}

namespace detail {

template <class T, class Less>
void insertion_sort(T* a, size_t n, Less less) {
  for (size_t i = 1; i < n; ++i) {
    T v = a[i];
    size_t j = i;
    for (; j && less(v, a[j - 1]); --j) a[j] = a[j - 1];
    a[j] = v;
  }
}

template <class T, class Less>
void heap_sort(T* a, size_t n, Less less) {
  make_heap(a, n, less);
  for (; n > 1; --n) pop_heap(a, n, less);
}

// Splits around the median of three: returns m with a[0, m) <= a[m, n), 0 < m < n. n >= 3.
template <class T, class Less>
size_t partition(T* a, size_t n, Less less) {
  T x = a[0], y = a[n / 2], z = a[n - 1];
  T pivot = less(x, y) ? (less(y, z) ? y : (less(x, z) ? z : x)) : (less(x, z) ? x : (less(y, z) ? z : y));
  size_t i = 0, j = n - 1;
  for (;;) {
    while (less(a[i], pivot)) ++i;
    while (less(pivot, a[j])) --j;
    if (i >= j) return i ? i : 1;
    swap_values(a[i++], a[j--]);
  }
}

inline int depth_limit(size_t n) {
  int d = 2;
  while (n >>= 1) d += 2;
  return d;
}

template <class T, class Less>
void quick_sort(T* a, size_t n, int depth, Less less) {
  while (n > 24) {
    if (depth-- == 0) return heap_sort(a, n, less);
    size_t m = partition(a, n, less);
    // The shorter part by recursion, so the stack stays at log2 n frames.
    if (m < n - m) {
      quick_sort(a, m, depth, less);
      a += m, n -= m;
    } else {
      quick_sort(a + m, n - m, depth, less);
      n = m;
    }
  }
  insertion_sort(a, n, less);
}

}  // namespace detail

template <class T, class Less>
void sort(T* a, size_t n, Less less) {
  detail::quick_sort(a, n, detail::depth_limit(n), less);
}

// Puts the k first elements (in order `less`) into a[0, k), in no order. Linear time but for hostile inputs, where
// it is n log n.
template <class T, class Less>
void select(T* a, size_t n, size_t k, Less less) {
  int depth = detail::depth_limit(n);
  while (k && k < n) {
    if (n <= 24) return detail::insertion_sort(a, n, less);
    if (depth-- == 0) return detail::heap_sort(a, n, less);
    size_t m = detail::partition(a, n, less);
    if (k <= m) {
      n = m;
    } else {
      a += m, n -= m, k -= m;
    }
  }
}

}  // namespace gcrt
