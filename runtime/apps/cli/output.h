#pragma once
// Text to a file descriptor, through a buffer, without stdio: numbers don't depend on a locale, and a reader that
// went away is a state to ask for, not a signal.
#include <stdint.h>

#include "runtime/base/format.h"
#include "runtime/base/span.h"

namespace gcrt {

// A number with so many decimals.
struct Fixed {
  double value;
  int decimals;
};
// Text that stays on its line and is no command to a terminal: '?' for each control character. Names come from files
// of strangers.
struct Line {
  Str text;
};
// A line's text in a column: spaces on the left for numbers, on the right for words.
struct Left {
  Str text;
  size_t width;
};
struct Right {
  Str text;
  size_t width;
};
// A JSON string, with its quotes. Bytes that are no UTF-8 become U+FFFD.
struct Json {
  Str text;
};

class Output {
 public:
  explicit Output(int fd) : fd_(fd) {}
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output() { flush(); }

  Output& put(Str text);
  Output& put(Fixed number);
  Output& put(Line line);
  Output& put(Left column);
  Output& put(Right column);
  Output& put(Json text);
  Output& put(const char* text) { return put(Str(text)); }
  template <class Part>
  Output& put(const Part& part) {
    char text[64];
    Writer w(text);
    detail::put_part(w, part);
    return put(w.text());
  }
  template <class... Parts>
  void print(const Parts&... parts) {
    (put(parts), ...);
  }

  // False, now or for good: the bytes can't be written. error() is the errno.
  bool flush();
  bool ok() const { return error_ == 0; }
  int error() const { return error_; }

 private:
  int fd_;
  int error_ = 0;
  size_t used_ = 0;
  char buffer_[8192];
};

}  // namespace gcrt
