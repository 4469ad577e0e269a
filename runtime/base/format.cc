#include "runtime/base/format.h"

#include <math.h>
#include <string.h>

namespace gcrt {

Writer& Writer::put(Str s) {
  if (wanted_ < limit() && s.len) {
    size_t room = limit() - wanted_;
    memcpy(buffer_ + wanted_, s.ptr, s.len < room ? s.len : room);
  }
  wanted_ += s.len;
  terminate();
  return *this;
}

Writer& Writer::put_uint(uint64_t v) {
  char digits[20];
  size_t at = sizeof digits;
  do digits[--at] = static_cast<char>('0' + v % 10);
  while (v /= 10);
  return put(Str(digits + at, sizeof digits - at));
}

Writer& Writer::put_int(int64_t v) {
  if (v < 0) put('-');
  // Negation in unsigned arithmetic: right for INT64_MIN too.
  return put_uint(v < 0 ? 0 - static_cast<uint64_t>(v) : static_cast<uint64_t>(v));
}

Writer& Writer::put_hex(uint64_t v, int digits) {
  for (int i = digits - 1; i >= 0; --i) put("0123456789abcdef"[(v >> (4 * i)) & 15]);
  return *this;
}

Writer& Writer::put_fixed(double v, int decimals) {
  if (isnan(v)) return put("nan");
  if (signbit(v)) {
    put('-');
    v = -v;
  }
  if (isinf(v)) return put("inf");
  if (v >= 1e18) {
    int e = static_cast<int>(floor(log10(v)));
    double m = v / pow(10, e);
    put_fixed(m, 2).put("e+");
    return put_int(e);
  }
  if (decimals < 0) decimals = 0;
  if (decimals > 9) decimals = 9;
  uint64_t scale = 1;
  for (int i = 0; i < decimals; ++i) scale *= 10;
  double whole = floor(v);
  uint64_t w = static_cast<uint64_t>(whole),
           f = static_cast<uint64_t>(llround((v - whole) * static_cast<double>(scale)));
  if (f >= scale) {
    f -= scale;
    ++w;
  }
  put_uint(w);
  if (!decimals) return *this;
  put('.');
  char digits[9];
  for (int i = decimals - 1; i >= 0; --i, f /= 10) digits[i] = static_cast<char>('0' + f % 10);
  return put(Str(digits, static_cast<size_t>(decimals)));
}

}  // namespace gcrt
