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
//
// Vocabularies of DNA models (kDna) take what stands between <dna> and </dna> six letters at a time, the last ones filled
// with A; six letters that are no token are <oov>. The tokens of six letters end with U+E000, which decoding takes off,
// since ordinary pieces may be the same letters.
#include <stdint.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/base/vec.h"
#include "runtime/text/frozen.h"
#include "runtime/text/merger.h"

namespace gcrt {

constexpr Str kDnaMark = "\xEE\x80\x80";

class BpeMerger {
 public:
  BpeMerger(const frozen::View& vocab, Allocator a, uint32_t window = Merger::kWindow)
      : vocab_(vocab), text_(a), merger_(a, window) {}

  // Appends the ids of `text`.
  Status encode(Str text, Vec<int32_t>& out);

 private:
  Status ordinary(Str text, Vec<int32_t>& out);
  Status dna(Str text, Vec<int32_t>& out);
  Status letters(Str text, int32_t other, Vec<int32_t>& out);
  Status words(Str text, Vec<int32_t>& out);
  Status escaped(Str text, Vec<int32_t>& out);
  Status replaced(Str text, Vec<int32_t>& out);
  Status word(Str word, Vec<int32_t>& out);
  Status chars(Str word, Vec<int32_t>& out);
  template <class Next>
  Status merge(Str word, uint32_t begin, Vec<int32_t>& out, uint32_t* end, const Next& next);
  bool put(const Merger::Symbol& s, Str word, Vec<int32_t>& out) const;

  const frozen::View& vocab_;
  Vec<char> text_;  // what is tokenized where it is not the text itself
  Merger merger_;   // of one word; ids are tokens, -1: a byte without one
};

}  // namespace gcrt
