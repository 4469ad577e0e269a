#pragma once
// Cuts text into the words that BPE merges within, as the pre-tokenizers of the model families do. Their expressions
// are two shapes with small differences, so they are scanners with parameters and no regex engine: one pass, linear,
// no tables but the classes of characters.
//
// kGpt2:   's|'t|'re|'ve|'m|'ll|'d | ?\p{L}+ | ?\p{N}+ | ?[^\s\p{L}\p{N}]+ | \s+(?!\S) | \s+
// kLlama3: the same contractions in any case | [^\r\n\p{L}\p{N}]?\p{L}+ | \p{N}{1,k} | ?[^\s\p{L}\p{N}]+[\r\n]*
//          | \s*[\r\n]+ | \s+(?!\S) | \s+
//
// In kGpt2 with max_digits = 1 the text is cut around every digit first, as if digits ended it. A byte that is not
// UTF-8 counts as a character of no class.
#include <stdint.h>

#include "runtime/base/span.h"

namespace gcrt {

enum class WordShape : uint32_t { kGpt2 = 1, kLlama3 = 2 };

struct WordRule {
  WordShape shape;
  uint32_t max_digits;  // of a word of digits; 0 any number
  uint32_t marks_join;  // 1: \p{M} counts as \p{L} within and at the start of words
};

enum class CharClass : uint8_t {
  kOther = 0,
  kLetter = 1,
  kNumber = 2,
  kMark = 3,
  kPunct = 4,
  kSymbol = 5,
  kSpace = 6
};
CharClass char_class(uint32_t code_point);

class WordSplitter {
 public:
  WordSplitter(WordRule rule, Str text) : rule_(rule), text_(text) {}
  // False at the end. The words, joined, are the text.
  bool next(Str* word);

 private:
  struct Char {
    uint32_t code;  // 0xFFFFFFFF at the end and for a byte that is no UTF-8
    CharClass kind;
    uint32_t bytes;  // 0 at the end
  };
  Char peek(size_t at) const;
  bool letter(const Char& c) const {
    return c.bytes && (c.kind == CharClass::kLetter || (rule_.marks_join && c.kind == CharClass::kMark));
  }
  static bool number(const Char& c) { return c.bytes && c.kind == CharClass::kNumber; }
  static bool space(const Char& c) { return c.bytes && c.kind == CharClass::kSpace; }
  bool other(const Char& c) const { return c.bytes && !space(c) && !number(c) && !letter(c); }

  size_t contraction(size_t at, bool any_case) const;
  size_t gpt2(size_t at) const;
  size_t llama3(size_t at) const;
  size_t spaces(size_t at) const;
  size_t run_of_digits(size_t at) const;
  // Where the text ends for a scan that begins at `at`: kGpt2 with single digits stops before each.
  bool ends_before(const Char& c) const { return isolates_digits() && number(c); }
  bool isolates_digits() const { return rule_.shape == WordShape::kGpt2 && rule_.max_digits == 1; }

  WordRule rule_;
  Str text_;
  size_t at_ = 0;
};

}  // namespace gcrt
