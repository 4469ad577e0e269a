// JSON into values and out of them. Reading: RFC 8259, UTF-8 checked, at most kMaxValueDepth deep. Integers beyond 64
// bits become floats. Half a surrogate pair becomes U+FFFD. Writing: as Python's json.dumps, byte for byte.
#include <math.h>

#include "runtime/text/jinja/machine.h"
#include "runtime/text/jinja/number.h"
#include "runtime/text/utf8.h"

namespace gcrt {
namespace jinja {
namespace {

class Reader {
 public:
  Reader(Machine& m, Str s, Marking marking) : m_(m), s_(s), marking_(marking) {}

  bool run(Value* out) {
    space();
    const bool messages = marking_ == Marking::kContext && at_ < s_.size() && s_[at_] == '[';
    if (!value(out, 0, marking_ == Marking::kAll || messages)) return false;
    space();
    return at_ == s_.size() || fault("unexpected text after the end");
  }

 private:
  bool fault(const char* what) { return m_.fail("invalid JSON at byte ", at_, ": ", what); }
  void space() {
    while (at_ < s_.size() && (s_[at_] == ' ' || s_[at_] == '\n' || s_[at_] == '\t' || s_[at_] == '\r'))
      ++at_;
  }
  bool take(char c) {
    space();
    if (at_ >= s_.size() || s_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool word(const char* w) {
    if (!s_.sub(at_).starts_with(w)) return fault("expected a value");
    at_ += strlen(w);
    return true;
  }

  bool value(Value* out, int depth, bool marked) {
    if (depth > kMaxValueDepth) return fault("nested too deep");
    if (!m_.spend(1)) return false;
    space();
    if (at_ >= s_.size()) return fault("unexpected end");
    const char c = s_[at_];
    if (c == '{') return object(out, depth, marked);
    if (c == '[') return array(out, depth, marked);
    if (c == '"') return text(out, marked);
    if (c == '-' || (c >= '0' && c <= '9')) return number(out);
    *out = c == 'n' ? none() : boolean(c == 't');
    return word(c == 'n' ? "null" : c == 't' ? "true" : "false");
  }

  bool object(Value* out, int depth, bool marked) {
    DictBuild d(m_);
    ++at_;
    if (!take('}')) {
      do {
        Value key, v;
        space();
        if (at_ >= s_.size() || s_[at_] != '"') return fault("expected a key");
        if (!text(&key, marked)) return false;
        if (!take(':')) return fault("expected ':'");
        const bool context = marking_ == Marking::kContext && depth == 0;
        const Str k = key.str();
        const bool below = marked || (context && (k == "messages" || k == "tools" || k == "documents"));
        if (!value(&v, depth + 1, below)) return false;
        if (below && k == "role" && v.kind == Kind::kString && is_word(v.str())) v.marks = nullptr;
        if (!d.put(key, v)) return false;
      } while (take(','));
      if (!take('}')) return fault("expected ',' or '}'");
    }
    *out = d.take();
    return true;
  }

  bool array(Value* out, int depth, bool marked) {
    ListBuild list(m_);
    ++at_;
    if (!take(']')) {
      do {
        Value v;
        if (!value(&v, depth + 1, marked) || !list.push(v)) return false;
      } while (take(','));
      if (!take(']')) return fault("expected ',' or ']'");
    }
    *out = list.take(Kind::kList);
    return true;
  }

  static bool is_word(Str s) {
    for (char c : s)
      if (!((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_' || c == '-'))
        return false;
    return true;
  }

  bool text(Value* out, bool marked) {
    Build b(m_);
    const size_t start = ++at_;
    size_t from = at_;
    auto flush = [&] { return put(b, s_.sub(from, at_ - from), marked); };
    for (;;) {
      if (at_ >= s_.size()) return at_ = start, fault("a string without an end");
      const uint8_t c = static_cast<uint8_t>(s_[at_]);
      if (c == '"') break;
      if (c < 0x20) return fault("a control character in a string");
      if (c >= 0x80) {
        const int n = utf8_next(s_.sub(at_));
        if (n <= 0) return fault("not valid UTF-8");
        at_ += static_cast<size_t>(n);
      } else if (c == '\\') {
        if (!flush()) return false;
        if (!escape(b, marked)) return false;
        from = at_;
      } else {
        ++at_;
      }
    }
    if (!flush()) return false;
    ++at_;
    *out = b.take();
    return true;
  }

  static bool put(Build& b, Str s, bool marked) {
    if (!marked) return b.put(Text(s));
    static constexpr uint8_t kOnes[64] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                          1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                          1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    for (size_t i = 0; i < s.size(); i += sizeof kOnes) {
      const Str piece = s.sub(i, sizeof kOnes);
      if (!b.put(Text(piece.ptr, kOnes, piece.len))) return false;
    }
    return true;
  }

  bool hex4(uint32_t* out) {
    *out = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = at_ < s_.size() ? s_[at_] : 0;
      const char l = static_cast<char>(c | 32);
      if (c >= '0' && c <= '9')
        *out = *out << 4 | static_cast<uint32_t>(c - '0');
      else if (l >= 'a' && l <= 'f')
        *out = *out << 4 | static_cast<uint32_t>(l - 'a' + 10);
      else
        return fault("expected four hexadecimal digits");
    }
    return true;
  }

  bool escape(Build& b, bool marked) {
    ++at_;
    const char c = at_ < s_.size() ? s_[at_++] : 0;
    uint32_t code = 0;
    switch (c) {
      case '"':
      case '\\':
      case '/':
        code = static_cast<uint32_t>(c);
        break;
      case 'b':
        code = 8;
        break;
      case 'f':
        code = 12;
        break;
      case 'n':
        code = 10;
        break;
      case 'r':
        code = 13;
        break;
      case 't':
        code = 9;
        break;
      case 'u': {
        if (!hex4(&code)) return false;
        if (code >= 0xD800 && code < 0xDC00 && s_.sub(at_).starts_with("\\u")) {
          const size_t back = at_;
          uint32_t low = 0;
          at_ += 2;
          if (!hex4(&low)) return false;
          if (low >= 0xDC00 && low < 0xE000)
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
          else
            at_ = back;
        }
        if (code >= 0xD800 && code < 0xE000) code = 0xFFFD;
        break;
      }
      default:
        return fault("an unknown escape in a string");
    }
    return b.put_code(code, marked);
  }

  bool number(Value* out) {
    const size_t from = at_;
    bool whole = true;
    if (s_[at_] == '-') ++at_;
    const size_t digits = at_;
    while (at_ < s_.size() && s_[at_] >= '0' && s_[at_] <= '9') ++at_;
    const size_t n = at_ - digits;
    if (n == 0 || (n > 1 && s_[digits] == '0')) return fault("a malformed number");
    if (at_ < s_.size() && s_[at_] == '.') {
      const size_t point = at_++;
      whole = false;
      while (at_ < s_.size() && s_[at_] >= '0' && s_[at_] <= '9') ++at_;
      if (at_ == point + 1) return fault("a malformed number");
    }
    if (at_ < s_.size() && (s_[at_] | 32) == 'e') {
      whole = false;
      ++at_;
      if (at_ < s_.size() && (s_[at_] == '+' || s_[at_] == '-')) ++at_;
      const size_t exponent = at_;
      while (at_ < s_.size() && s_[at_] >= '0' && s_[at_] <= '9') ++at_;
      if (at_ == exponent) return fault("a malformed number");
    }
    const Str s = s_.sub(from, at_ - from);
    if (!m_.spend(s.size() / 4)) return false;
    int64_t v = 0;
    for (size_t i = digits; whole && i < at_; ++i)
      whole = !__builtin_mul_overflow(v, int64_t{10}, &v) &&
              !__builtin_sub_overflow(v, int64_t{s_[i] - '0'}, &v);  // downwards, for INT64_MIN
    if (whole && digits == from) whole = !__builtin_sub_overflow(int64_t{0}, v, &v);
    if (whole) {
      *out = integer(v);
      return true;
    }
    double f = 0;
    if (!parse_float(s, &f)) return fault("a malformed number");
    if (isinf(f)) return fault("a number too large");
    *out = real(f);
    return true;
  }

  Machine& m_;
  Str s_;
  Marking marking_;
  size_t at_ = 0;
};

class Dumper {
 public:
  Dumper(Machine& m, Build& out) : m_(m), out_(out) {}

  bool options(const Value& ascii, const Value& indent, const Value& separators, const Value& sort) {
    ascii_ = truth(ascii);
    sort_ = truth(sort);
    Build b(m_);
    if (indent.kind == Kind::kInt || indent.kind == Kind::kBool) {
      const int64_t n = indent.kind == Kind::kInt ? indent.i : indent.b;
      if (!b.put_repeated(Str(" "), n > 0 ? static_cast<uint64_t>(n) : 0)) return false;
      indents_ = true;
      indent_ = b.take().text();
    } else if (indent.kind == Kind::kString) {
      indents_ = true;
      indent_ = indent.text();
    } else if (indent.kind != Kind::kNone && !(indent.kind == Kind::kUndefined && !indent.hint)) {
      return m_.fail("tojson: the indent must be a number or a string, not ", type_name(indent));
    }
    comma_ = Str(indents_ ? "," : ", ");
    if (separators.kind == Kind::kTuple || separators.kind == Kind::kList) {
      if (separators.n != 2 || separators.items[0].kind != Kind::kString ||
          separators.items[1].kind != Kind::kString)
        return m_.fail("tojson: separators must be two strings");
      comma_ = separators.items[0].text(), colon_ = separators.items[1].text();
    } else if (separators.kind != Kind::kNone && separators.kind != Kind::kUndefined) {
      return m_.fail("tojson: separators must be two strings");
    }
    return true;
  }

  bool value(const Value& v, int depth) {
    if (depth > kMaxValueDepth) return m_.fail("lists too deep to write");
    if (!m_.spend(1)) return false;
    switch (v.kind) {
      case Kind::kNone:
        return out_.put("null");
      case Kind::kBool:
        return out_.put(v.b ? "true" : "false");
      case Kind::kInt:
        return out_.put_int(v.i);
      case Kind::kFloat:
        return real(v.f);
      case Kind::kString:
        return text(v.text());
      case Kind::kList:
      case Kind::kTuple:
        return array(v, depth);
      case Kind::kDict:
        return object(v, depth);
      default:
        return m_.fail("Object of type ", type_name(v), " is not JSON serializable");
    }
  }

 private:
  bool real(double f) {
    if (isnan(f)) return out_.put("NaN");
    if (isinf(f)) return out_.put(f < 0 ? "-Infinity" : "Infinity");
    char s[40];
    return out_.put(Text(Str(s, float_repr(f, s))));
  }
  bool newline(int depth) {
    return !indents_ || (out_.put("\n") && out_.put_repeated(indent_, static_cast<uint64_t>(depth)));
  }

  bool array(const Value& v, int depth) {
    if (!v.n) return out_.put("[]");
    if (!out_.put("[")) return false;
    for (uint32_t i = 0; i < v.n; ++i)
      if ((i && !out_.put(comma_)) || !newline(depth + 1) || !value(v.items[i], depth + 1)) return false;
    return newline(depth) && out_.put("]");
  }

  bool object(const Value& v, int depth) {
    if (!v.n) return out_.put("{}");
    uint32_t* order = m_.make<uint32_t>(v.n);
    if (!order) return false;
    for (uint32_t i = 0; i < v.n; ++i) order[i] = i;
    if (sort_) {
      Value* keys = m_.make<Value>(v.n);
      if (!keys) return false;
      for (uint32_t i = 0; i < v.n; ++i) keys[i] = v.entries[i].key;
      if (!sort_order(m_, {keys, v.n}, false, order)) return false;
    }
    if (!out_.put("{")) return false;
    for (uint32_t i = 0; i < v.n; ++i) {
      const Entry& e = v.entries[order[i]];
      if ((i && !out_.put(comma_)) || !newline(depth + 1) || !key(e.key) || !out_.put(colon_) ||
          !value(e.value, depth + 1))
        return false;
    }
    return newline(depth) && out_.put("}");
  }

  bool key(const Value& k) {
    switch (k.kind) {
      case Kind::kString:
        return text(k.text());
      case Kind::kNone:
      case Kind::kBool:
      case Kind::kInt:
      case Kind::kFloat:
        return out_.put("\"") && value(k, 0) && out_.put("\"");
      default:
        return m_.fail("keys must be str, int, float, bool or None, not ", type_name(k));
    }
  }

  bool hex(uint32_t c, uint8_t mark) {
    if (!out_.put_char('\\', mark) || !out_.put_char('u', mark)) return false;
    for (int shift = 12; shift >= 0; shift -= 4)
      if (!out_.put_char("0123456789abcdef"[c >> shift & 15], mark)) return false;
    return true;
  }

  bool special(uint32_t c, uint8_t mark) {
    const char short_form = c == '"'    ? '"'
                            : c == '\\' ? '\\'
                            : c == '\n' ? 'n'
                            : c == '\r' ? 'r'
                            : c == '\t' ? 't'
                            : c == '\f' ? 'f'
                            : c == '\b' ? 'b'
                                        : 0;
    if (short_form) return out_.put_char('\\', mark) && out_.put_char(short_form, mark);
    if (c < 0x10000) return hex(c, mark);
    return hex(0xD800 + ((c - 0x10000) >> 10), mark) && hex(0xDC00 + ((c - 0x10000) & 0x3FF), mark);
  }

  bool text(Text t) {
    if (!out_.put("\"")) return false;
    size_t from = 0, bytes = 0;
    for (size_t i = 0; i < t.len; i += bytes) {
      const uint8_t c = static_cast<uint8_t>(t.ptr[i]);
      bytes = 1;
      if (c >= 0x20 && c != '"' && c != '\\' && (c < 0x7F || !ascii_)) continue;
      const uint32_t code = code_at(t.ptr + i, t.len - i, &bytes);
      if (!out_.put(t.sub(from, i)) || !special(code, t.mark(i))) return false;
      from = i + bytes;
    }
    return out_.put(t.sub(from, t.len)) && out_.put("\"");
  }

  Machine& m_;
  Build& out_;
  bool ascii_ = false, sort_ = false, indents_ = false;
  Text indent_, comma_{Str(", ")}, colon_{Str(": ")};
};

}  // namespace

bool read_json(Machine& m, Str text, Marking marking, Value* out) {
  return Reader(m, text, marking).run(out);
}

bool write_json(Machine& m, const Value& v, const Value& ensure_ascii, const Value& indent,
                const Value& separators, const Value& sort_keys, Build& out) {
  Dumper d(m, out);
  return d.options(ensure_ascii, indent, separators, sort_keys) && d.value(v, 0);
}

}  // namespace jinja
}  // namespace gcrt
