#pragma once
// A growable array over gcrt::Allocator. What can run out of memory returns false and leaves the array as it
// was. Elements are relocated with memcpy when it grows: true of everything the runtime keeps (plain structs,
// Vec).
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "runtime/base/allocator.h"
#include "runtime/base/checked.h"
#include "runtime/base/span.h"

namespace gcrt {

template <class T>
class Vec {
 public:
  Vec() : allocator_(libc_allocator()) {}
  explicit Vec(Allocator a) : allocator_(a) {}
  Vec(const Vec&) = delete;  // copy(), which can fail, is explicit
  Vec& operator=(const Vec&) = delete;
  Vec(Vec&& o) : allocator_(o.allocator_), data_(o.data_), size_(o.size_), capacity_(o.capacity_) {
    o.forget();
  }
  Vec& operator=(Vec&& o) {
    if (this == &o) return *this;
    reset();
    allocator_ = o.allocator_;
    data_ = o.data_, size_ = o.size_, capacity_ = o.capacity_;
    o.forget();
    return *this;
  }
  ~Vec() { reset(); }

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }
  bool empty() const { return size_ == 0; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T& operator[](size_t i) {
    GCRT_ASSERT(i < size_);
    return data_[i];
  }
  const T& operator[](size_t i) const {
    GCRT_ASSERT(i < size_);
    return data_[i];
  }
  T& back() { return (*this)[size_ - 1]; }
  const T& back() const { return (*this)[size_ - 1]; }
  Span<T> span() { return {data_, size_}; }
  Span<const T> span() const { return {data_, size_}; }
  operator Span<const T>() const { return span(); }
  const Allocator& allocator() const { return allocator_; }

  [[nodiscard]] bool reserve(size_t n) {
    if (n <= capacity_) return true;
    size_t bytes = 0;
    if (!checked_mul(n, sizeof(T), &bytes)) return false;
    void* fresh = allocator_.get(bytes, alignof(T));
    if (!fresh) return false;
    if (size_) memcpy(fresh, static_cast<const void*>(data_), size_ * sizeof(T));
    if (data_) allocator_.put(data_, capacity_ * sizeof(T), alignof(T));
    data_ = static_cast<T*>(fresh);
    capacity_ = n;
    return true;
  }
  // By value: the argument may be an element of this array, which growing would move.
  [[nodiscard]] bool push(T v) {
    if (size_ == capacity_ && !grow(1)) return false;
    ::new (gcrt_placement{}, static_cast<void*>(data_ + size_)) T(static_cast<T&&>(v));
    ++size_;
    return true;
  }
  // Appends copies; `s` must not lie in this array.
  [[nodiscard]] bool append(Span<const T> s) {
    if (s.size() > capacity_ - size_ && !grow(s.size())) return false;
    for (const T& v : s) ::new (gcrt_placement{}, static_cast<void*>(data_ + size_++)) T(v);
    return true;
  }
  // New elements are value-initialised.
  [[nodiscard]] bool resize(size_t n) {
    if (n > capacity_ && !reserve(n)) return false;
    while (size_ < n) ::new (gcrt_placement{}, static_cast<void*>(data_ + size_++)) T();
    truncate(n);
    return true;
  }
  void pop() { truncate(size_ - 1); }
  void truncate(size_t n) {
    while (size_ > n) data_[--size_].~T();
  }
  void clear() { truncate(0); }
  [[nodiscard]] bool copy(Span<const T> s) {
    clear();
    return append(s);
  }
  // Frees the memory too.
  void reset() {
    clear();
    if (data_) allocator_.put(data_, capacity_ * sizeof(T), alignof(T));
    forget();
  }

 private:
  bool grow(size_t more) {
    size_t need = 0;
    if (!checked_add(size_, more, &need)) return false;
    size_t twice = capacity_ + capacity_ / 2 + 8;
    return reserve(need > twice ? need : twice);
  }
  void forget() { data_ = nullptr, size_ = 0, capacity_ = 0; }

  Allocator allocator_;
  T* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

// Bytes of text that grow.
inline bool append(Vec<char>& v, Str s) { return v.append(Span<const char>(s.ptr, s.len)); }
inline Str str(const Vec<char>& v) { return {v.data(), v.size()}; }

}  // namespace gcrt
