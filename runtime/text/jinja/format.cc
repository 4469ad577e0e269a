// '%05.2f' % x and '{:>8}'.format(x), as Python has them.
#include <math.h>

#include "runtime/text/jinja/machine.h"
#include "runtime/text/jinja/number.h"

namespace gcrt {
namespace jinja {
namespace {

constexpr int kMaxWidth = 100000;
constexpr int kMaxPrecision = 60;

struct Spec {
  Text fill{Str(" ")};
  char align = 0;  // < > ^ =, 0: what the type has
  char sign = '-';
  char group = 0;  // , or _
  char type = 0;
  bool alternate = false;
  int width = 0, precision = -1;
};

struct Digits {
  char text[512];
  size_t n = 0;
  void put(char c) {
    if (n < sizeof text) text[n++] = c;
  }
  void put(const char* p, size_t len) {
    for (size_t i = 0; i < len; ++i) put(p[i]);
  }
};

bool put_padded(Build& out, const Spec& spec, Text sign, Text body, char align) {
  const size_t n = sign.len + count_chars(body.str());
  const uint64_t total =
      spec.width > 0 && static_cast<size_t>(spec.width) > n ? static_cast<size_t>(spec.width) - n : 0;
  if (spec.align) align = spec.align;
  if (align == '=') return out.put(sign) && out.put_repeated(spec.fill, total) && out.put(body);
  const uint64_t left = align == '>' ? total : align == '^' ? total / 2 : 0;
  return out.put_repeated(spec.fill, left) && out.put(sign) && out.put(body) &&
         out.put_repeated(spec.fill, total - left);
}

// Thousands apart, in the digits before a point.
void group_digits(const Digits& in, char mark, Digits* out) {
  size_t whole = 0;
  while (whole < in.n && in.text[whole] >= '0' && in.text[whole] <= '9') ++whole;
  for (size_t i = 0; i < in.n; ++i) {
    if (mark && i && i < whole && (whole - i) % 3 == 0) out->put(mark);
    out->put(in.text[i]);
  }
}

void put_unsigned(Digits& d, uint64_t v, unsigned base, bool upper) {
  char reversed[64];
  size_t n = 0;
  do reversed[n++] = (upper ? "0123456789ABCDEF" : "0123456789abcdef")[v % base];
  while (v /= base);
  while (n) d.put(reversed[--n]);
}

void put_exponent(Digits& d, int e, bool upper) {
  d.put(upper ? 'E' : 'e');
  d.put(e < 0 ? '-' : '+');
  if (e < 0) e = -e;
  if (e < 10) d.put('0');
  put_unsigned(d, static_cast<uint64_t>(e), 10, false);
}

// v >= 0 and finite, as d.ddde+xx.
void put_scientific(Digits& d, double v, int precision, bool upper) {
  char digits[kMaxPrecision + 1];
  int point = 0;
  float_digits(v, precision + 1, digits, &point);
  d.put(digits[0]);
  if (precision) d.put('.');
  d.put(digits + 1, static_cast<size_t>(precision));
  put_exponent(d, v == 0 ? 0 : point - 1, upper);
}

// %g: `precision` significant digits, the shorter form, no zeros at the end.
void put_general(Digits& d, double v, int precision, bool upper, bool keep_zeros) {
  if (precision == 0) precision = 1;
  char digits[kMaxPrecision + 1];
  int point = 1, n = precision;
  float_digits(v, precision, digits, &point);
  while (!keep_zeros && n > 1 && digits[n - 1] == '0') --n;
  const int e = point - 1;
  if (e < -4 || e >= precision) {
    d.put(digits[0]);
    if (n > 1) d.put('.');
    d.put(digits + 1, static_cast<size_t>(n - 1));
    put_exponent(d, e, upper);
    return;
  }
  if (point <= 0) d.put('0');
  for (int i = 0; i < point; ++i) d.put(i < n ? digits[i] : '0');
  if (n > point) d.put('.');
  for (int i = point; i < 0 && i < n; ++i) d.put('0');
  for (int i = point > 0 ? point : 0; i < n; ++i) d.put(digits[i]);
}

bool put_float(Machine& m, Build& out, double v, const Spec& spec) {
  Digits d;
  const bool negative = signbit(v);
  const bool upper = spec.type == 'E' || spec.type == 'F' || spec.type == 'G';
  int precision = spec.precision < 0 ? 6 : spec.precision;
  if (precision > kMaxPrecision) return m.fail("a precision above ", kMaxPrecision, " is not supported");
  double a = fabs(v);
  if (spec.type == '%') a *= 100;
  if (!isfinite(a)) {
    const char* word = isnan(a) ? (upper ? "NAN" : "nan") : upper ? "INF" : "inf";
    d.put(word, 3);
  } else if (spec.type == 'e' || spec.type == 'E') {
    put_scientific(d, a, precision, upper);
  } else if (spec.type == 'f' || spec.type == 'F' || spec.type == '%') {
    if (a >= 1e300) return m.fail("the number is too large for a fixed point");
    char fixed[400];
    d.put(fixed, float_fixed(a, precision, fixed));
    if (spec.type == '%') d.put('%');
  } else if (spec.type == 'g' || spec.type == 'G' || spec.type == 'n') {
    put_general(d, a, precision, upper, spec.alternate);
  } else if (spec.precision >= 0) {  // no type: as g, but never without a point
    const size_t before = d.n;
    put_general(d, a, precision, false, false);
    bool point = false;
    for (size_t i = before; i < d.n; ++i) point |= d.text[i] == '.' || d.text[i] == 'e';
    if (!point) d.put(".0", 2);
  } else {
    char text[40];
    d.put(text, float_repr(a, text));
  }
  Digits grouped;
  group_digits(d, spec.group, &grouped);
  const char* sign = negative ? "-" : spec.sign == '+' ? "+" : spec.sign == ' ' ? " " : "";
  return put_padded(out, spec, Str(sign), Str(grouped.text, grouped.n), '>');
}

bool put_integer(Machine& m, Build& out, int64_t v, const Spec& spec) {
  if (spec.type == 'c') {
    if (v < 0 || v > 0x10FFFF) return m.fail("%c arg not in range(0x110000)");
    Build one(m);
    if (!one.put_code(static_cast<uint32_t>(v))) return false;
    return put_padded(out, spec, Str(""), one.text(), '<');
  }
  const unsigned base = spec.type == 'x' || spec.type == 'X' ? 16
                        : spec.type == 'o'                   ? 8
                        : spec.type == 'b'                   ? 2
                                                             : 10;
  Digits d, grouped;
  put_unsigned(d, v < 0 ? 0 - static_cast<uint64_t>(v) : static_cast<uint64_t>(v), base, spec.type == 'X');
  // printf's precision: that many digits at least.
  Digits wide;
  for (int i = static_cast<int>(d.n); i < spec.precision && i < kMaxPrecision; ++i) wide.put('0');
  wide.put(d.text, d.n);
  group_digits(wide, spec.group, &grouped);
  char sign[4];
  size_t n = 0;
  if (v < 0 || spec.sign != '-') sign[n++] = v < 0 ? '-' : spec.sign;
  if (spec.alternate && base != 10) sign[n++] = '0', sign[n++] = spec.type;
  return put_padded(out, spec, Str(sign, n), Str(grouped.text, grouped.n), '>');
}

bool put_cut_text(Build& out, Text t, const Spec& spec) {
  if (spec.precision >= 0) t = t.sub(0, char_offset(t.str(), static_cast<size_t>(spec.precision)));
  return put_padded(out, spec, Str(""), t, '<');
}

bool is_float_type(char c) { return c == 'e' || c == 'E' || c == 'f' || c == 'F' || c == 'g' || c == 'G'; }
bool is_int_type(char c) { return c == 'd' || c == 'i' || c == 'u' || c == 'x' || c == 'X' || c == 'o'; }

bool read_number(Str s, size_t* at, int* out) {
  const size_t from = *at;
  int v = 0;
  for (; *at < s.size() && s[*at] >= '0' && s[*at] <= '9'; ++*at)
    v = min_of(v * 10 + (s[*at] - '0'), kMaxWidth + 1);
  if (*at != from) *out = v;
  return v <= kMaxWidth;
}

// ---- % ----

class Percent {
 public:
  Percent(Machine& m, Text format, const Value& args, Build& out)
      : m_(m), f_(format), args_(args), out_(out) {
    if (args.kind == Kind::kTuple)
      items_ = args.list();
    else
      items_ = {&args, 1};
  }

  bool run() {
    const Str s = f_.str();
    size_t from = 0;
    for (at_ = 0; at_ < s.size();) {
      if (s[at_] != '%') {
        ++at_;
        continue;
      }
      if (!out_.put(f_.sub(from, at_))) return false;
      ++at_;
      if (!m_.spend(1) || !one()) return false;
      from = at_;
    }
    if (!named_ && next_ < items_.size() && args_.kind != Kind::kDict)
      return m_.fail("not all arguments converted during string formatting");
    return out_.put(f_.sub(from, f_.len));
  }

 private:
  bool next(Value* v) {
    if (next_ >= items_.size()) return m_.fail("not enough arguments for format string");
    *v = items_[next_++];
    return true;
  }
  bool width(int* out, bool* negative) {
    if (at_ < f_.len && f_.ptr[at_] == '*') {
      ++at_;
      Value v;
      int64_t w = 0;
      if (!next(&v)) return false;
      if (v.kind != Kind::kInt) return m_.fail("* wants int");
      w = v.i;
      if (w < -kMaxWidth || w > kMaxWidth) return m_.fail("width too large");
      *negative = w < 0;
      *out = static_cast<int>(w < 0 ? -w : w);
      return true;
    }
    return read_number(f_.str(), &at_, out) || m_.fail("width too large");
  }

  bool one() {
    const Str s = f_.str();
    Value v;
    bool has_value = false, left = false, zero = false;
    if (at_ < s.size() && s[at_] == '(') {
      size_t end = at_ + 1;
      while (end < s.size() && s[end] != ')') ++end;
      if (end == s.size()) return m_.fail("incomplete format key");
      if (args_.kind != Kind::kDict) return m_.fail("format requires a mapping");
      const Value* found = nullptr;
      const Value key = string(f_.sub(at_ + 1, end));
      if (!find_key(m_, args_, key, &found)) return false;
      if (!found) return m_.fail("'", key.str(), "'");
      v = *found, has_value = named_ = true;
      at_ = end + 1;
    }
    Spec spec;
    for (; at_ < s.size(); ++at_) {
      if (s[at_] == '-')
        left = true;
      else if (s[at_] == '+')
        spec.sign = '+';
      else if (s[at_] == ' ')
        spec.sign = spec.sign == '+' ? '+' : ' ';
      else if (s[at_] == '#')
        spec.alternate = true;
      else if (s[at_] == '0')
        zero = true;
      else
        break;
    }
    bool negative = false;
    if (!width(&spec.width, &negative)) return false;
    left |= negative;
    if (at_ < s.size() && s[at_] == '.') {
      ++at_;
      spec.precision = 0;
      if (!width(&spec.precision, &negative)) return false;
    }
    while (at_ < s.size() && (s[at_] == 'l' || s[at_] == 'h' || s[at_] == 'L')) ++at_;
    if (at_ >= s.size()) return m_.fail("incomplete format");
    const char type = spec.type = s[at_++];
    if (type == '%') return out_.put("%");
    if (!has_value && !next(&v)) return false;
    if (left)
      spec.align = '<';
    else if (zero && type != 's' && type != 'r' && type != 'a')
      spec.align = '=', spec.fill = Str("0");
    else
      spec.align = '>';
    return convert(v, spec, type);
  }

  bool convert(const Value& v, const Spec& spec, char type) {
    if (type == 's' || type == 'r' || type == 'a') {
      Build text(m_);
      if (!(type == 's' ? put_text(m_, text, v) : put_repr(m_, text, v))) return false;
      return put_cut_text(out_, text.text(), spec);
    }
    if (v.kind == Kind::kUndefined) return fail_undefined(m_, v);
    if (type == 'c') {
      if (v.kind == Kind::kString && count_chars(v.str()) == 1)
        return put_padded(out_, spec, Str(""), v.text(), '>');
      if (v.kind == Kind::kInt) return put_integer(m_, out_, v.i, spec);
      return m_.fail("%c requires int or char");
    }
    if (is_int_type(type)) {
      const bool takes_float = type == 'd' || type == 'i' || type == 'u';
      if (v.kind == Kind::kFloat && takes_float && fabs(v.f) < 9e18)
        return put_integer(m_, out_, static_cast<int64_t>(v.f), spec);
      if (v.kind != Kind::kInt && v.kind != Kind::kBool)
        return m_.fail("%", type, " format: a", takes_float ? " real number" : "n integer",
                       " is required, not ", type_name(v));
      return put_integer(m_, out_, v.kind == Kind::kInt ? v.i : v.b, spec);
    }
    if (is_float_type(type)) {
      if (!v.is_number()) return m_.fail("must be real number, not ", type_name(v));
      return put_float(m_, out_, to_double(v), spec);
    }
    return m_.fail("unsupported format character '", type, "'");
  }

  Machine& m_;
  Text f_;
  const Value& args_;
  Build& out_;
  Span<const Value> items_;
  size_t next_ = 0, at_ = 0;
  bool named_ = false;
};

// ---- {} ----

class Braces {
 public:
  Braces(Machine& m, const Args& args) : m_(m), args_(args) {}

  bool run(Text f, Build& out, int depth) {
    const Str s = f.str();
    size_t from = 0, at = 0;
    while (at < s.size()) {
      if (s[at] != '{' && s[at] != '}') {
        ++at;
        continue;
      }
      if (!out.put(f.sub(from, at)) || !m_.spend(1)) return false;
      if (at + 1 < s.size() && s[at + 1] == s[at]) {
        if (!out.put(f.sub(at, at + 1))) return false;
        from = at += 2;
        continue;
      }
      if (s[at] == '}') return m_.fail("Single '}' encountered in format string");
      size_t end = at + 1;
      int open = 1;
      for (; end < s.size() && open; ++end) open += s[end] == '{' ? 1 : s[end] == '}' ? -1 : 0;
      if (open) return m_.fail("expected '}' before end of string");
      if (!field(f.sub(at + 1, end - 1), out, depth)) return false;
      from = at = end;
    }
    return out.put(f.sub(from, f.len));
  }

 private:
  bool field(Text f, Build& out, int depth) {
    const Str s = f.str();
    size_t name_end = 0, bracket = 0;
    for (; name_end < s.size(); ++name_end) {
      const char c = s[name_end];
      if (c == '[') bracket = 1;
      if (c == ']') bracket = 0;
      if (!bracket && (c == ':' || c == '!')) break;
    }
    Value v;
    if (!find(f.sub(0, name_end), &v)) return false;
    size_t at = name_end;
    char conversion = 0;
    if (at < s.size() && s[at] == '!') {
      if (at + 1 >= s.size()) return m_.fail("unmatched '{' in format spec");
      conversion = s[at + 1];
      at += 2;
      if (conversion != 's' && conversion != 'r' && conversion != 'a')
        return m_.fail("Unknown conversion specifier ", conversion);
    }
    Text spec;
    Build inner(m_);
    if (at < s.size()) {
      if (s[at] != ':') return m_.fail("expected ':' after conversion specifier");
      if (depth > 0) return m_.fail("Max string recursion exceeded");
      if (!run(f.sub(at + 1, f.len), inner, depth + 1)) return false;
      spec = inner.text();
    }
    if (conversion) {
      Build text(m_);
      if (!(conversion == 's' ? put_text(m_, text, v) : put_repr(m_, text, v))) return false;
      v = text.take();
    }
    return convert(v, spec, out);
  }

  bool find(Text name, Value* v) {
    const Str s = name.str();
    size_t at = 0;
    while (at < s.size() && s[at] != '.' && s[at] != '[') ++at;
    if (!argument(s.sub(0, at), v)) return false;
    while (at < s.size()) {
      const bool dot = s[at] == '.';
      size_t end = at + 1;
      while (end < s.size() && (dot ? s[end] != '.' && s[end] != '[' : s[end] != ']')) ++end;
      const Value key = string(name.sub(at + 1, end));
      Value got;
      int index = -1;
      size_t digits = at + 1;
      if (!dot && read_number(s.sub(0, end), &digits, &index) && digits == end && index >= 0) {
        if (!get_item(m_, *v, integer(index), &got)) return false;
      } else if (!(dot ? get_attribute(m_, *v, key, &got) : get_item(m_, *v, key, &got))) {
        return false;
      }
      *v = got;
      at = dot ? end : end + 1;
    }
    return true;
  }

  bool argument(Str name, Value* v) {
    size_t at = 0;
    int index = -1;
    if (name.empty()) {
      index = automatic_++;
    } else if (!read_number(name, &at, &index) || at != name.size()) {
      for (const NamedArg& a : args_.named)
        if (a.name.str() == name) {
          *v = a.value;
          return true;
        }
      return m_.fail("'", name, "'");
    }
    if (index < 0 || static_cast<size_t>(index) >= args_.positional.size())
      return m_.fail("Replacement index ", index, " out of range for positional args tuple");
    *v = args_.positional[static_cast<size_t>(index)];
    return true;
  }

  bool parse(Text f, Spec* spec) {
    const Str s = f.str();
    size_t at = 0, bytes = 0;
    auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
    if (!s.empty()) code_at(s.data(), s.size(), &bytes);
    if (bytes && bytes < s.size() && is_align(s[bytes])) {
      spec->fill = f.sub(0, bytes), spec->align = s[bytes];
      at = bytes + 1;
    } else if (!s.empty() && is_align(s[0])) {
      spec->align = s[at++];
    }
    if (at < s.size() && (s[at] == '+' || s[at] == '-' || s[at] == ' ')) spec->sign = s[at++];
    if (at < s.size() && s[at] == '#') spec->alternate = true, ++at;
    if (at < s.size() && s[at] == '0') {
      if (!spec->align) spec->align = '=', spec->fill = Str("0");
      ++at;
    }
    if (!read_number(s, &at, &spec->width)) return m_.fail("width too large");
    if (at < s.size() && (s[at] == ',' || s[at] == '_')) spec->group = s[at++];
    if (at < s.size() && s[at] == '.') {
      ++at;
      if (!read_number(s, &at, &spec->precision)) return m_.fail("precision too large");
      if (spec->precision < 0) return m_.fail("Format specifier missing precision");
    }
    if (at < s.size()) spec->type = s[at++];
    return at == s.size() || m_.fail("Invalid format specifier '", s, "'");
  }

  bool convert(const Value& v, Text text, Build& out) {
    Spec spec;
    if (!parse(text, &spec)) return false;
    const char type = spec.type;
    if (v.kind == Kind::kUndefined && v.hint && type) return fail_undefined(m_, v);
    if (v.kind == Kind::kString || !v.is_number() || (v.kind == Kind::kBool && !type)) {
      if (v.kind != Kind::kString && v.kind != Kind::kBool && text.len)
        return m_.fail("unsupported format string passed to ", type_name(v), ".__format__");
      if (type && type != 's')
        return m_.fail("Unknown format code '", type, "' for object of type '", type_name(v), "'");
      if (spec.align == '=' && v.kind == Kind::kString && spec.fill.str() == "0") spec.align = '<';
      Text t;
      return to_text(m_, v, &t) && put_cut_text(out, t, spec);
    }
    if (is_float_type(type) || type == '%') return put_float(m_, out, to_double(v), spec);
    if (v.kind == Kind::kFloat) {
      if (type && type != 'n') return m_.fail("Unknown format code '", type, "' for object of type 'float'");
      return put_float(m_, out, v.f, spec);
    }
    if (type && !is_int_type(type) && type != 'b' && type != 'c' && type != 'n')
      return m_.fail("Unknown format code '", type, "' for object of type 'int'");
    if (spec.precision >= 0) return m_.fail("Precision not allowed in integer format specifier");
    return put_integer(m_, out, v.kind == Kind::kBool ? v.b : v.i, spec);
  }

  Machine& m_;
  const Args& args_;
  int automatic_ = 0;
};

}  // namespace

bool format_percent(Machine& m, Text format, const Value& args, Build& out) {
  return Percent(m, format, args, out).run();
}
bool format_braces(Machine& m, Text format, const Args& args, Build& out) {
  return Braces(m, args).run(format, out, 0);
}

}  // namespace jinja
}  // namespace gcrt
