#pragma once
// What the files of the parser all need of text.
#include <stddef.h>
#include <string.h>

#include "runtime/base/span.h"

namespace gcrt {
namespace output {

constexpr size_t kNowhere = SIZE_MAX;
constexpr size_t kMaxSpace = 1024;  // bytes of white space that a marker waits through

inline bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

// Bytes of white space at the beginning.
inline size_t skip_space(Str s) {
  size_t i = 0;
  while (i < s.size() && is_space(s[i])) ++i;
  return i;
}

// Where `part`, which is not empty, is in `text` from a byte on.
inline size_t find(Str text, Str part, size_t from = 0) {
  if (from >= text.size()) return kNowhere;
  const void* p = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  return p ? static_cast<size_t>(static_cast<const char*>(p) - text.data()) : kNowhere;
}

// The first literal of a pattern (format.h).
inline Str literal_head(const char* pattern) {
  Str s = pattern;
  while (s.starts_with("~")) s = s.sub(1);
  size_t n = 0;
  while (n < s.size() && s[n] != '~' && s[n] != '%') ++n;
  return s.sub(0, n);
}

}  // namespace output
}  // namespace gcrt
