#include "runtime/apps/cli/output.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "runtime/text/utf8.h"

namespace gcrt {
namespace {

// Of characters, not bytes: columns of names line up.
size_t width_of(Str text) {
  size_t n = 0;
  for (char c : text) n += (static_cast<uint8_t>(c) & 0xC0) != 0x80;
  return n;
}

}  // namespace

Output& Output::put(Str text) {
  while (!text.empty() && ok()) {
    if (used_ == sizeof buffer_) flush();
    const size_t n = min_of(text.size(), sizeof buffer_ - used_);
    memcpy(buffer_ + used_, text.data(), n);
    used_ += n;
    text = text.sub(n);
  }
  return *this;
}

Output& Output::put(Fixed number) {
  char text[64];
  Writer w(text);
  w.put_fixed(number.value, number.decimals);
  return put(w.text());
}

Output& Output::put(Line line) {
  for (size_t i = 0; i < line.text.size(); ++i) {
    const uint8_t c = static_cast<uint8_t>(line.text[i]);
    const uint8_t next = i + 1 < line.text.size() ? static_cast<uint8_t>(line.text[i + 1]) : 0;
    const bool wide = c == 0xC2 && next >= 0x80 && next < 0xA0;  // U+0080 to U+009F
    i += wide;
    put(wide || c < 0x20 || c == 0x7f ? '?' : line.text[i]);
  }
  return *this;
}

Output& Output::put(Left column) {
  put(Line{column.text});
  for (size_t n = width_of(column.text); n < column.width; ++n) put(' ');
  return *this;
}

Output& Output::put(Right column) {
  for (size_t n = width_of(column.text); n < column.width; ++n) put(' ');
  return put(Line{column.text});
}

Output& Output::put(Json json) {
  put('"');
  for (Str rest = json.text; !rest.empty();) {
    const int n = utf8_next(rest);
    if (n <= 0) {
      put("\\ufffd");
      rest = rest.sub(n == 0 ? rest.size() : static_cast<size_t>(-n));
      continue;
    }
    const char c = rest[0];
    // The last of a character's bytes is its code for those below U+00C0 that are controls: a terminal may obey them.
    const uint8_t code = static_cast<uint8_t>(rest[static_cast<size_t>(n) - 1]);
    if (c == '"' || c == '\\') {
      put('\\').put(c);
    } else if (static_cast<uint8_t>(c) < 0x20 || c == 0x7f || (c == '\xC2' && code < 0xA0)) {
      char text[8];
      Writer w(text);
      w.put("\\u").put_hex(code, 4);
      put(w.text());
    } else {
      put(rest.sub(0, static_cast<size_t>(n)));
    }
    rest = rest.sub(static_cast<size_t>(n));
  }
  return put('"');
}

bool Output::flush() {
  for (size_t at = 0; at < used_ && ok();) {
    const ssize_t n = write(fd_, buffer_ + at, used_ - at);
    if (n > 0) at += static_cast<size_t>(n);
    if (n < 0 && errno != EINTR) error_ = errno;
  }
  used_ = 0;
  return ok();
}

}  // namespace gcrt
