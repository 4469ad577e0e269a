#include "runtime/apps/cli/chat/char_width.h"

#include "runtime/text/utf8.h"

namespace gcrt {
namespace {

struct CharRange {
  uint32_t first, last;
};
#include "runtime/apps/cli/chat/char_width.inc"

bool in(Span<const CharRange> ranges, uint32_t code) {
  size_t low = 0, high = ranges.size();
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (code < ranges[middle].first)
      high = middle;
    else if (code > ranges[middle].last)
      low = middle + 1;
    else
      return true;
  }
  return false;
}

}  // namespace

int char_width(uint32_t code) {
  if (code < 0x300) return 1;
  return in(kZeroWide, code) ? 0 : in(kTwoWide, code) ? 2 : 1;
}

size_t char_bytes(Str text, size_t at, uint32_t* code) {
  const int n = utf8_next(text.sub(at));
  if (code != nullptr) *code = n > 0 ? utf8_decode(text.data() + at, n) : 0xFFFD;
  return n > 0 ? static_cast<size_t>(n) : 1;
}

int text_width(Str text) {
  int width = 0;
  uint32_t code = 0;
  for (size_t at = 0; at < text.size();) {
    at += char_bytes(text, at, &code);
    width += char_width(code);
  }
  return width;
}

size_t next_char(Str text, size_t at) {
  uint32_t code = 0;
  if (at < text.size()) at += char_bytes(text, at);
  while (at < text.size()) {
    const size_t n = char_bytes(text, at, &code);
    if (char_width(code) != 0) break;
    at += n;
  }
  return at;
}

size_t previous_char(Str text, size_t at) {
  uint32_t code = 0;
  while (at > 0) {
    --at;
    while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
    char_bytes(text, at, &code);
    if (char_width(code) != 0) break;
  }
  return at;
}

}  // namespace gcrt
