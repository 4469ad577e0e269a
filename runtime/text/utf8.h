#pragma once
// Text that arrives in pieces, given on in whole characters. A token may end in the middle of a character; what has
// arrived of it is kept back (at most three bytes) until the rest is there.
#include <stdint.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/base/vec.h"

namespace gcrt {

// Bytes of the well-formed UTF-8 character at s[0] (no overlong forms, no surrogates, up to U+10FFFF).
//   > 0  its length
//   0    the end of s cuts a character that so far is well-formed
//   < 0  not a character; its first -n bytes are what one U+FFFD stands for (the maximal part, as in the Web's rules)
int utf8_next(Str s);
// The code point of a character of `bytes` bytes (what utf8_next() said) at p.
uint32_t utf8_decode(const char* p, int bytes);
// Appends a character.
[[nodiscard]] bool utf8_append(uint32_t code_point, Vec<char>& out);

class Utf8Stream {
 public:
  enum class Invalid : uint8_t {
    kKeep,     // bytes that are no UTF-8 pass through: a terminal, a file
    kReplace,  // they become U+FFFD: JSON
  };
  explicit Utf8Stream(Invalid invalid = Invalid::kKeep) : invalid_(invalid) {}

  // Appends to `out` all of what is held and `bytes` that ends with a whole character.
  Status push(Str bytes, Vec<char>& out);
  // The end of the text: a cut character comes out as it is (kKeep) or as one U+FFFD (kReplace).
  Status finish(Vec<char>& out);
  size_t held() const { return held_; }

 private:
  Status put_invalid(Str bytes, Vec<char>& out);

  Invalid invalid_;
  char hold_[4] = {};
  size_t held_ = 0;
};

}  // namespace gcrt
