// What Unicode says about characters, for what is worked out at compile time: the classes that pre-tokenizers'
// expressions name and the normalisation of WordPiece. The tables of version 15.1 are generated (make_unicode.py).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace gc::text {

constexpr std::uint32_t kCodePoints = 0x110000;

// General categories by their first letter; white space is its own class, whatever its category.
enum class CharClass : std::uint8_t {
  kOther = 0,  // unassigned and separators that are no white space
  kLetter = 1,
  kNumber = 2,
  kMark = 3,
  kPunctuation = 4,
  kSymbol = 5,
  kSpace = 6,
  kControl = 7,
};
CharClass char_class(std::uint32_t code_point);
// Ranges of a class, ascending, both ends included.
std::vector<std::pair<std::uint32_t, std::uint32_t>> ranges_of(CharClass c);

// The first character of the canonical decomposition: the letter without its accents.
std::uint32_t base_character(std::uint32_t code_point);
// One character for one: what makes two ("İ") loses the second, as the makers of vocabularies have it.
std::uint32_t lower_case(std::uint32_t code_point);

}  // namespace gc::text
