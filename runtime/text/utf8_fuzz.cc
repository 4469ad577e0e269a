// libFuzzer's entry: bytes that arrive in pieces, as the first byte cuts them. Whatever the cuts, what comes out is the
// same; kept, it is the bytes, and replaced, it is UTF-8.
#include <stdint.h>
#include <stdlib.h>

#include <string>

#include "runtime/text/utf8.h"

namespace {

using gcrt::Str;
using gcrt::Utf8Stream;

std::string stream(Str text, Utf8Stream::Invalid invalid, uint32_t cuts) {
  Utf8Stream s(invalid);
  gcrt::Vec<char> out;
  while (!text.empty()) {
    cuts = cuts * 1664525 + 1013904223;
    const size_t n = gcrt::min_of(text.size(), size_t{1 + (cuts >> 28)});
    if (s.push(text.sub(0, n), out) != gcrt::kOk || s.held() > 3) abort();
    text = text.sub(n);
  }
  if (s.finish(out) != gcrt::kOk || s.held() != 0) abort();
  return {out.data(), out.size()};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const Str text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string whole(text.data(), text.size());
  if (stream(text, Utf8Stream::Invalid::kKeep, data[0]) != whole) abort();
  const std::string replaced = stream(text, Utf8Stream::Invalid::kReplace, data[0]);
  if (replaced != stream(text, Utf8Stream::Invalid::kReplace, ~uint32_t{data[0]})) abort();
  for (Str rest(replaced.data(), replaced.size()); !rest.empty();) {
    const int n = gcrt::utf8_next(rest);
    if (n <= 0) abort();
    if (gcrt::utf8_decode(rest.data(), n) > 0x10FFFF) abort();
    rest = rest.sub(static_cast<size_t>(n));
  }
  return 0;
}
