#pragma once
// A map from integers to a small value: open addressing, linear probing, load below 2/3. Erasing shifts the
// run back, so there are no tombstones and a map that lives as long as a session does not decay.
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/vec.h"

namespace gcrt {

template <class V>
class IntMap {
 public:
  IntMap() = default;
  explicit IntMap(Allocator a) : slots_(a) {}

  size_t size() const { return size_; }
  V* find(int64_t key) {
    if (slots_.empty()) return nullptr;
    size_t i = probe(key);
    return slots_[i].used ? &slots_[i].value : nullptr;
  }
  const V* find(int64_t key) const { return const_cast<IntMap*>(this)->find(key); }
  // The value of `key`, value-initialised when it is new; null when memory is out.
  V* get(int64_t key) {
    if (!reserve(size_ + 1)) return nullptr;
    size_t i = probe(key);
    if (!slots_[i].used) {
      slots_[i] = Slot{key, V(), true};
      ++size_;
    }
    return &slots_[i].value;
  }
  bool erase(int64_t key) {
    if (slots_.empty()) return false;
    size_t hole = probe(key), mask = slots_.size() - 1;
    if (!slots_[hole].used) return false;
    for (size_t i = (hole + 1) & mask; slots_[i].used; i = (i + 1) & mask) {
      // An entry may fill the hole when its home is not in (hole, i].
      size_t home = hash(slots_[i].key) & mask;
      if (((i - home) & mask) < ((i - hole) & mask)) continue;
      slots_[hole] = slots_[i];
      hole = i;
    }
    slots_[hole].used = false;
    --size_;
    return true;
  }
  void clear() {
    for (Slot& s : slots_) s.used = false;
    size_ = 0;
  }
  // Room for n keys without another allocation.
  [[nodiscard]] bool reserve(size_t n) {
    size_t want = 16;
    while (want < n + n / 2 + 1) want *= 2;
    if (want <= slots_.size()) return true;
    IntMap bigger(slots_.allocator());
    if (!bigger.slots_.resize(want)) return false;
    for (const Slot& s : slots_)
      if (s.used) *bigger.get(s.key) = s.value;
    *this = static_cast<IntMap&&>(bigger);
    return true;
  }
  // f(key, value) in no useful order.
  template <class F>
  void each(F f) const {
    for (const Slot& s : slots_)
      if (s.used) f(s.key, s.value);
  }

 private:
  struct Slot {
    int64_t key = 0;
    V value{};
    bool used = false;
  };
  static size_t hash(int64_t key) {
    uint64_t x = static_cast<uint64_t>(key) * 0x9E3779B97F4A7C15u;
    return static_cast<size_t>(x ^ (x >> 32));
  }
  // The slot of `key`, or the free slot where it would go. There always is a free one.
  size_t probe(int64_t key) const {
    size_t mask = slots_.size() - 1, i = hash(key) & mask;
    while (slots_[i].used && slots_[i].key != key) i = (i + 1) & mask;
    return i;
  }

  Vec<Slot> slots_;
  size_t size_ = 0;
};

}  // namespace gcrt
