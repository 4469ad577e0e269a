#pragma once
// Byte-pair encoding: within a word, the neighbouring symbols whose merge has the lowest rank are joined (leftmost on
// ties) until no two of them have a merge.
//
// Vocabularies spell bytes as printable characters (a space is U+0120); the compiler undoes that, so symbols here are
// bytes and ids, and a merge is found by its two ids in one probe. Symbols that are no token in the end go out byte by
// byte; a byte that has no token, which some vocabularies lack, is dropped, as llama.cpp does it.
//
// Some vocabularies (kCharSymbols: Gemma 4 and its kin) merge characters of plain text, with U+2581 for spaces, over
// whole lines. A line is cut first where its neighbouring characters never meet inside a piece, as in spm.h.
#include <stdint.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/base/vec.h"
#include "runtime/text/frozen.h"

namespace gcrt {

class BpeMerger {
 public:
  BpeMerger(const frozen::View& vocab, Allocator a) : vocab_(vocab), text_(a), symbols_(a), heap_(a) {}

  // Appends the ids of `text`.
  Status encode(Str text, Vec<int32_t>& out);

 private:
  static constexpr uint32_t kEnd = UINT32_MAX;
  struct Symbol {
    uint32_t begin;
    uint32_t bytes;  // 0: joined into its left neighbour
    uint32_t prev, next;
    int32_t id;  // -1: a byte without a token
  };
  struct Pair {
    uint64_t order;  // rank, then leftmost, both inverted: the greatest goes first
    uint32_t bytes;  // of both; another sum now means that it is stale
    int32_t id;
  };
  static bool after(const Pair& a, const Pair& b) { return a.order < b.order; }

  Status words(Str text, Vec<int32_t>& out);
  Status escaped(Str text, Vec<int32_t>& out);
  Status replaced(Str text, Vec<int32_t>& out);
  Status word(Str word, Vec<int32_t>& out);
  Status chars(Str word, Vec<int32_t>& out);
  Status merge(Str word, Vec<int32_t>& out);
  bool find_pair(uint32_t left, uint32_t right, Pair* pair) const;
  bool offer(uint32_t left, uint32_t right);
  bool put(const Symbol& s, Str word, Vec<int32_t>& out) const;

  const frozen::View& vocab_;
  Vec<char> text_;  // what is tokenized where it is not the text itself
  Vec<Symbol> symbols_;
  Vec<Pair> heap_;
};

}  // namespace gcrt
