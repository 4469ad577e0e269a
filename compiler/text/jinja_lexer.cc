#include "compiler/text/jinja_lexer.h"

#include <algorithm>

#include "compiler/base/error.h"
#include "runtime/text/jinja/value.h"

namespace gc::text {
namespace {

constexpr std::size_t kNone = std::string_view::npos;

// Lines end with \n alone; one newline at the end of the file goes.
std::string normalize(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    out += source[i] == '\r' ? '\n' : source[i];
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool is_name(char c) { return is_name_start(c) || is_digit(c); }

void append_utf8(std::string& out, std::uint32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
    return;
  }
  if (c >= 0x10000) out += static_cast<char>(0xF0 | c >> 18);
  if (c >= 0x10000)
    out += static_cast<char>(0x80 | (c >> 12 & 63));
  else if (c >= 0x800)
    out += static_cast<char>(0xE0 | c >> 12);
  out += static_cast<char>(c >= 0x800 ? 0x80 | (c >> 6 & 63) : 0xC0 | c >> 6);
  out += static_cast<char>(0x80 | (c & 63));
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : text_(normalize(source)), s_(text_) {}

  std::vector<Token> run() {
    while (at_ < s_.size()) {
      const std::size_t tag = find_tag(at_);
      if (tag == kNone) {
        add_data(s_.substr(at_));
        move(s_.size());
        break;
      }
      one_tag(tag);
    }
    add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    throw_user("line ", line_, ": ", parts...);
  }
  void add(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
  void add_data(std::string_view text) {
    if (!text.empty()) add(TokenKind::kData, std::string(text));
  }
  // Goes on at `to`, with the lines counted.
  void move(std::size_t to) {
    line_ += static_cast<std::uint32_t>(std::count(s_.begin() + at_, s_.begin() + to, '\n'));
    at_ = to;
  }
  bool starts(std::size_t at, std::string_view what) const {
    return s_.substr(std::min(at, s_.size()), what.size()) == what;
  }

  std::size_t find_tag(std::size_t from) const {
    for (std::size_t i = s_.find('{', from); i != kNone; i = s_.find('{', i + 1))
      if (i + 1 < s_.size() && (s_[i + 1] == '{' || s_[i + 1] == '%' || s_[i + 1] == '#')) return i;
    return kNone;
  }
  std::size_t skip_space(std::size_t i) const {
    while (i < s_.size()) {
      std::size_t bytes = 0;
      if (!gcrt::jinja::is_space(gcrt::jinja::code_at(s_.data() + i, s_.size() - i, &bytes))) break;
      i += bytes;
    }
    return i;
  }
  static bool all_space(std::string_view s) {
    for (std::size_t i = 0, bytes = 0; i < s.size(); i += bytes)
      if (!gcrt::jinja::is_space(gcrt::jinja::code_at(s.data() + i, s.size() - i, &bytes))) return false;
    return true;
  }
  static std::string_view strip_right(std::string_view s) {
    std::size_t keep = 0;
    for (std::size_t i = 0, bytes = 0; i < s.size(); i += bytes)
      if (!gcrt::jinja::is_space(gcrt::jinja::code_at(s.data() + i, s.size() - i, &bytes))) keep = i + bytes;
    return s.substr(0, keep);
  }

  // The text before a tag, by the sign in the tag: - strips all white space, + none; without one a block strips what
  // is before it on its line.
  std::string_view before_tag(std::string_view text, char sign, bool block) const {
    if (sign == '-') return strip_right(text);
    if (sign == '+' || !block) return text;
    const std::size_t newline = text.rfind('\n');
    const std::size_t start = newline == kNone ? 0 : newline + 1;
    if (start == 0 && !line_start_) return text;
    return all_space(text.substr(start)) ? text.substr(0, start) : text;
  }
  static char sign_of(std::string_view s, std::size_t at) {
    return at < s.size() && (s[at] == '-' || s[at] == '+') ? s[at] : 0;
  }
  void end_tag(std::size_t to) {
    move(to);
    line_start_ = to > 0 && s_[to - 1] == '\n';
  }

  // Where a tag ends whose end begins at i: "%}" and a newline, "-%}" and all white space, "+%}" alone. kNone when
  // no end begins here.
  std::size_t tag_end(std::size_t i, std::string_view end, bool trims) const {
    if (starts(i, "-") && starts(i + 1, end)) return skip_space(i + 1 + end.size());
    if (trims && starts(i, "+") && starts(i + 1, end)) return i + 1 + end.size();
    if (!starts(i, end)) return kNone;
    i += end.size();
    return trims && starts(i, "\n") ? i + 1 : i;
  }

  void one_tag(std::size_t tag) {
    const char kind = s_[tag + 1];
    const char sign = sign_of(s_, tag + 2);
    std::size_t inside = tag + 2 + (sign ? 1 : 0);
    add_data(before_tag(s_.substr(at_, tag - at_), sign, kind != '{'));
    move(tag);
    if (kind == '#') return comment(inside);
    if (kind == '%') {
      const std::size_t word = skip_space(inside);
      if (starts(word, "raw") && !(word + 3 < s_.size() && is_name(s_[word + 3]))) {
        const std::size_t end = skip_space(word + 3);
        if (starts(end, "-%}")) return raw(skip_space(end + 3));
        if (starts(end, "%}")) return raw(end + 2);
      }
    }
    add(kind == '%' ? TokenKind::kBlockBegin : TokenKind::kPrintBegin, "");
    move(inside);
    expression(kind == '%');
  }

  void comment(std::size_t from) {
    for (std::size_t i = from; i < s_.size(); ++i) {
      const std::size_t end = tag_end(i, "#}", true);
      if (end != kNone) return end_tag(end);
    }
    fail("a comment without an end: expected '#}'");
  }

  void raw(std::size_t from) {
    move(from);
    line_start_ = s_[from - 1] == '\n';
    for (std::size_t tag = s_.find("{%", from); tag != kNone; tag = s_.find("{%", tag + 1)) {
      const char sign = sign_of(s_, tag + 2);
      const std::size_t word = skip_space(tag + 2 + (sign ? 1 : 0));
      if (!starts(word, "endraw")) continue;
      const std::size_t end = tag_end(skip_space(word + 6), "%}", true);
      if (end == kNone) continue;
      add_data(before_tag(s_.substr(from, tag - from), sign, true));
      return end_tag(end);
    }
    fail("a raw block without an end: expected '{% endraw %}'");
  }

  // The inside of {{ }} and {% %}, to its end.
  void expression(bool block) {
    std::string open;  // brackets that are open; within them no end is seen
    while (at_ < s_.size()) {
      if (open.empty()) {
        const std::size_t end = tag_end(at_, block ? "%}" : "}}", block);
        if (end != kNone) {
          add(block ? TokenKind::kBlockEnd : TokenKind::kPrintEnd, "");
          return end_tag(end);
        }
      }
      const std::size_t next = skip_space(at_);
      if (next != at_) {
        move(next);
        continue;
      }
      const char c = s_[at_];
      if (is_digit(c))
        number();
      else if (is_name_start(c))
        name();
      else if (c == '\'' || c == '"')
        string(c);
      else
        operation(open);
    }
    fail("unexpected end of template: expected '", block ? "%}" : "}}", "'");
  }

  void name() {
    std::size_t end = at_;
    while (end < s_.size() && is_name(s_[end])) ++end;
    add(TokenKind::kName, std::string(s_.substr(at_, end - at_)));
    move(end);
  }

  std::size_t digits(std::size_t i, std::string& out) const {
    while (i < s_.size() &&
           (is_digit(s_[i]) || (s_[i] == '_' && i + 1 < s_.size() && is_digit(s_[i + 1]) && !out.empty()))) {
      if (s_[i] != '_') out += s_[i];
      ++i;
    }
    return i;
  }

  void number() {
    const char base = at_ + 1 < s_.size() && s_[at_] == '0' ? static_cast<char>(s_[at_ + 1] | 32) : 0;
    if (base == 'x' || base == 'o' || base == 'b')
      return radix_number(base == 'x' ? 16 : base == 'o' ? 8 : 2);
    std::string value;
    std::size_t i = digits(at_, value);
    bool real = false;
    // A point right after another belongs to an attribute: a.0.1
    const bool after_point = at_ > 0 && s_[at_ - 1] == '.';
    if (!after_point && i + 1 < s_.size() && s_[i] == '.' && is_digit(s_[i + 1])) {
      real = true;
      value += '.';
      i = digits(i + 1, value);
    }
    std::size_t e = i + 1;
    if (!after_point && i < s_.size() && (s_[i] | 32) == 'e') {
      if (e < s_.size() && (s_[e] == '+' || s_[e] == '-')) ++e;
      if (e < s_.size() && is_digit(s_[e])) {
        real = true;
        value += 'e';
        if (s_[i + 1] == '-') value += '-';
        i = digits(e, value);
      }
    }
    add(real ? TokenKind::kFloat : TokenKind::kInteger, value);
    move(i);
  }

  void radix_number(unsigned base) {
    std::uint64_t v = 0;
    std::size_t i = at_ + 2;
    bool any = false, fits = true;
    for (; i < s_.size() && is_name(s_[i]); ++i) {
      if (s_[i] == '_') continue;
      const char l = static_cast<char>(s_[i] | 32);
      const unsigned d =
          is_digit(s_[i]) ? static_cast<unsigned>(s_[i] - '0') : static_cast<unsigned>(l - 'a') + 10;
      if (d >= base) break;
      fits &= v <= (std::uint64_t{1} << 58);
      v = v * base + d;
      any = true;
    }
    if (!any) fail("a number without digits");
    if (!fits) fail("the number ", std::string(s_.substr(at_, i - at_)), " is too large");
    add(TokenKind::kInteger, std::to_string(v));
    move(i);
  }

  void string(char quote) {
    std::size_t end = at_ + 1;
    while (end < s_.size() && s_[end] != quote) end += s_[end] == '\\' ? 2 : 1;
    if (end >= s_.size()) fail("a string without an end");
    const std::string_view body = s_.substr(at_ + 1, end - at_ - 1);
    std::string value;
    for (std::size_t i = 0; i < body.size();)
      i = body[i] == '\\' ? escape(body, i, value) : (value += body[i], i + 1);
    add(TokenKind::kString, std::move(value));
    move(end + 1);
  }

  // Python's escapes; one that it does not know stays as it is.
  std::size_t escape(std::string_view body, std::size_t i, std::string& out) const {
    const char c = body[i + 1];
    constexpr std::string_view kFrom = "\\'\"abfnrtv", kTo = "\\'\"\a\b\f\n\r\t\v";
    if (const std::size_t k = kFrom.find(c); k != kNone) {
      out += kTo[k];
      return i + 2;
    }
    if (c == '\n') return i + 2;
    if (c >= '0' && c <= '7') {
      std::uint32_t v = 0;
      std::size_t k = i + 1;
      for (; k < body.size() && k < i + 4 && body[k] >= '0' && body[k] <= '7'; ++k)
        v = v * 8 + static_cast<unsigned>(body[k] - '0');
      append_utf8(out, v);
      return k;
    }
    const std::size_t n = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (c == 'N') fail("the escape \\N{...} in a string is not supported: write the character itself");
    if (!n) {
      out += '\\';
      return i + 1;
    }
    std::uint32_t v = 0;
    for (std::size_t k = i + 2; k < i + 2 + n; ++k) {
      const char h = k < body.size() ? body[k] : 0;
      const char l = static_cast<char>(h | 32);
      if (!is_digit(h) && !(l >= 'a' && l <= 'f'))
        fail("the escape \\", c, " in a string needs ", n, " hexadecimal digits");
      v = v << 4 | static_cast<std::uint32_t>(is_digit(h) ? h - '0' : l - 'a' + 10);
    }
    if (v > 0x10FFFF || (v >= 0xD800 && v < 0xE000)) fail("the escape \\", c, " in a string is no character");
    append_utf8(out, v);
    return i + 2 + n;
  }

  void operation(std::string& open) {
    static constexpr std::string_view kLong[] = {"//", "**", "==", "!=", ">=", "<="};
    for (std::string_view op : kLong)
      if (starts(at_, op)) {
        add(TokenKind::kOperator, std::string(op));
        return move(at_ + 2);
      }
    const char c = s_[at_];
    if (std::string_view("+-/*%~[](){}<>=.:|,;").find(c) == kNone)
      fail("unexpected character ",
           quote(s_.substr(at_, std::max<std::size_t>(1, utf8_char(s_.substr(at_, 4), nullptr)))));
    if (c == '(') open += ')';
    if (c == '[') open += ']';
    if (c == '{') open += '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty()) fail("unexpected '", c, "'");
      if (open.back() != c) fail("unexpected '", c, "', expected '", open.back(), "'");
      open.pop_back();
    }
    add(TokenKind::kOperator, std::string(1, c));
    move(at_ + 1);
  }

  std::string text_;
  std::string_view s_;
  std::size_t at_ = 0;
  std::uint32_t line_ = 1;
  bool line_start_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> lex_template(std::string_view source) { return Lexer(source).run(); }

}  // namespace gc::text
