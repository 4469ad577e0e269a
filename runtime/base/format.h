#pragma once
// Text into a fixed buffer: always zero-terminated, cut (never overrun) when it is full. Numbers do not
// depend on the locale, which printf's do.
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/span.h"

namespace gcrt {

class Writer {
 public:
  // `capacity` counts the final zero; 0 with a null buffer is allowed and only measures.
  Writer(char* buffer, size_t capacity) : buffer_(buffer), capacity_(capacity) { terminate(); }
  template <size_t N>
  explicit Writer(char (&buffer)[N]) : Writer(buffer, N) {}

  Writer& put(Str s);
  Writer& put(char c) { return put(Str(&c, 1)); }
  Writer& put_int(int64_t v);
  Writer& put_uint(uint64_t v);
  Writer& put_hex(uint64_t v, int digits);
  // Fixed point with rounding, `decimals` 0 to 9: "3.14", "-0.50", "inf", "nan". Beyond 1e18: as "1.23e+20".
  Writer& put_fixed(double v, int decimals);

  // What was written, without the zero; wanted() also counts what did not fit.
  Str text() const { return {buffer_, wanted_ < limit() ? wanted_ : limit()}; }
  size_t wanted() const { return wanted_; }
  bool cut() const { return wanted_ > limit(); }

 private:
  size_t limit() const { return capacity_ ? capacity_ - 1 : 0; }
  void terminate() {
    if (capacity_) buffer_[wanted_ < limit() ? wanted_ : limit()] = 0;
  }

  char* buffer_;
  size_t capacity_;
  size_t wanted_ = 0;
};

namespace detail {
inline void put_part(Writer& w, Str s) { w.put(s); }
inline void put_part(Writer& w, const char* s) { w.put(Str(s)); }
inline void put_part(Writer& w, char c) { w.put(c); }
inline void put_part(Writer& w, int v) { w.put_int(v); }
inline void put_part(Writer& w, long v) { w.put_int(v); }
inline void put_part(Writer& w, long long v) { w.put_int(v); }
inline void put_part(Writer& w, unsigned v) { w.put_uint(v); }
inline void put_part(Writer& w, unsigned long v) { w.put_uint(v); }
inline void put_part(Writer& w, unsigned long long v) { w.put_uint(v); }
inline void put_part(Writer& w, double v) { w.put_fixed(v, 3); }
}  // namespace detail

// format(w, "need ", n, " bytes"): the parts one after the other.
template <class... Parts>
Writer& format(Writer& w, const Parts&... parts) {
  (detail::put_part(w, parts), ...);
  return w;
}
// Straight into a caller's message buffer.
template <class... Parts>
void format_to(Span<char> message, const Parts&... parts) {
  Writer w(message.data(), message.size());
  format(w, parts...);
}

}  // namespace gcrt
