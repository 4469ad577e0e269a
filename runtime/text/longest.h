#pragma once
// Vocabularies that are matched from the left, always with the longest piece that fits.
//
// WordPiece (BERT): the text is normalised character by character (charmap.h) and cut into words at white space and
// around punctuation and ideographs; each word, a U+2581 in front, is covered by longest pieces, and is one unknown
// piece when that fails anywhere.
// RWKV: over the bytes of the whole text; a byte that begins no piece is unknown.
#include <stdint.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/base/vec.h"
#include "runtime/text/frozen.h"

namespace gcrt {

class WordPieceCutter {
 public:
  WordPieceCutter(const frozen::View& vocab, Allocator a) : vocab_(vocab), word_(a) {}
  Status encode(Str text, Vec<int32_t>& out);

 private:
  Status finish(Vec<int32_t>& out);
  bool add(uint32_t code_point);

  const frozen::View& vocab_;
  Vec<char> word_;  // empty, or U+2581 and more
};

Status encode_longest(const frozen::View& vocab, Str text, Vec<int32_t>& out);

}  // namespace gcrt
