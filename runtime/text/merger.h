#pragma once
// Greedy merging of neighbouring symbols of a text, best pair first, leftmost on ties: what byte-pair encoding and
// SentencePiece share. They differ in which pairs merge and how good that is, which a caller's `find` says.
//
// Symbols are a linked list in one array, pairs a heap. A pair is never taken out of the heap when one of its symbols
// changes: a symbol only ever grows, and only by swallowing its right neighbour, so a pair still is what it was exactly
// if its bytes still add up.
//
// Of a long text the first pairs are sorted by their digits instead and gone through in order; the heap has only those
// that come up later. A word of a megabyte takes 0.3 to 0.5 s so, and 0.9 to 1.5 s by the heap alone, which misses the
// cache at each step.
#include <stdint.h>

#include "runtime/base/sort.h"
#include "runtime/base/status.h"
#include "runtime/base/vec.h"

namespace gcrt {

class Merger {
 public:
  struct Symbol {
    uint32_t begin;
    uint32_t bytes;  // 0: joined into its left neighbour
    uint32_t prev, next;
    int32_t id;  // the caller's
  };
  // What two neighbours become.
  struct Joined {
    uint32_t goodness;  // the greatest goes first
    int32_t id;
  };
  static constexpr uint32_t kEnd = UINT32_MAX;  // no neighbour; texts are shorter

  explicit Merger(Allocator a) : symbols_(a), heap_(a), first_(a), sorted_(a) {}

  bool empty() const { return symbols_.empty(); }
  void clear() { symbols_.clear(); }
  // To the right of all others. False: out of memory.
  bool add(uint32_t begin, uint32_t bytes, int32_t id) {
    const uint32_t i = static_cast<uint32_t>(symbols_.size());
    if (i) symbols_.back().next = i;
    return symbols_.push({begin, bytes, i ? i - 1 : kEnd, kEnd, id});
  }

  // bool find(const Symbol& left, const Symbol& right, Joined*): do the two merge?
  template <class Find>
  Status merge(const Find& find) {
    heap_.clear();
    for (uint32_t i = 1; i < symbols_.size(); ++i)
      if (!offer(find, i - 1, i, false)) return kErrMemory;
    first_.clear();
    if (heap_.size() > kMany) {
      swap_values(first_, heap_);
      if (!sort_first()) return kErrMemory;
    } else {
      make_heap(heap_.data(), heap_.size(), after);
    }
    for (size_t at = 0; at < first_.size() || !heap_.empty();) {
      Pair pair;
      if (at < first_.size() && (heap_.empty() || after(heap_[0], first_[at]))) {
        pair = first_[at++];
        if (at + kAhead < first_.size())
          __builtin_prefetch(&symbols_[~static_cast<uint32_t>(first_[at + kAhead].order)]);
      } else {
        pop_heap(heap_.data(), heap_.size(), after);
        pair = heap_.back();
        heap_.pop();
      }
      const uint32_t l = ~static_cast<uint32_t>(pair.order);
      if (!join(l, pair)) continue;
      const Symbol& left = symbols_[l];
      if (left.prev != kEnd && !offer(find, left.prev, l, true)) return kErrMemory;
      if (left.next != kEnd && !offer(find, l, left.next, true)) return kErrMemory;
    }
    return kOk;
  }

  // bool put(const Symbol&) of those that are left, in order; false as soon as it says so.
  template <class Put>
  bool each(const Put& put) const {
    for (uint32_t i = symbols_.empty() ? kEnd : 0; i != kEnd; i = symbols_[i].next)
      if (!put(symbols_[i])) return false;
    return true;
  }

 private:
  struct Pair {
    uint64_t order;  // goodness, then leftmost (~left)
    uint32_t bytes;  // of both
    int32_t id;
  };
  static bool after(const Pair& a, const Pair& b) { return a.order < b.order; }

  static constexpr size_t kMany = 500, kAhead = 8;

  // Best first. They stand from left to right, so that a stable sort by goodness is all.
  bool sort_first() {
    if (!sorted_.resize(first_.size())) return false;
    constexpr int kDigits = 11;
    for (int shift = 0; shift < 32; shift += kDigits) {
      uint32_t at[(1 << kDigits) + 1] = {};
      auto digit = [shift](const Pair& p) {
        return ~static_cast<uint32_t>(p.order >> 32) >> shift & ((1u << kDigits) - 1);
      };
      for (const Pair& p : first_) ++at[digit(p) + 1];
      for (int d = 0; d < 1 << kDigits; ++d) at[d + 1] += at[d];
      for (const Pair& p : first_) sorted_[at[digit(p)]++] = p;
      swap_values(first_, sorted_);
    }
    return true;
  }

  template <class Find>
  bool offer(const Find& find, uint32_t left, uint32_t right, bool in_heap) {
    Joined joined;
    if (!find(symbols_[left], symbols_[right], &joined)) return true;
    const Pair pair = {static_cast<uint64_t>(joined.goodness) << 32 | static_cast<uint32_t>(~left),
                       symbols_[left].bytes + symbols_[right].bytes, joined.id};
    if (!heap_.push(pair)) return false;
    if (in_heap) sift_up(heap_.data(), heap_.size() - 1, after);
    return true;
  }

  // False: the pair is no more.
  bool join(uint32_t l, const Pair& pair) {
    Symbol& left = symbols_[l];
    if (!left.bytes || left.next == kEnd) return false;
    Symbol& right = symbols_[left.next];
    if (left.bytes + right.bytes != pair.bytes) return false;
    left.bytes = pair.bytes;
    left.id = pair.id;
    left.next = right.next;
    right.bytes = 0;
    if (left.next != kEnd) symbols_[left.next].prev = l;
    return true;
  }

  Vec<Symbol> symbols_;
  Vec<Pair> heap_;
  Vec<Pair> first_, sorted_;
};

}  // namespace gcrt
