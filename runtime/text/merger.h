#pragma once
// Greedy merging of neighbouring symbols of a text, best pair first, leftmost on ties: what byte-pair encoding and
// SentencePiece share. They differ in which pairs merge and how good that is, which a caller's `find` says.
//
// Symbols are a linked list in one array, pairs a heap. A pair is never taken out of the heap when one of its symbols
// changes: a symbol only ever grows, and only by swallowing its right neighbour, so a pair still is what it was exactly
// if its bytes still add up.
//
// Of many symbols the first pairs are sorted by their digits instead and gone through in order; the heap has only those
// that come up later.
//
// A long word is merged in windows that stay in cache, which overlap: each begins where a symbol of the one before ended,
// some way before that one's end. The result is that of the whole word exactly if, at each such place, the last symbol
// before and the first one after stay apart when they are merged alone: whether a pair across a place is ever the best
// one depends on the symbols beside it, and until one has been, both sides merge as they would alone, in the same order.
// So where the next window begins with the symbol that was seen there before nothing is to be checked, elsewhere the two
// are merged; if they do join the word is merged again in larger windows. (With vocabularies in use 256 symbols of
// overlap are ample; a vocabulary made for it costs log(word) rounds.) Whole words at once miss the cache at each step
// and touch 80 bytes of memory a letter: a megabyte of random letters took 0.3 to 0.5 s, four of them 5 to 8 times that;
// in windows 0.1 s, and 4 times that.
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

  // Words of more symbols than a window are merged in windows.
  static constexpr uint32_t kWindow = 4096;
  explicit Merger(Allocator a, uint32_t window = kWindow)
      : window_(window), symbols_(a), heap_(a), first_(a), sorted_(a), word_(a), last_(a), held_(a) {}

  // Merges the symbols from `begin` on and puts what they become, in order; *end is where they end.
  //   bool next(uint32_t at, Symbol*): the bytes and id of the symbol at `at`, false: there is none. From `begin` on again
  //     where larger windows are needed.
  //   bool find(const Symbol& left, const Symbol& right, Joined*): do the two merge?
  //   bool put(const Symbol&): appends to `out`. False: out of memory.
  template <class Next, class Find, class Put>
  Status merge(uint32_t begin, const Next& next, const Find& find, const Put& put, Vec<int32_t>& out,
               uint32_t* end) {
    const size_t before = out.size();
    for (uint64_t window = window_;; window *= 4) {
      bool fits = true;
      *end = begin;
      const Status s = merge_windows(next, find, put, window, end, &fits);
      if (s != kOk || fits) return s;
      out.truncate(before);
    }
  }

 private:
  struct Pair {
    uint64_t order;  // goodness, then leftmost (~left)
    uint32_t bytes;  // of both
    int32_t id;
  };
  static bool after(const Pair& a, const Pair& b) { return a.order < b.order; }

  static constexpr size_t kMany = 500;
  static constexpr uint32_t kOverlap = 16;  // of a window, one part in so many

  void link() {
    const uint32_t n = static_cast<uint32_t>(symbols_.size());
    for (uint32_t i = 0; i < n; ++i) symbols_[i].prev = i ? i - 1 : kEnd, symbols_[i].next = i + 1;
    if (n) symbols_.back().next = kEnd;
  }

  template <class Find>
  Status merge_all(const Find& find) {
    link();
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

  // `fits` is false when windows of this size give something else than the whole.
  template <class Next, class Find, class Put>
  Status merge_windows(const Next& next, const Find& find, const Put& put, uint64_t window, uint32_t* at,
                       bool* fits) {
    word_.clear();
    last_.clear();
    Symbol expected = {};  // the first one of this window, as the window before had it
    for (bool more = true; more;) {
      for (Symbol s; word_.size() < window; *at += s.bytes) {
        s.begin = *at;
        more = next(*at, &s);
        if (!more) break;
        if (!word_.push(s)) return kErrMemory;
      }
      const size_t n = word_.size();
      if (!more && last_.empty())
        swap_values(symbols_, word_);  // all of it, to which nothing more happens
      else if (!symbols_.copy(word_.span()))
        return kErrMemory;
      if (const Status s = merge_all(find); s != kOk) return s;
      if (!last_.empty() && (symbols_[0].bytes != expected.bytes || symbols_[0].id != expected.id)) {
        const size_t first = symbols_[0].next == kEnd ? n : symbols_[0].next;
        if (const Status s = stay_apart(find, first, fits); s != kOk || !*fits) return s;
      }
      uint32_t i = 0, before = 0;
      for (const size_t taken = more ? n - n / kOverlap : n; i < taken; i = symbols_[i].next) {
        if (!put(symbols_[i])) return kErrMemory;
        before = i;
      }
      if (!more) break;
      *fits = i != kEnd;
      if (!*fits) return kOk;
      expected = symbols_[i];
      if (!last_.copy(word_.span().sub(before, i - before))) return kErrMemory;
      memmove(word_.data(), word_.data() + i, (n - i) * sizeof(Symbol));
      word_.truncate(n - i);
    }
    return kOk;
  }

  // Do the symbol that was put last and the first one of this window, `n` of the word's, not join?
  template <class Find>
  Status stay_apart(const Find& find, size_t n, bool* apart) {
    swap_values(held_, symbols_);
    const size_t middle = last_.size();
    if (!symbols_.copy(last_.span()) || !symbols_.append(word_.span().sub(0, n))) return kErrMemory;
    const Status s = merge_all(find);
    *apart = s == kOk && symbols_[middle].bytes != 0;
    swap_values(held_, symbols_);
    return s;
  }

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
      if (at[digit(first_[0]) + 1] == first_.size()) continue;  // one digit for all
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

  const uint32_t window_;
  Vec<Symbol> symbols_;
  Vec<Pair> heap_;
  Vec<Pair> first_, sorted_;
  Vec<Symbol> word_;         // of this window, as they were read
  Vec<Symbol> last_, held_;  // of the symbol that was put last; symbols_ while two are checked
};

}  // namespace gcrt
