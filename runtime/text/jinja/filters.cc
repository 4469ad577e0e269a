// Filters of single values; those of sequences are in sequence_filters.cc.
#include <math.h>

#include "runtime/text/jinja/machine.h"
#include "runtime/text/jinja/number.h"

namespace gcrt {
namespace jinja {
namespace {

bool absent(const Value& v) { return v.kind == Kind::kUndefined && !v.hint; }

Str trim_ascii(Str s) {
  const Text t = strip(Text(s), nullptr, true, true);
  return t.str();
}

bool parse_int(Str s, int64_t base, int64_t* out) {
  s = trim_ascii(s);
  size_t at = 0;
  const bool negative = !s.empty() && s[0] == '-';
  if (!s.empty() && (s[0] == '-' || s[0] == '+')) ++at;
  if (s.size() > at + 1 && s[at] == '0' && (base == 0 || base == 16 || base == 8 || base == 2)) {
    const char k = static_cast<char>(s[at + 1] | 32);
    const int64_t says = k == 'x' ? 16 : k == 'o' ? 8 : k == 'b' ? 2 : 0;
    if (says && (base == 0 || base == says)) at += 2, base = says;
  }
  if (base == 0) base = 10;
  if (base < 2 || base > 36 || at == s.size()) return false;
  int64_t v = 0;
  bool digit_before = false;
  for (; at < s.size(); ++at) {
    if (s[at] == '_' && digit_before) {
      digit_before = false;
      continue;
    }
    const char l = static_cast<char>(s[at] | 32);
    const int64_t d = s[at] >= '0' && s[at] <= '9' ? s[at] - '0' : l >= 'a' && l <= 'z' ? l - 'a' + 10 : 99;
    if (d >= base) return false;
    if (__builtin_mul_overflow(v, base, &v) || __builtin_add_overflow(v, d, &v)) return false;
    digit_before = true;
  }
  *out = negative ? -v : v;
  return digit_before;
}

bool float_of_text(Str s, double* out) {
  s = trim_ascii(s);
  const bool sign = !s.empty() && (s[0] == '-' || s[0] == '+');
  const Str word = s.sub(sign);
  if (word == "inf" || word == "Infinity" || word == "infinity")
    *out = s[0] == '-' ? -HUGE_VAL : HUGE_VAL;
  else if (word == "nan")
    *out = nan("");
  else
    return parse_float(s, out);
  return true;
}

bool to_int(Machine& m, const Value& v, const Value* a, Value* out) {
  const Value fallback = absent(a[0]) ? integer(0) : a[0];
  int64_t base = 10, i = 0;
  double f = 0;
  if (!absent(a[1]) && !to_index(m, a[1], &base)) return false;
  *out = fallback;
  if (v.kind == Kind::kUndefined) return fail_undefined(m, v);
  if (v.kind == Kind::kString) {
    if (!m.spend(v.n)) return false;
    if (parse_int(v.str(), base, &i))
      *out = integer(i);
    else if (float_of_text(v.str(), &f) && fabs(f) < 9.2e18)
      *out = integer(static_cast<int64_t>(f));
  } else if (v.kind == Kind::kFloat) {
    if (fabs(v.f) < 9.2e18) *out = integer(static_cast<int64_t>(v.f));
  } else if (v.is_number()) {
    *out = integer(v.kind == Kind::kInt ? v.i : v.b);
  }
  return true;
}

bool to_float(Machine& m, const Value& v, const Value* a, Value* out) {
  *out = absent(a[0]) ? real(0) : a[0];
  double f = 0;
  if (v.kind == Kind::kUndefined) return fail_undefined(m, v);
  if (v.kind == Kind::kString) {
    if (!m.spend(v.n)) return false;
    if (float_of_text(v.str(), &f)) *out = real(f);
  } else if (v.is_number()) {
    *out = real(to_double(v));
  }
  return true;
}

bool round_value(Machine& m, const Value& v, const Value* a, Value* out) {
  int64_t precision = 0;
  if (!absent(a[0]) && !to_index(m, a[0], &precision)) return false;
  const Str method = absent(a[1]) ? Str("common") : a[1].kind == Kind::kString ? a[1].str() : Str();
  if (method != "common" && method != "ceil" && method != "floor")
    return m.fail("method must be common, ceil or floor");
  if (v.kind == Kind::kUndefined) return fail_undefined(m, v);
  if (!v.is_number()) return m.fail("type ", type_name(v), " doesn't define __round__ method");
  if (precision > 60 || precision < -60) return m.fail("round: the precision is too large");
  const double x = to_double(v), scale = pow(10, static_cast<double>(precision));
  if (method != "common") {
    *out = real((method == "ceil" ? ceil(x * scale) : floor(x * scale)) / scale);
    return true;
  }
  if (v.kind != Kind::kFloat && precision >= 0) {
    *out = integer(v.kind == Kind::kInt ? v.i : v.b);
    return true;
  }
  if (precision < 0 || !isfinite(x) || fabs(x) >= 1e15) {
    const double r = precision < 0 ? rint(x * scale) / scale : x;
    *out = v.kind == Kind::kFloat ? real(r) : integer(static_cast<int64_t>(r));
    return true;
  }
  // By decimal digits, as Python: 2.675 is a little less and goes down.
  char digits[400];
  double r = 0;
  parse_float({digits, float_fixed(x, static_cast<int>(precision), digits)}, &r);
  *out = real(r);
  return true;
}

bool indent(Machine& m, const Value& v, const Value* a, Build& out) {
  Text t, by;
  Build spaces(m);
  if (!to_text(m, v, &t)) return false;
  if (a[0].kind == Kind::kString) {
    by = a[0].text();
  } else {
    int64_t width = 4;
    if (!absent(a[0]) && !to_index(m, a[0], &width)) return false;
    if (!spaces.put_repeated(Str(" "), width > 0 ? static_cast<uint64_t>(width) : 0)) return false;
    by = spaces.take().text();
  }
  const bool first = truth(a[1]), blank = truth(a[2]);
  Build ended(m);
  Value lines;
  if (!ended.put(t) || !ended.put("\n") ||
      !call_str_method(m, MethodId::kSplitlines, ended.take(), {}, &lines))
    return false;
  if (first && !out.put(by)) return false;
  for (uint32_t i = 0; i < lines.n; ++i) {
    if (i && !out.put("\n")) return false;
    if (i && (blank || lines.items[i].n) && !out.put(by)) return false;
    if (!out.put(lines.items[i].text())) return false;
  }
  return true;
}

// Words begin after white space and after - ( { [ <.
bool title(Machine& m, Text t, Build& out) {
  size_t from = 0, bytes = 0;
  while (from < t.len) {
    code_at(t.ptr + from, t.len - from, &bytes);
    const size_t rest = from + bytes;
    bool ends = false;
    size_t end = from;
    while (end < t.len && !ends) {
      const uint32_t c = code_at(t.ptr + end, t.len - end, &bytes);
      ends = is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
      end += bytes;
    }
    if (!change_case(m, MethodId::kUpper, t.sub(from, rest), out)) return false;
    if (rest < end && !change_case(m, MethodId::kLower, t.sub(rest, end), out)) return false;
    from = end;
  }
  return true;
}

bool truncate(Machine& m, const Value& v, const Value* a, Build& out) {
  int64_t length = 255, leeway = 5, n = 0;
  Text t, end{Str("...")};
  if (!to_text(m, v, &t)) return false;
  if (!absent(a[0]) && !to_index(m, a[0], &length)) return false;
  if (!absent(a[3]) && a[3].kind != Kind::kNone && !to_index(m, a[3], &leeway)) return false;
  if (!absent(a[2]) && !to_text(m, a[2], &end)) return false;
  const int64_t end_chars = static_cast<int64_t>(count_chars(end.str()));
  n = static_cast<int64_t>(count_chars(t.str()));
  if (length < end_chars) return m.fail("expected length >= ", end_chars, ", got ", length);
  if (n <= length + leeway) return out.put(t);
  Text cut = t.sub(0, char_offset(t.str(), static_cast<size_t>(length - end_chars)));
  if (!truth(a[1])) {
    size_t space = cut.len;
    while (space && cut.ptr[space - 1] != ' ') --space;
    if (space) cut = cut.sub(0, space - 1);
  }
  return out.put(cut) && out.put(end);
}

bool word_count(Machine& m, Text t, Value* out) {
  int64_t count = 0;
  bool in_word = false;
  for (size_t i = 0, bytes = 0; i < t.len; i += bytes) {
    const uint32_t c = code_at(t.ptr + i, t.len - i, &bytes);
    const bool word = c == '_' || c >= 0x80 || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
    count += word && !in_word;
    in_word = word;
  }
  *out = integer(count);
  return m.spend(t.len / 8);
}

bool center(Machine& m, Text t, const Value* a, Value* out) {
  const Value width = absent(a[0]) ? integer(80) : a[0];
  return call_str_method(m, MethodId::kCenter, string(t), {{&width, 1}, {}}, out);
}

bool replace(Machine& m, const Value& v, const Value* a, Build& out) {
  Text t, from, to;
  int64_t count = -1;
  if (!to_text(m, v, &t) || !to_text(m, a[0], &from) || !to_text(m, a[1], &to)) return false;
  if (!absent(a[2]) && a[2].kind != Kind::kNone && !to_index(m, a[2], &count)) return false;
  return replace_text(m, t, from, to, count, out);
}

// Filters that give a text; their result stays safe when the value was.
bool make_text(Machine& m, FilterId id, const Value& v, const Value* a, Build& out) {
  Text t;
  switch (id) {
    case FilterId::kReplace:
      return replace(m, v, a, out);
    case FilterId::kIndent:
      return indent(m, v, a, out);
    case FilterId::kTruncate:
      return truncate(m, v, a, out);
    case FilterId::kTojson:
      return write_json(m, v, a[0], a[1], a[2], a[3], out);
    default:
      break;
  }
  if (!to_text(m, v, &t)) return false;
  if (id == FilterId::kTitle) return title(m, t, out);
  if (id == FilterId::kE || id == FilterId::kEscape || id == FilterId::kForceescape)
    return put_escaped(out, t);
  return change_case(m,
                     id == FilterId::kUpper   ? MethodId::kUpper
                     : id == FilterId::kLower ? MethodId::kLower
                                              : MethodId::kCapitalize,
                     t, out);
}

bool absolute(Machine& m, const Value& v, Value* out) {
  if (v.kind == Kind::kUndefined) return fail_undefined(m, v);
  if (!v.is_number()) return m.fail("bad operand type for abs(): '", type_name(v), "'");
  if (v.kind == Kind::kFloat) {
    *out = real(fabs(v.f));
    return true;
  }
  if (v.kind == Kind::kInt && v.i < 0) return negate(m, Op::kNeg, v, out);
  *out = integer(v.kind == Kind::kInt ? v.i : v.b);
  return true;
}

bool format_filter(Machine& m, const Value& v, const Args& args, Value* out) {
  Text t;
  Build b(m);
  DictBuild named(m);
  if (!args.positional.empty() && !args.named.empty())
    return m.fail("can't handle positional and keyword arguments at the same time");
  for (const NamedArg& a : args.named)
    if (!named.put(string(a.name), a.value)) return false;
  const Value values = args.named.empty()
                           ? sequence(Kind::kTuple, args.positional.data(), args.positional.size())
                           : named.take();
  if (!to_text(m, v, &t) || !format_percent(m, t, values, b)) return false;
  *out = b.take();
  return true;
}

}  // namespace

bool apply_filter(Machine& m, FilterId id, const Value& v, const Args& args, Value* out) {
  Value a[5];
  const Str parameters = filter_parameters(id);
  if (parameters != "*" && !bind(m, filter_name(id), parameters, args, a)) return false;
  Text t;
  switch (id) {
    case FilterId::kDefault:
    case FilterId::kD:
      *out =
          v.kind == Kind::kUndefined || (truth(a[1]) && !truth(v)) ? (absent(a[0]) ? literal("") : a[0]) : v;
      return true;
    case FilterId::kAbs:
      return absolute(m, v, out);
    case FilterId::kInt:
      return to_int(m, v, a, out);
    case FilterId::kFloat:
      return to_float(m, v, a, out);
    case FilterId::kRound:
      return round_value(m, v, a, out);
    case FilterId::kFormat:
      return format_filter(m, v, args, out);
    case FilterId::kString:
    case FilterId::kSafe:
      if (!to_text(m, v, &t)) return false;
      *out = string(t);
      out->sub = id == FilterId::kSafe || (v.kind == Kind::kString && v.sub);
      return true;
    case FilterId::kTrim: {
      const bool all = absent(a[0]) || a[0].kind == Kind::kNone;
      if (!all && a[0].kind != Kind::kString) return m.fail("strip arg must be None or str");
      if (!to_text(m, v, &t) || !m.spend(all ? 0 : t.len / 16 * (a[0].n / 16))) return false;
      *out = string(strip(t, all ? nullptr : a, true, true));
      out->sub = v.kind == Kind::kString ? v.sub : 0;
      return true;
    }
    case FilterId::kCenter:
      return to_text(m, v, &t) && center(m, t, a, out);
    case FilterId::kWordcount:
      return to_text(m, v, &t) && word_count(m, t, out);
    case FilterId::kFromJson:
      if (v.kind != Kind::kString) return m.fail("the JSON object must be str, not ", type_name(v));
      return read_json(m, v.str(), v.marks ? Marking::kAll : Marking::kNone, out);
    case FilterId::kE:
    case FilterId::kEscape:
      if (v.kind == Kind::kString && v.sub) {
        *out = v;
        return true;
      }
      break;
    case FilterId::kForceescape:
    case FilterId::kReplace:
    case FilterId::kIndent:
    case FilterId::kTruncate:
    case FilterId::kTojson:
    case FilterId::kTitle:
    case FilterId::kUpper:
    case FilterId::kLower:
    case FilterId::kCapitalize:
      break;
    default:
      return apply_sequence_filter(m, id, v, args, out);
  }
  Build text(m);
  if (!make_text(m, id, v, a, text)) return false;
  *out = text.take();
  const bool keeps = id != FilterId::kTojson && id != FilterId::kReplace && id != FilterId::kTruncate;
  out->sub = (keeps && v.kind == Kind::kString && v.sub) || id == FilterId::kE || id == FilterId::kEscape ||
             id == FilterId::kForceescape;
  return true;
}

}  // namespace jinja
}  // namespace gcrt
