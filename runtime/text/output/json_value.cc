#include "runtime/text/output/json_value.h"

#include <string.h>

#include "runtime/text/output/scan.h"

namespace gcrt {
namespace {

constexpr Str kGemmaQuote = "<|\"|>";

using output::is_space;
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || ((c | 32) >= 'a' && (c | 32) <= 'f'); }

// A character of a string as JSON has it.
bool put_char(Vec<char>& out, char c) {
  const uint8_t u = static_cast<uint8_t>(c);
  if (u >= 0x20 && c != '"' && c != '\\') return out.push(c);
  const char brief = c == '\n' ? 'n' : c == '\t' ? 't' : c == '\r' ? 'r' : u >= 0x20 ? c : 'u';
  if (!out.push('\\') || !out.push(brief)) return false;
  return brief != 'u' ||
         (append(out, "00") && out.push("01"[u >> 4]) && out.push("0123456789abcdef"[u & 15]));
}

struct Word {
  const char* text;
  const char* json;
  bool python;
};
constexpr Word kWords[] = {{"true", "true", false}, {"false", "false", false}, {"null", "null", false},
                           {"True", "true", true},  {"False", "false", true},  {"None", "null", true}};

}  // namespace

void JsonValue::begin(Dialect dialect, Root root) {
  dialect_ = dialect, root_ = root;
  expect_ = Expect::kValue, lex_ = Lex::kNone;
  kind_ = quote_ = 0;
  key_ = holding_ = wrapped_ = wrap_escape_ = false;
  wrap_digits_ = 0;
  depth_ = 0;
  space_.clear();
  held_.clear();
}

JsonValue::Result JsonValue::read(Str text, bool final, size_t* used, Vec<char>& out) {
  size_t& i = *used;
  i = 0;
  while (i < text.size()) {
    if (expect_ == Expect::kEnd && lex_ == Lex::kNone && !wrapped_) return Result::kDone;
    const char c = text[i];
    if (dialect_ == Dialect::kGemma && c == '<' && (lex_ == Lex::kNone || lex_ == Lex::kString)) {
      const Str rest = text.sub(i, kGemmaQuote.size());
      if (rest == kGemmaQuote) {
        const Result r = lex_ == Lex::kString ? close_string(out) : token('<', out);
        if (r != Result::kMore) return r;
        i += kGemmaQuote.size();
        continue;
      }
      if (!final && kGemmaQuote.starts_with(rest)) return Result::kMore;
    }
    bool took = true;
    const Result r = wrapped_ ? unwrap(c, out) : feed(c, out, &took);
    i += took;
    if (r != Result::kMore) return r;
  }
  if (expect_ == Expect::kEnd && lex_ == Lex::kNone && !wrapped_) return Result::kDone;
  if (final && lex_ == Lex::kNumber && depth_ == 0 && number_ends()) return Result::kDone;
  return Result::kMore;
}

JsonValue::Result JsonValue::feed(char c, Vec<char>& out, bool* used) {
  switch (lex_) {
    case Lex::kString:
      return in_string(c, out);
    case Lex::kEscape:
    case Lex::kUnicode:
      return in_escape(c, out);
    case Lex::kNumber:
      return in_number(c, out, used);
    case Lex::kWord:
      return in_word(c, out);
    case Lex::kBareKey:
      if (c == ':') {
        lex_ = Lex::kNone;
        expect_ = Expect::kValue;
        return append(out, "\":") ? Result::kMore : Result::kMemory;
      }
      if (is_space(c) || c == ',' || c == '}' || c == '{') return Result::kBad;
      return put_char(out, c) ? Result::kMore : Result::kMemory;
    case Lex::kNone:
      break;
  }
  if (is_space(c)) {
    if (!kind_ || dialect_ == Dialect::kGemma) return Result::kMore;
    return space_.push(c) ? Result::kMore : Result::kMemory;
  }
  return token(c, out);
}

bool JsonValue::put_space(Vec<char>& out) {
  const bool ok = out.append(space_.span());
  space_.clear();
  return ok;
}

// A character between tokens, not white space. '<' stands for Gemma's quote.
JsonValue::Result JsonValue::token(char c, Vec<char>& out) {
  if (!kind_) {
    const bool null_root = root_ == Root::kOpened && c == 'n';
    if (root_ == Root::kOpened && c == '"') {
      kind_ = '{';
      wrapped_ = true;
      return Result::kMore;
    }
    if (root_ != Root::kAny && c != '{' && !null_root) return Result::kBad;
  }
  if (!put_space(out)) return Result::kMemory;
  const bool quote = dialect_ == Dialect::kGemma ? c == '<' || c == '"'
                                                 : c == '"' || (c == '\'' && dialect_ == Dialect::kLoose);
  switch (expect_) {
    case Expect::kFirstKey:
      if (c == '}') return close(c, out);
      [[fallthrough]];
    case Expect::kKey:
      key_ = true;
      if (quote) return open_string(c, out);
      if (dialect_ != Dialect::kGemma || c == ':' || c == ',' || c == '{' || c == '[') return Result::kBad;
      lex_ = Lex::kBareKey;
      return out.push('"') && put_char(out, c) ? Result::kMore : Result::kMemory;
    case Expect::kColon:
      if (c != ':') return Result::kBad;
      expect_ = Expect::kValue;
      return out.push(c) ? Result::kMore : Result::kMemory;
    case Expect::kNext:
      return next(c, out);
    case Expect::kEnd:
      return Result::kDone;
    case Expect::kFirstItem:
      if (c == ']' || c == ')') return close(c, out);
      break;
    case Expect::kValue:
      break;
  }
  if (c == '{' || c == '[' || (c == '(' && dialect_ == Dialect::kLoose)) return open(c, out);
  key_ = false;
  if (quote) {
    if (!kind_) kind_ = '"';
    return open_string(c, out);
  }
  if (c == '-' || is_digit(c)) {
    if (!kind_) kind_ = '0';
    lex_ = Lex::kNumber;
    digits_ = c == '-' ? 1 : c == '0' ? 2 : 3;
    return out.push(c) ? Result::kMore : Result::kMemory;
  }
  lex_ = Lex::kWord;
  word_bytes_ = 0;
  return in_word(c, out);
}

JsonValue::Result JsonValue::next(char c, Vec<char>& out) {
  if (c != ',') return close(c, out);
  expect_ = stack_[depth_ - 1] == '{' ? Expect::kKey : Expect::kValue;
  return out.push(c) ? Result::kMore : Result::kMemory;
}

JsonValue::Result JsonValue::open(char c, Vec<char>& out) {
  if (depth_ == kMaxDepth) return Result::kBad;
  const bool written = !kind_ && root_ == Root::kOpened;
  if (!kind_) kind_ = c == '{' ? '{' : '[';
  stack_[depth_++] = c;
  expect_ = c == '{' ? Expect::kFirstKey : Expect::kFirstItem;
  return written || out.push(c == '{' ? '{' : '[') ? Result::kMore : Result::kMemory;
}

JsonValue::Result JsonValue::close(char c, Vec<char>& out) {
  const char opened = depth_ ? stack_[depth_ - 1] : 0;
  if (c != (opened == '{' ? '}' : opened == '[' ? ']' : ')') || !opened) return Result::kBad;
  --depth_;
  if (!out.push(c == '}' ? '}' : ']')) return Result::kMemory;
  return value_done();
}

JsonValue::Result JsonValue::value_done() {
  lex_ = Lex::kNone;
  expect_ = depth_ ? Expect::kNext : Expect::kEnd;
  return Result::kMore;  // read() sees the end
}

JsonValue::Result JsonValue::open_string(char quote, Vec<char>& out) {
  lex_ = Lex::kString;
  quote_ = quote;
  return out.push('"') ? Result::kMore : Result::kMemory;
}

JsonValue::Result JsonValue::close_string(Vec<char>& out) {
  if (holding_) {
    holding_ = false;
    for (char c : held_)
      if (static_cast<uint8_t>(c) < 0x20 ? !put_char(out, c) : !out.push(c)) return Result::kMemory;
    held_.clear();
  }
  if (!out.push('"')) return Result::kMemory;
  if (!key_) return value_done();
  lex_ = Lex::kNone;
  expect_ = Expect::kColon;
  return Result::kMore;
}

JsonValue::Result JsonValue::in_string(char c, Vec<char>& out) {
  if (c == quote_) return close_string(out);
  if (quote_ == '<') return put_char(out, c) ? Result::kMore : Result::kMemory;
  if (c == '\\') {
    lex_ = Lex::kEscape;
    return Result::kMore;
  }
  if (static_cast<uint8_t>(c) < 0x20 && dialect_ == Dialect::kJson) holding_ = true;
  Vec<char>& to = target(out);
  const bool ok = holding_ ? to.push(c) : put_char(to, c);  // a lone " in '...' needs its escape
  return ok ? Result::kMore : Result::kMemory;
}

JsonValue::Result JsonValue::in_escape(char c, Vec<char>& out) {
  Vec<char>& to = target(out);
  if (lex_ == Lex::kUnicode) {
    if (!is_hex(c)) return Result::kBad;
    if (--digits_ == 0) lex_ = Lex::kString;
    return to.push(c) ? Result::kMore : Result::kMemory;
  }
  lex_ = Lex::kString;
  bool ok = false;
  if (c == '"' || c == '\\' || c == '/' || c == 'b' || c == 'f' || c == 'n' || c == 'r' || c == 't') {
    ok = to.push('\\') && to.push(c);
  } else if (c == 'u' || (c == 'x' && dialect_ == Dialect::kLoose)) {
    lex_ = Lex::kUnicode;
    digits_ = c == 'u' ? 4 : 2;
    ok = append(to, c == 'u' ? "\\u" : "\\u00");
  } else if (c == '\'') {
    ok = to.push(c);
  } else if (dialect_ == Dialect::kLoose) {
    ok = c == '\n' || (append(to, "\\\\") && put_char(to, c));
  } else {
    return Result::kBad;
  }
  return ok ? Result::kMore : Result::kMemory;
}

JsonValue::Result JsonValue::in_number(char c, Vec<char>& out, bool* used) {
  uint8_t to = 0;
  switch (digits_) {
    case 1:  // -
      to = c == '0' ? 2 : is_digit(c) ? 3 : 0;
      break;
    case 2:  // 0
    case 3:  // 12
      to = digits_ == 3 && is_digit(c) ? 3 : c == '.' ? 4 : (c | 32) == 'e' ? 6 : 0;
      break;
    case 4:  // 1.
      to = is_digit(c) ? 5 : 0;
      break;
    case 5:  // 1.5
      to = is_digit(c) ? 5 : (c | 32) == 'e' ? 6 : 0;
      break;
    case 6:  // 1e
      to = c == '+' || c == '-' ? 7 : is_digit(c) ? 8 : 0;
      break;
    default:  // 1e+, 1e5
      to = is_digit(c) ? 8 : 0;
  }
  if (to) {
    digits_ = to;
    return out.push(c) ? Result::kMore : Result::kMemory;
  }
  if (!number_ends() || is_digit(c)) return Result::kBad;
  *used = false;
  return value_done();
}

JsonValue::Result JsonValue::in_word(char c, Vec<char>& out) {
  if (word_bytes_ == sizeof word_) return Result::kBad;
  word_[word_bytes_++] = c;
  const Str so_far(word_, word_bytes_);
  for (const Word& w : kWords) {
    const Str text = w.text;
    if ((w.python && dialect_ != Dialect::kLoose) || !text.starts_with(so_far)) continue;
    if (text.size() > so_far.size()) return Result::kMore;
    const bool null_root = !kind_ && root_ == Root::kOpened;
    if (!kind_) kind_ = w.json[0] == 'n' ? 'n' : 't';
    if (!append(out, null_root ? "}" : w.json)) return Result::kMemory;
    return value_done();
  }
  return Result::kBad;
}

// A character of a JSON string that holds the JSON of an object.
JsonValue::Result JsonValue::unwrap(char c, Vec<char>& out) {
  auto inner = [&](char byte) {
    if (expect_ == Expect::kEnd) return is_space(byte) ? Result::kMore : Result::kBad;
    bool took = true;
    if (kind_ == '{' && depth_ == 0 && expect_ == Expect::kValue) {
      if (is_space(byte)) return Result::kMore;
      if (byte != '{') return Result::kBad;
      stack_[depth_++] = '{';
      expect_ = Expect::kFirstKey;
      return Result::kMore;
    }
    Result r = feed(byte, out, &took);
    if (r == Result::kMore && !took) r = feed(byte, out, &took);
    return r;
  };
  if (wrap_digits_) {
    if (!is_hex(c)) return Result::kBad;
    wrap_code_ = wrap_code_ << 4 | static_cast<uint32_t>(is_digit(c) ? c - '0' : (c | 32) - 'a' + 10);
    if (--wrap_digits_) return Result::kMore;
    if (wrap_code_ < 0x80) return inner(static_cast<char>(wrap_code_));
    // Any other character can only stand in a string, where its escape will do.
    if (lex_ != Lex::kString) return Result::kBad;
    char escape[7] = {'\\', 'u'};
    for (int k = 0; k < 4; ++k) escape[2 + k] = "0123456789abcdef"[wrap_code_ >> (12 - 4 * k) & 15];
    return append(target(out), Str(escape, 6)) ? Result::kMore : Result::kMemory;
  }
  if (wrap_escape_) {
    wrap_escape_ = false;
    switch (c) {
      case 'n':
        return inner('\n');
      case 't':
        return inner('\t');
      case 'r':
        return inner('\r');
      case 'b':
        return inner('\b');
      case 'f':
        return inner('\f');
      case '"':
      case '\\':
      case '/':
      case '\'':
        return inner(c);
      case 'u':
        wrap_digits_ = 4;
        wrap_code_ = 0;
        return Result::kMore;
      default:
        return Result::kBad;
    }
  }
  if (c == '\\') {
    wrap_escape_ = true;
    return Result::kMore;
  }
  if (c != '"') return inner(c);
  if (expect_ != Expect::kEnd) return Result::kBad;
  wrapped_ = false;
  return Result::kMore;
}

bool JsonValue::flush(Vec<char>& out) {
  const bool ok = out.append(held_.span());
  held_.clear();
  holding_ = false;
  return ok;
}

bool append_json_inside(Vec<char>& out, Str text) {
  for (char c : text)
    if (!put_char(out, c)) return false;
  return true;
}

JsonValue::Result whole_json(Str text, JsonValue::Dialect dialect, Vec<char>& out, char* kind) {
  JsonValue v(out.allocator());
  v.begin(dialect, JsonValue::Root::kAny);
  size_t used = 0;
  const JsonValue::Result r = v.read(text, true, &used, out);
  *kind = v.kind();
  if (r != JsonValue::Result::kDone) return r == JsonValue::Result::kMore ? JsonValue::Result::kBad : r;
  return json_trim(text.sub(used)).empty() ? r : JsonValue::Result::kBad;
}

// ---- Walking ----

Str json_trim(Str s) {
  while (!s.empty() && is_space(s[0])) s = s.sub(1);
  while (!s.empty() && is_space(s[s.size() - 1])) s = s.sub(0, s.size() - 1);
  return s;
}

Str json_first(Str s) {
  size_t from = 0;
  while (from < s.size() && is_space(s[from])) ++from;
  s = s.sub(from);
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < s.size(); ++i) {
    const char c = s[i];
    if (quoted) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        quoted = false;
        if (!depth) return s.sub(0, i + 1);
      }
      continue;
    }
    if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (!depth) return s.sub(0, i);
      if (--depth == 0) return s.sub(0, i + 1);
    } else if (!depth && (c == ',' || c == ':' || is_space(c))) {
      return s.sub(0, i);
    }
  }
  return s;
}

bool json_element(Str array, size_t* at, Str* value) {
  size_t i = *at;
  while (i < array.size() && (is_space(array[i]) || array[i] == ',' || (i == 0 && array[i] == '['))) ++i;
  if (i == 0 || i >= array.size() || array[i] == ']') return false;
  *value = json_first(array.sub(i));
  *at = i + value->size();
  return !value->empty();
}

bool json_member(Str object, size_t* at, Str* key, Str* value) {
  size_t i = *at;
  while (i < object.size() && (is_space(object[i]) || object[i] == ',' || (i == 0 && object[i] == '{'))) ++i;
  if (i == 0 || i >= object.size() || object[i] != '"') return false;
  *key = json_first(object.sub(i));
  i += key->size();
  while (i < object.size() && (is_space(object[i]) || object[i] == ':')) ++i;
  *value = json_first(object.sub(i));
  *at = i + value->size();
  return !value->empty();
}

Str json_find(Str object, Str key) {
  if (!object.starts_with("{")) return {};
  size_t at = 0;
  for (Str k, v; json_member(object, &at, &k, &v);)
    if (json_is_string(k, key)) return v;
  return {};
}

bool json_unescape(Str token, Vec<char>& out) {
  auto put_code = [&out](uint32_t c) {
    if (c < 0x80) return out.push(static_cast<char>(c));
    if (c < 0x800)
      return out.push(static_cast<char>(0xC0 | c >> 6)) && out.push(static_cast<char>(0x80 | (c & 63)));
    if (c < 0x10000)
      return out.push(static_cast<char>(0xE0 | c >> 12)) &&
             out.push(static_cast<char>(0x80 | (c >> 6 & 63))) &&
             out.push(static_cast<char>(0x80 | (c & 63)));
    return out.push(static_cast<char>(0xF0 | c >> 18)) &&
           out.push(static_cast<char>(0x80 | (c >> 12 & 63))) &&
           out.push(static_cast<char>(0x80 | (c >> 6 & 63))) && out.push(static_cast<char>(0x80 | (c & 63)));
  };
  auto hex4 = [token](size_t i) {
    uint32_t v = 0;
    for (size_t k = i; k < i + 4 && k < token.size(); ++k) {
      const char c = token[k];
      v = v << 4 | static_cast<uint32_t>(is_digit(c) ? c - '0' : (c | 32) - 'a' + 10);
    }
    return v & 0xFFFF;
  };
  for (size_t i = 1; i + 1 < token.size(); ++i) {
    if (token[i] != '\\') {
      if (!out.push(token[i])) return false;
      continue;
    }
    const char c = token[++i];
    uint32_t code = static_cast<uint32_t>(c);
    if (c == 'u') {
      code = hex4(i + 1);
      i += 4;
      if (code >= 0xD800 && code < 0xDC00 && token.sub(i + 1).starts_with("\\u")) {
        const uint32_t low = hex4(i + 3);
        if (low >= 0xDC00 && low < 0xE000) {
          code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
          i += 6;
        }
      }
      if (code >= 0xD800 && code < 0xE000) code = 0xFFFD;
    } else if (const char* at = strchr("n\nt\tr\rb\bf\f", c); at && c >= 'b') {
      code = static_cast<uint32_t>(at[1]);
    }
    if (!put_code(code)) return false;
  }
  return true;
}

bool json_is_string(Str token, Str text) {
  if (token.size() < 2 || token[0] != '"') return false;
  const Str inside = token.sub(1, token.size() - 2);
  if (!memchr(inside.data(), '\\', inside.size())) return inside == text;
  Vec<char> plain;
  return json_unescape(token, plain) && str(plain) == text;
}

}  // namespace gcrt
