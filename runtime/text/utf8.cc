#include "runtime/text/utf8.h"

namespace gcrt {

int utf8_next(Str s) {
  if (s.empty()) return 0;
  uint8_t lead = static_cast<uint8_t>(s[0]);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return -1;
  int length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte's range excludes overlong forms, surrogates and what is past U+10FFFF.
  uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (int i = 1; i < length; ++i) {
    if (static_cast<size_t>(i) == s.size()) return 0;
    uint8_t c = static_cast<uint8_t>(s[static_cast<size_t>(i)]);
    if (c < low || c > high) return -i;
    low = 0x80, high = 0xBF;
  }
  return length;
}

uint32_t utf8_decode(const char* p, int bytes) {
  auto at = [p](int i) { return static_cast<uint32_t>(static_cast<uint8_t>(p[i])); };
  if (bytes == 1) return at(0);
  if (bytes == 2) return (at(0) & 0x1F) << 6 | (at(1) & 0x3F);
  if (bytes == 3) return (at(0) & 0x0F) << 12 | (at(1) & 0x3F) << 6 | (at(2) & 0x3F);
  return (at(0) & 0x07) << 18 | (at(1) & 0x3F) << 12 | (at(2) & 0x3F) << 6 | (at(3) & 0x3F);
}

bool utf8_append(uint32_t c, Vec<char>& out) {
  char b[4];
  size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  static constexpr uint8_t kLead[] = {0, 0, 0xC0, 0xE0, 0xF0};
  for (size_t i = n; i-- > 1; c >>= 6) b[i] = static_cast<char>(0x80 | (c & 0x3F));
  b[0] = static_cast<char>(kLead[n] | c);
  return append(out, Str(b, n));
}

Status Utf8Stream::put_invalid(Str bytes, Vec<char>& out) {
  return append(out, invalid_ == Invalid::kKeep ? bytes : Str("\xEF\xBF\xBD")) ? kOk : kErrMemory;
}

Status Utf8Stream::push(Str bytes, Vec<char>& out) {
  // What is held is completed byte by byte; it is never more than a started character.
  while (held_ && !bytes.empty()) {
    hold_[held_] = bytes[0];
    int n = utf8_next(Str(hold_, held_ + 1));
    if (n < 0) {
      // The new byte does not belong to it, and starts afresh.
      Status s = put_invalid(Str(hold_, held_), out);
      if (s != kOk) return s;
      held_ = 0;
      break;
    }
    ++held_;
    bytes = bytes.sub(1);
    if (n == 0) continue;
    if (!append(out, Str(hold_, held_))) return kErrMemory;
    held_ = 0;
  }
  while (!bytes.empty()) {
    size_t good = 0;
    int n = 1;
    while (good < bytes.size() && (n = utf8_next(bytes.sub(good))) > 0) good += static_cast<size_t>(n);
    if (!append(out, bytes.sub(0, good))) return kErrMemory;
    bytes = bytes.sub(good);
    if (bytes.empty()) break;
    if (n == 0) {
      memcpy(hold_, bytes.data(), bytes.size());
      held_ = bytes.size();
      break;
    }
    Status s = put_invalid(bytes.sub(0, static_cast<size_t>(-n)), out);
    if (s != kOk) return s;
    bytes = bytes.sub(static_cast<size_t>(-n));
  }
  return kOk;
}

Status Utf8Stream::finish(Vec<char>& out) {
  if (!held_) return kOk;
  Status s = put_invalid(Str(hold_, held_), out);
  held_ = 0;
  return s;
}

}  // namespace gcrt
