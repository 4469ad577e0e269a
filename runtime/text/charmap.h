#pragma once
// What becomes of characters before they are looked up in a vocabulary.
//
// CharRule: one character for one, in a two-level table (NORM) made at compile time. An entry is
// distance << 2 | kind, the distance being what is added to the character, modulo 2^30, so that whole blocks of
// characters that stay as they are share one entry's block.
//
// CharMap: SentencePiece's precompiled map from prefixes of the text to replacements. It is a blob of the model
// file: a little-endian u32 with the trie's bytes, the trie, and zero-terminated replacements. The trie is a double
// array of u32 units: bits 0-7 the label, bit 8 "a value hangs here", bit 9 widens the base by 8 bits, bits 10-30 the
// base; a unit with bit 31 holds a value, an offset into the replacements. The child of node n along byte c is
// n ^ base(n) ^ c when its label is c. Every step is checked against the blob's end.
#include <stdint.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/base/vec.h"
#include "runtime/text/frozen.h"

namespace gcrt {

enum class CharRuleKind : uint32_t {
  kPart = 0,    // of a word
  kSpace = 1,   // between words
  kDrop = 2,    // as if it were not there
  kSingle = 3,  // a word by itself
};
struct CharRule {
  CharRuleKind kind;
  uint32_t code_point;
};
inline CharRule char_rule(const frozen::View& vocab, uint32_t code_point) {
  uint32_t entry = vocab.normal(code_point);
  return {static_cast<CharRuleKind>(entry & 3), (code_point + (entry >> 2)) & 0x3FFFFFFF};
}
inline uint32_t char_rule_entry(CharRule rule, uint32_t from) {
  return ((rule.code_point - from) & 0x3FFFFFFF) << 2 | static_cast<uint32_t>(rule.kind);
}

class CharMap {
 public:
  explicit CharMap(Span<const uint8_t> blob);

  // What the longest mapped prefix of text[at...] becomes, and its length in *bytes; with no such prefix the
  // character there, or U+FFFD for a byte that begins none.
  Str next(Str text, size_t at, size_t* bytes) const;

 private:
  Span<const uint8_t> units_;  // of 4 bytes, unaligned
  Str replacements_;
};

}  // namespace gcrt
