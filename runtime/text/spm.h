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
// of a word or so, 1 MB of English in 0.1 s with Gemma 3's vocabulary on one core of a Xeon (2026). Stretches longer than
// that are merged in windows (merger.h).
#include <stdint.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/base/vec.h"
#include "runtime/text/frozen.h"
#include "runtime/text/merger.h"

namespace gcrt {

class SpmMerger {
 public:
  SpmMerger(const frozen::View& vocab, Allocator a, uint32_t window = Merger::kWindow)
      : vocab_(vocab), text_(a), merger_(a, window) {}

  // Appends the ids of `raw`, in which spaces are still spaces; `space_prefix` puts one in front.
  Status encode(Str raw, bool space_prefix, Vec<int32_t>& out);

 private:
  static constexpr int32_t kNotLooked = -2;  // a symbol's id before the first look-up

  Status escape(Str raw, bool space_prefix);
  Status stretch(uint32_t begin, uint32_t* end, Vec<int32_t>& out);
  bool put(const Merger::Symbol& s, Vec<int32_t>& out);

  const frozen::View& vocab_;
  Vec<char> text_;  // escaped
  Merger merger_;   // of one stretch; ids are pieces
};

}  // namespace gcrt
