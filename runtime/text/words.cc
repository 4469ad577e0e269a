#include "runtime/text/words.h"

#include "runtime/text/utf8.h"

namespace gcrt {
namespace {

constexpr uint32_t kClasses[] = {
#include "runtime/text/unicode_classes.inc"
};
constexpr size_t kClassCount = sizeof kClasses / sizeof kClasses[0];
constexpr uint32_t kNoCode = 0xFFFFFFFF;

uint32_t decode(const char* p, int bytes) {
  auto at = [p](int i) { return static_cast<uint32_t>(static_cast<uint8_t>(p[i])); };
  if (bytes == 1) return at(0);
  if (bytes == 2) return (at(0) & 0x1F) << 6 | (at(1) & 0x3F);
  if (bytes == 3) return (at(0) & 0x0F) << 12 | (at(1) & 0x3F) << 6 | (at(2) & 0x3F);
  return (at(0) & 0x07) << 18 | (at(1) & 0x3F) << 12 | (at(2) & 0x3F) << 6 | (at(3) & 0x3F);
}

uint32_t lower(uint32_t c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; }

}  // namespace

CharClass char_class(uint32_t code_point) {
  // The last change at or before it.
  uint32_t key = code_point << 3 | 7;
  size_t lo = 0, hi = kClassCount;
  while (hi - lo > 1) {
    size_t mid = (lo + hi) / 2;
    if (kClasses[mid] <= key)
      lo = mid;
    else
      hi = mid;
  }
  return static_cast<CharClass>(kClasses[lo] & 7);
}

WordSplitter::Char WordSplitter::peek(size_t at) const {
  if (at >= text_.size()) return {kNoCode, CharClass::kOther, 0};
  int n = utf8_next(text_.sub(at, 4));
  if (n <= 0) return {kNoCode, CharClass::kOther, 1};
  uint32_t code = decode(text_.data() + at, n);
  Char c{code, char_class(code), static_cast<uint32_t>(n)};
  // What isolates digits sees the text end at them; the digit itself is taken in next().
  if (at != at_ && ends_before(c)) return {kNoCode, CharClass::kOther, 0};
  return c;
}

bool WordSplitter::next(Str* word) {
  if (at_ >= text_.size()) return false;
  size_t end = 0;
  switch (rule_.shape) {
    case WordShape::kGpt2:
      end = gpt2(at_);
      break;
    case WordShape::kLlama3:
      end = llama3(at_);
      break;
  }
  *word = text_.sub(at_, end - at_);
  at_ = end;
  return true;
}

// The end of an English contraction at `at`, or 0.
size_t WordSplitter::contraction(size_t at, bool any_case) const {
  if (text_[at] != '\'') return 0;
  Char a = peek(at + 1);
  uint32_t x = any_case ? lower(a.code) : a.code;
  if (x == 's' || x == 't' || x == 'm' || x == 'd') return at + 2;
  if (!a.bytes) return 0;
  uint32_t y = peek(at + 1 + a.bytes).code;
  if (any_case) y = lower(y);
  return (x == 'r' && y == 'e') || (x == 'v' && y == 'e') || (x == 'l' && y == 'l') ? at + 3 : 0;
}

// A run of white space at `at`: all but its last character when something follows that may take that one.
size_t WordSplitter::spaces(size_t at) const {
  size_t end = at, last = at, count = 0;
  for (Char c = peek(end); space(c); c = peek(end)) {
    last = end;
    end += c.bytes;
    ++count;
  }
  return count > 1 && peek(end).bytes ? last : end;
}

size_t WordSplitter::run_of_digits(size_t at) const {
  uint32_t count = 0;
  for (Char c = peek(at); number(c) && (!rule_.max_digits || count < rule_.max_digits); c = peek(at)) {
    at += c.bytes;
    ++count;
  }
  return at;
}

size_t WordSplitter::gpt2(size_t at) const {
  if (size_t end = contraction(at, false)) return end;
  Char first = peek(at);
  if (isolates_digits() && number(first)) return at + first.bytes;
  size_t begin = first.code == ' ' ? at + 1 : at;
  Char c = begin == at ? first : peek(begin);
  size_t end = begin;
  if (letter(c)) {
    for (; letter(c); c = peek(end)) end += c.bytes;
    return end;
  }
  if (number(c)) return run_of_digits(begin);
  if (other(c)) {
    for (; other(c); c = peek(end)) end += c.bytes;
    return end;
  }
  return spaces(at);
}

size_t WordSplitter::llama3(size_t at) const {
  if (size_t end = contraction(at, true)) return end;
  Char first = peek(at);
  bool newline = first.code == '\r' || first.code == '\n';
  if (!newline && !number(first) && (letter(first) || letter(peek(at + first.bytes)))) {
    size_t end = at + first.bytes;
    for (Char c = peek(end); letter(c); c = peek(end)) end += c.bytes;
    return end;
  }
  if (number(first)) return run_of_digits(at);
  size_t end = first.code == ' ' ? at + 1 : at;
  Char c = end == at ? first : peek(end);
  if (other(c)) {
    for (; other(c); c = peek(end)) end += c.bytes;
    while (end < text_.size() && (text_[end] == '\r' || text_[end] == '\n')) ++end;
    return end;
  }
  // White space up to the last line end in the run.
  size_t line_end = 0;
  end = at;
  for (c = peek(end); space(c); c = peek(end)) {
    end += c.bytes;
    if (c.code == '\r' || c.code == '\n') line_end = end;
  }
  return line_end ? line_end : spaces(at);
}

}  // namespace gcrt
