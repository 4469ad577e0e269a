#pragma once
// Sequences of numbers, each kept once and known by a small id from then on. States of automata are interned here: two
// states that hold the same are the same id, so caches need no comparison.
#include <stdint.h>

#include "runtime/base/span.h"
#include "runtime/base/vec.h"

namespace gcrt {
namespace grammar {

constexpr uint32_t kNone = 0xFFFFFFFF;

class Interner {
 public:
  explicit Interner(Allocator a) : pool_(a), entries_(a), slots_(a) {}

  // The id of `words`: 0, 1, 2 ... in order of first sight. kNone when memory is out. `words` may not lie in here.
  uint32_t intern(Span<const uint32_t> words) {
    if (entries_.size() + 1 > slots_.size() / 2 && !grow()) return kNone;
    const uint64_t h = hash(words);
    size_t at = h & (slots_.size() - 1);
    for (; slots_[at] != kNone; at = (at + 1) & (slots_.size() - 1)) {
      const Entry& e = entries_[slots_[at]];
      if (e.hash == static_cast<uint32_t>(h >> 32) && e.size == words.size() &&
          (e.size == 0 || memcmp(pool_.data() + e.begin, words.data(), words.size() * 4) == 0))
        return slots_[at];
    }
    const uint32_t id = static_cast<uint32_t>(entries_.size());
    const Entry e = {pool_.size(), static_cast<uint32_t>(words.size()), static_cast<uint32_t>(h >> 32)};
    if (!pool_.append(words) || !entries_.push(e)) return kNone;
    return slots_[at] = id;
  }
  // Valid until the next intern().
  Span<const uint32_t> operator[](uint32_t id) const {
    const Entry& e = entries_[id];
    return {pool_.data() + e.begin, e.size};
  }
  size_t size() const { return entries_.size(); }
  size_t words() const { return pool_.size(); }
  void clear() {
    pool_.clear();
    entries_.clear();
    for (uint32_t& s : slots_) s = kNone;
  }

 private:
  struct Entry {
    uint64_t begin;
    uint32_t size, hash;
  };
  static uint64_t hash(Span<const uint32_t> words) {
    uint64_t h = words.size() * 0x9E3779B97F4A7C15u;
    for (uint32_t w : words) {
      h = (h ^ w) * 0x9FB21C651E98DF25u;
      h ^= h >> 32;
    }
    h *= 0xC2B2AE3D27D4EB4Fu;
    return h ^ h >> 29;
  }
  bool grow() {
    Vec<uint32_t> fresh(slots_.allocator());
    if (!fresh.resize(slots_.empty() ? 64 : slots_.size() * 2)) return false;
    for (uint32_t& s : fresh) s = kNone;
    for (uint32_t id = 0; id < entries_.size(); ++id) {
      size_t at = hash((*this)[id]) & (fresh.size() - 1);
      while (fresh[at] != kNone) at = (at + 1) & (fresh.size() - 1);
      fresh[at] = id;
    }
    slots_ = static_cast<Vec<uint32_t>&&>(fresh);
    return true;
  }

  Vec<uint32_t> pool_;
  Vec<Entry> entries_;
  Vec<uint32_t> slots_;
};

}  // namespace grammar
}  // namespace gcrt
