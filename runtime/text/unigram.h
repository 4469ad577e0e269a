#pragma once
// Unigram vocabularies: of all ways to cut a text into pieces, the one whose scores add up best, found position by
// position (Viterbi) with all pieces that start at a place walked in one trie. Linear in the text times the longest
// match; a position takes 16 bytes while a text is at work.
//
// Ugm (T5, XLM-R): the text is normalised first (charmap.h), spaces become U+2581; a character that is no piece is
// unknown, at 10 below the lowest score, and neighbouring unknowns are one. Sums run from the left in double, first
// come stays on ties, as SentencePiece does it.
// Plamo2: no normalisation, sums run from the right over whole numbers (score x 10^4), the longest piece on ties; a
// character that is no piece goes out as its bytes.
#include <stdint.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/base/vec.h"
#include "runtime/text/frozen.h"

namespace gcrt {

class UgmCutter {
 public:
  UgmCutter(const frozen::View& vocab, Allocator a) : vocab_(vocab), text_(a), best_(a) {}
  // Appends the ids of `raw`.
  Status encode(Str raw, Vec<int32_t>& out);

 private:
  struct Best {
    double score;  // of the text up to here
    int32_t id;    // of the piece that ends here
    uint32_t begin;
  };
  Status normalize(Str raw);
  void offer(size_t end, double score, int32_t id, size_t begin);

  const frozen::View& vocab_;
  Vec<char> text_;
  Vec<Best> best_;  // [bytes + 1]
};

class Plamo2Cutter {
 public:
  Plamo2Cutter(const frozen::View& vocab, Allocator a) : vocab_(vocab), best_(a) {}
  Status encode(Str text, Vec<int32_t>& out);

 private:
  struct Best {
    int64_t cost;  // of the text from here on
    int32_t id;    // of the piece that begins here, -1: bytes
    uint32_t bytes;
  };
  const frozen::View& vocab_;
  Vec<Best> best_;  // [bytes + 1]
};

}  // namespace gcrt
