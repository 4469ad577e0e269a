#pragma once
// SentencePiece's greedy merging: of all neighbouring symbols whose joined bytes are a piece, the pair with the
// highest score (leftmost on ties) is joined, until none is left. Symbols that are no piece in the end become byte
// tokens.
//
// Text that is not UTF-8 is tokenized too: a byte that belongs to no character is a symbol by itself, goes out as a
// byte token, and decoding gives the same bytes back. (llama.cpp trusts the lead byte and swallows what follows, a
// space that is being escaped included, so there such text does not survive.)
//
// A heap over a whole text costs log(text) cache-missing steps a merge. Here the text is first cut where its two
// neighbouring characters never meet inside a piece (frozen.h, PAIR), since no merge can cross such a place: heaps
// of a word or so, 1 MB of English in 0.1 s with Gemma 3's vocabulary on one core of a Xeon (2026). A text
// of one endless word ("aaaa...") still is n log n: 0.3 to 0.6 s a megabyte.
#include <stdint.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/base/vec.h"
#include "runtime/text/frozen.h"

namespace gcrt {

class SpmMerger {
 public:
  SpmMerger(const frozen::View& vocab, Allocator a) : vocab_(vocab), text_(a), symbols_(a), heap_(a) {}

  // Appends the ids of `raw`, in which spaces are still spaces; `space_prefix` puts one in front.
  Status encode(Str raw, bool space_prefix, Vec<int32_t>& out);

 private:
  static constexpr uint32_t kEnd = UINT32_MAX;  // no neighbour
  struct Symbol {
    uint32_t begin;
    uint32_t bytes;  // 0: joined into its left neighbour
    uint32_t prev, next;
    int32_t id;  // of the piece, kNotLooked before the first look-up
  };
  static constexpr int32_t kNotLooked = -2;
  // A symbol and its right neighbour. They still are what they were when the pair was found exactly if their bytes
  // still add up: a symbol only ever grows, and only by swallowing its right neighbour.
  struct Pair {
    uint64_t order;  // score, then leftmost (~left): the greatest goes first
    uint32_t bytes;  // of both
    int32_t id;      // of the piece they make
  };
  static bool after(const Pair& a, const Pair& b) { return a.order < b.order; }

  Status escape(Str raw, bool space_prefix);
  Status merge(Vec<int32_t>& out);
  bool find_pair(uint32_t left, uint32_t right, Pair* pair) const;
  bool offer(uint32_t left, uint32_t right);
  bool put(const Symbol& s, Vec<int32_t>& out);

  const frozen::View& vocab_;
  Vec<char> text_;       // escaped
  Vec<Symbol> symbols_;  // of one stretch
  Vec<Pair> heap_;
};

}  // namespace gcrt
