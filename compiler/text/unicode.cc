#include "compiler/text/unicode.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace gc::text {
namespace {

#include "compiler/text/unicode.inc"

// Rows of three: first, last, value. The row that holds c, or null.
template <std::size_t N>
const std::uint32_t* find_row(const std::uint32_t (&rows)[N], std::uint32_t c) {
  std::size_t lo = 0, hi = N / 3;
  while (lo < hi) {
    std::size_t mid = (lo + hi) / 2;
    if (rows[3 * mid + 1] < c)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo < N / 3 && rows[3 * lo] <= c ? &rows[3 * lo] : nullptr;
}

}  // namespace

CharClass char_class(std::uint32_t code_point) {
  // The last change at or before it.
  const std::uint32_t* after =
      std::upper_bound(std::begin(kClassChanges), std::end(kClassChanges), code_point << 3 | 7);
  return static_cast<CharClass>(after[-1] & 7);
}

std::vector<std::pair<std::uint32_t, std::uint32_t>> ranges_of(CharClass c) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> out;
  constexpr std::size_t n = std::size(kClassChanges);
  for (std::size_t i = 0; i < n; ++i) {
    if (static_cast<CharClass>(kClassChanges[i] & 7) != c) continue;
    std::uint32_t end = i + 1 < n ? kClassChanges[i + 1] >> 3 : kCodePoints;
    out.emplace_back(kClassChanges[i] >> 3, end - 1);
  }
  return out;
}

std::uint32_t base_character(std::uint32_t code_point) {
  const std::uint32_t* row = find_row(kDecompositions, code_point);
  return row ? row[2] : code_point;
}

std::uint32_t lower_case(std::uint32_t code_point) {
  const std::uint32_t* row = find_row(kLowercase, code_point);
  return row ? code_point + row[2] : code_point;
}

}  // namespace gc::text
