// Methods of str.
#include "runtime/text/jinja/machine.h"

namespace gcrt {
namespace jinja {
namespace {

struct CaseRange {
  uint32_t first, last, step;
  int32_t delta;
};
struct WideUpper {
  uint32_t code;
  uint32_t to[3];
};
#include "runtime/text/jinja/unicode.inc"

enum CharFlag : uint32_t { kPrintable = 1, kAlpha = 2, kDigit = 4, kNumeric = 8 };
bool has_flag(uint32_t c, uint32_t flags) {
  size_t from = 0, to = sizeof kCharFlags / sizeof kCharFlags[0];
  while (to - from > 1) {
    const size_t mid = (from + to) / 2;
    if (kCharFlags[mid] >> 4 <= c)
      from = mid;
    else
      to = mid;
  }
  return kCharFlags[from] & flags;
}

template <size_t N>
uint32_t map_case(const CaseRange (&ranges)[N], uint32_t c) {
  size_t from = 0, to = N;
  while (from < to) {
    const size_t mid = (from + to) / 2;
    if (ranges[mid].last < c)
      from = mid + 1;
    else
      to = mid;
  }
  // Ranges of step 2 may interleave with the one before.
  for (size_t i = from; i < N && i < from + 2; ++i)
    if (c >= ranges[i].first && c <= ranges[i].last && (c - ranges[i].first) % ranges[i].step == 0)
      return c + static_cast<uint32_t>(ranges[i].delta);
  return c;
}
bool is_cased(uint32_t c) { return map_case(kToUpper, c) != c || map_case(kToLower, c) != c; }
bool is_lower_char(uint32_t c) {
  if (map_case(kToUpper, c) != c) return true;
  if (c < 0x80 || map_case(kToLower, c) != c) return false;
  for (const WideUpper& w : kWideUpper)
    if (w.code == c) return true;
  return false;
}

bool put_upper(Build& out, uint32_t c, uint8_t mark) {
  for (const WideUpper& w : kWideUpper) {
    if (w.code > c) break;
    if (w.code != c) continue;
    for (uint32_t u : w.to)
      if (u && !out.put_code(u, mark)) return false;
    return true;
  }
  return out.put_code(map_case(kToUpper, c), mark);
}

// A sigma at the end of a word has its own small letter.
bool put_lower(Build& out, uint32_t c, uint8_t mark, bool after_letter, bool before_letter) {
  if (c == 0x130) return out.put_code('i', mark) && out.put_code(0x307, mark);
  if (c == 0x3A3 && after_letter && !before_letter) return out.put_code(0x3C2, mark);
  return out.put_code(map_case(kToLower, c), mark);
}

// All characters fulfil the method's question, and there is one.
bool ask_all(MethodId id, Str s) {
  bool cased = false;
  for (size_t i = 0, bytes = 0; i < s.size(); i += bytes) {
    const uint32_t c = code_at(s.data() + i, s.size() - i, &bytes);
    const bool lower = is_lower_char(c), upper = !lower && map_case(kToLower, c) != c;
    cased |= lower || upper;
    bool ok = true;
    if (id == MethodId::kIsalnum)
      ok = has_flag(c, kAlpha | kNumeric);
    else if (id == MethodId::kIsalpha)
      ok = has_flag(c, kAlpha);
    else if (id == MethodId::kIsascii)
      ok = c < 0x80;
    else if (id == MethodId::kIsspace)
      ok = is_space(c);
    else if (id == MethodId::kIslower)
      ok = !upper;
    else if (id == MethodId::kIsupper)
      ok = !lower;
    else
      ok = has_flag(c, id == MethodId::kIsnumeric ? kNumeric : kDigit);
    if (!ok) return false;
  }
  if (id == MethodId::kIslower || id == MethodId::kIsupper) return cased;
  return id == MethodId::kIsascii || !s.empty();
}

// Length in bytes of a line's end at s[i]: \n, \r, \r\n and Python's others; 0 when there is none.
size_t line_end(Str s, size_t i) {
  if (s[i] == '\r') return i + 1 < s.size() && s[i + 1] == '\n' ? 2 : 1;
  size_t bytes = 0;
  const uint32_t c = code_at(s.data() + i, s.size() - i, &bytes);
  const bool ends = (c >= 10 && c <= 12) || (c >= 28 && c <= 30) || c == 0x85 || c == 0x2028 || c == 0x2029;
  return ends ? bytes : 0;
}

size_t find_from(Str s, Str what, size_t from) {
  if (from > s.size() || s.size() - from < what.size()) return SIZE_MAX;
  if (what.empty()) return from;
  const void* p = memmem(s.data() + from, s.size() - from, what.data(), what.size());
  return p ? static_cast<size_t>(static_cast<const char*>(p) - s.data()) : SIZE_MAX;
}
// The last occurrence that ends at or before `to`.
size_t find_last(Str s, Str what, size_t to) {
  if (to < what.size()) return SIZE_MAX;
  for (size_t i = to - what.size() + 1; i-- > 0;)
    if (what.empty() || memcmp(s.data() + i, what.data(), what.size()) == 0) return i;
  return SIZE_MAX;
}

bool absent(const Value& v) { return v.kind == Kind::kUndefined && !v.hint; }
bool none_or_absent(const Value& v) { return v.kind == Kind::kNone || absent(v); }

bool need_text(Machine& m, MethodId id, const Value& v) {
  if (v.kind == Kind::kString) return true;
  if (v.kind == Kind::kUndefined && v.hint) return fail_undefined(m, v);
  return m.fail(method_name(id), "() argument must be str, not ", type_name(v));
}

// s[start:end] in bytes, for methods that take those.
bool take_range(Machine& m, const Value& self, const Value& start, const Value& end, size_t* from,
                size_t* to) {
  *from = 0, *to = self.n;
  if (none_or_absent(start) && none_or_absent(end)) return true;
  int64_t n = 0, a = 0, b = 0;
  if (!length_of(m, self, &n)) return false;
  b = n;
  if (!none_or_absent(start) && !to_index(m, start, &a)) return false;
  if (!none_or_absent(end) && !to_index(m, end, &b)) return false;
  if (a < 0) a = max_of<int64_t>(a + n, 0);
  if (b < 0) b = max_of<int64_t>(b + n, 0);
  *from = char_offset(self.str(), static_cast<size_t>(a));
  *to = char_offset(self.str(), static_cast<size_t>(min_of(b, n)));
  if (a > n) *from = self.n + 1;  // beyond the end not even an empty text is found
  return true;
}

bool starts_or_ends(Machine& m, MethodId id, const Value& self, const Value* a, Value* out) {
  size_t from = 0, to = 0;
  if (!take_range(m, self, a[1], a[2], &from, &to)) return false;
  const Str s = from <= to ? self.str().sub(from, to - from) : Str();
  Span<const Value> options(a, 1);
  if (a[0].kind == Kind::kTuple) options = a[0].list();
  bool yes = false;
  for (const Value& option : options) {
    if (option.kind != Kind::kString) {
      if (option.kind == Kind::kUndefined && option.hint) return fail_undefined(m, option);
      return m.fail(method_name(id), " first arg must be str or a tuple of str, not ", type_name(option));
    }
    yes |=
        from <= to && (id == MethodId::kStartswith ? s.starts_with(option.str()) : s.ends_with(option.str()));
  }
  *out = boolean(yes);
  return true;
}

bool find_or_count(Machine& m, MethodId id, const Value& self, const Value* a, Value* out) {
  size_t from = 0, to = 0;
  if (!need_text(m, id, a[0]) || !take_range(m, self, a[1], a[2], &from, &to)) return false;
  const Str s = self.str().sub(0, to), what = a[0].str();
  const bool last = id == MethodId::kRfind || id == MethodId::kRindex;
  if (!m.spend(s.size() / 16 + (last ? s.size() * what.size() / 256 : 0))) return false;
  if (id == MethodId::kCount) {
    int64_t count = 0;
    if (what.empty())
      count = from > to ? 0 : static_cast<int64_t>(count_chars(s.sub(from))) + 1;
    else
      for (size_t at = find_from(s, what, from); at != SIZE_MAX; at = find_from(s, what, at + what.size()))
        ++count;
    *out = integer(count);
    return true;
  }
  size_t at = last ? find_last(s, what, to) : find_from(s, what, from);
  if (at != SIZE_MAX && at < from) at = SIZE_MAX;
  if (at == SIZE_MAX && (id == MethodId::kIndex || id == MethodId::kRindex))
    return m.fail("substring not found");
  *out = integer(at == SIZE_MAX ? -1 : static_cast<int64_t>(count_chars(self.str().sub(0, at))));
  return true;
}

bool split_spaces(Machine& m, Text t, int64_t max, bool from_right, ListBuild& list) {
  // From the right: collected in reverse.
  size_t from = 0, to = t.len;
  for (;;) {
    Text rest = strip(t.sub(from, to), nullptr, true, true);
    if (rest.len == 0) return true;
    if (max == 0) {
      // Only the side towards the cut is stripped.
      return list.push(string(from_right ? strip(t.sub(from, to), nullptr, false, true)
                                         : strip(t.sub(from, to), nullptr, true, false)));
    }
    if (!m.spend(1)) return false;
    size_t cut = 0, bytes = 0;
    if (!from_right) {
      while (cut < rest.len && !is_space(code_at(rest.ptr + cut, rest.len - cut, &bytes))) cut += bytes;
      if (!list.push(string(rest.sub(0, cut)))) return false;
      from = static_cast<size_t>(rest.ptr - t.ptr) + cut;
    } else {
      for (size_t i = 0; i < rest.len; i += bytes)
        if (is_space(code_at(rest.ptr + i, rest.len - i, &bytes))) cut = i + bytes;
      if (!list.push(string(rest.sub(cut, rest.len)))) return false;
      to = static_cast<size_t>(rest.ptr - t.ptr) + cut;
      if (!m.spend(rest.len / 16)) return false;
    }
    --max;
  }
}

bool split(Machine& m, MethodId id, const Value& self, const Value* a, Value* out) {
  const bool from_right = id == MethodId::kRsplit;
  int64_t max = -1;
  if (!none_or_absent(a[1]) && !to_index(m, a[1], &max)) return false;
  ListBuild list(m);
  Text t = self.text();
  if (!m.spend(t.len / 16)) return false;
  if (none_or_absent(a[0])) {
    if (!split_spaces(m, t, max, from_right, list)) return false;
  } else {
    if (!need_text(m, id, a[0])) return false;
    const Str sep = a[0].str();
    if (sep.empty()) return m.fail("empty separator");
    if (from_right && !m.spend(t.len * sep.size() / 256)) return false;
    size_t from = 0, to = t.len;
    for (; max != 0; --max) {
      const size_t at = from_right ? find_last(t.str().sub(0, to), sep, to) : find_from(t.str(), sep, from);
      if (at == SIZE_MAX) break;
      if (!list.push(string(from_right ? t.sub(at + sep.size(), to) : t.sub(from, at)))) return false;
      from_right ? to = at : from = at + sep.size();
    }
    if (!list.push(string(t.sub(from_right ? 0 : from, from_right ? to : t.len)))) return false;
  }
  if (from_right)
    for (size_t i = 0; 2 * i + 1 < list.size(); ++i)
      swap_values(list.items()[i], list.items()[list.size() - 1 - i]);
  for (size_t i = 0; i < list.size(); ++i) list.items()[i].sub = self.sub;
  *out = list.take(Kind::kList);
  return true;
}

bool partition(Machine& m, MethodId id, const Value& self, const Value* a, Value* out) {
  if (!need_text(m, id, a[0])) return false;
  if (a[0].n == 0) return m.fail("empty separator");
  const bool last = id == MethodId::kRpartition;
  const Text t = self.text();
  const size_t at = last ? find_last(t.str(), a[0].str(), t.len) : find_from(t.str(), a[0].str(), 0);
  Value* parts = m.make<Value>(3);
  if (!parts || !m.spend(t.len / 16 + (last ? t.len * a[0].n / 256 : 0))) return false;
  const Value empty = literal("");
  if (at == SIZE_MAX) {
    parts[0] = last ? empty : self, parts[1] = empty, parts[2] = last ? self : empty;
  } else {
    parts[0] = string(t.sub(0, at));
    parts[1] = string(t.sub(at, at + a[0].n));
    parts[2] = string(t.sub(at + a[0].n, t.len));
  }
  *out = sequence(Kind::kTuple, parts, 3);
  return true;
}

bool split_lines(Machine& m, const Value& self, bool keep, Value* out) {
  ListBuild list(m);
  const Text t = self.text();
  size_t from = 0;
  if (!m.spend(t.len / 16)) return false;
  for (size_t i = 0; i < t.len;) {
    const size_t end = line_end(t.str(), i);
    if (end) {
      if (!list.push(string(t.sub(from, keep ? i + end : i)))) return false;
      from = i + end;
    }
    i += max_of<size_t>(end, 1);
  }
  if (from < t.len && !list.push(string(t.sub(from, t.len)))) return false;
  *out = list.take(Kind::kList);
  return true;
}

bool pad(Machine& m, MethodId id, const Value& self, const Value* a, Build& out) {
  int64_t width = 0, n = 0;
  if (!to_index(m, a[0], &width) || !length_of(m, self, &n)) return false;
  Text fill{Str(" ")};
  if (!absent(a[1])) {
    if (a[1].kind != Kind::kString || count_chars(a[1].str()) != 1)
      return m.fail("The fill character must be exactly one character long");
    fill = a[1].text();
  }
  const uint64_t total = width > n ? static_cast<uint64_t>(width - n) : 0;
  uint64_t left = 0;
  // Python gives the odd space to the left when the width is odd.
  if (id == MethodId::kCenter) left = total / 2 + (total & static_cast<uint64_t>(width) & 1);
  if (id == MethodId::kRjust) left = total;
  return out.put_repeated(fill, left) && out.put(self.text()) && out.put_repeated(fill, total - left);
}

bool zero_fill(Machine& m, const Value& self, const Value* a, Build& out) {
  int64_t width = 0, n = 0;
  if (!to_index(m, a[0], &width) || !length_of(m, self, &n)) return false;
  const Text t = self.text();
  const size_t sign = t.len && (t.ptr[0] == '-' || t.ptr[0] == '+');
  return out.put(t.sub(0, sign)) &&
         out.put_repeated(Str("0"), width > n ? static_cast<uint64_t>(width - n) : 0) &&
         out.put(t.sub(sign, t.len));
}

bool join(Machine& m, const Value& self, const Value& parts, Build& out) {
  Span<const Value> items;
  if (parts.kind == Kind::kUndefined && parts.hint) return fail_undefined(m, parts);
  if (!parts.is(Kind::kIterator) && !parts.is(Kind::kView) && !parts.is(Kind::kDict) &&
      !parts.is(Kind::kString) && !parts.is_sequence())
    return m.fail("can only join an iterable");
  if (!iterate(m, parts, &items)) return false;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].kind != Kind::kString)
      return m.fail("sequence item ", i, ": expected str instance, ", type_name(items[i]), " found");
    if ((i && !out.put(self.text())) || !out.put(items[i].text())) return false;
  }
  return true;
}

// Methods that give a new text.
bool make_text(Machine& m, MethodId id, const Value& self, const Args& args, const Value* a, Build& out) {
  const Text t = self.text();
  int64_t count = -1;
  switch (id) {
    case MethodId::kCenter:
    case MethodId::kLjust:
    case MethodId::kRjust:
      return pad(m, id, self, a, out);
    case MethodId::kZfill:
      return zero_fill(m, self, a, out);
    case MethodId::kJoin:
      return join(m, self, a[0], out);
    case MethodId::kFormat:
      return format_braces(m, t, args, out);
    case MethodId::kReplace:
      if (!need_text(m, id, a[0]) || !need_text(m, id, a[1])) return false;
      if (!absent(a[2]) && !to_index(m, a[2], &count)) return false;
      return replace_text(m, t, a[0].text(), a[1].text(), count, out);
    default:
      return change_case(m, id, t, out);
  }
}

}  // namespace

bool is_printable(uint32_t c) { return has_flag(c, kPrintable); }

Text strip(Text t, const Value* chars, bool left, bool right) {
  auto drops = [chars](uint32_t c) {
    if (!chars) return is_space(c);
    for (size_t i = 0, bytes = 0; i < chars->n; i += bytes)
      if (code_at(chars->s + i, chars->n - i, &bytes) == c) return true;
    return false;
  };
  size_t from = 0, to = t.len, bytes = 0;
  while (left && from < to && drops(code_at(t.ptr + from, to - from, &bytes))) from += bytes;
  while (right && to > from) {
    size_t last = to - 1;
    while (last > from && to - last < 4 && (static_cast<uint8_t>(t.ptr[last]) & 0xC0) == 0x80) --last;
    const uint32_t c = code_at(t.ptr + last, to - last, &bytes);
    if (last + bytes != to || !drops(c)) break;
    to = last;
  }
  return t.sub(from, to);
}

bool replace_text(Machine& m, Text t, Text from, Text to, int64_t count, Build& out) {
  if (!m.spend(t.len / 16)) return false;
  size_t at = 0;
  if (from.len == 0) {
    // Between all characters and at both ends.
    for (size_t bytes = 0; at < t.len && count != 0; at += bytes, --count) {
      code_at(t.ptr + at, t.len - at, &bytes);
      if (!out.put(to) || !out.put(t.sub(at, at + bytes))) return false;
    }
    return (count == 0 || out.put(to)) && out.put(t.sub(at, t.len));
  }
  for (; count != 0; --count) {
    const size_t next = find_from(t.str(), from.str(), at);
    if (next == SIZE_MAX) break;
    if (!m.spend(1) || !out.put(t.sub(at, next)) || !out.put(to)) return false;
    at = next + from.len;
  }
  return out.put(t.sub(at, t.len));
}

bool change_case(Machine& m, MethodId id, Text t, Build& out) {
  bool after_letter = false;
  if (!m.spend(t.len / 8)) return false;
  for (size_t i = 0, bytes = 0; i < t.len; i += bytes) {
    const uint32_t c = code_at(t.ptr + i, t.len - i, &bytes);
    size_t next_bytes = 0;
    const bool before_letter = c == 0x3A3 && i + bytes < t.len &&
                               is_cased(code_at(t.ptr + i + bytes, t.len - i - bytes, &next_bytes));
    bool upper = id == MethodId::kUpper;
    if (id == MethodId::kCapitalize) upper = i == 0;
    if (id == MethodId::kTitle) upper = !after_letter;
    if (id == MethodId::kSwapcase) upper = is_lower_char(c);
    if (!(upper ? put_upper(out, c, t.mark(i)) : put_lower(out, c, t.mark(i), after_letter, before_letter)))
      return false;
    after_letter = is_cased(c);
  }
  return true;
}

bool put_escaped(Build& out, Text t) {
  for (size_t i = 0; i < t.len; ++i) {
    const char c = t.ptr[i];
    const char* as = c == '&'    ? "&amp;"
                     : c == '<'  ? "&lt;"
                     : c == '>'  ? "&gt;"
                     : c == '\'' ? "&#39;"
                     : c == '"'  ? "&#34;"
                                 : nullptr;
    if (!as ? !out.put(t.sub(i, i + 1)) : false) return false;
    for (; as && *as; ++as)
      if (!out.put_char(*as, t.mark(i))) return false;
  }
  return true;
}

bool call_str_method(Machine& m, MethodId id, const Value& self, const Args& args, Value* out) {
  Value a[4];
  const Str parameters = method_parameters(id);
  if (parameters != "*" && !bind(m, method_name(id), parameters, args, a)) return false;
  const Text t = self.text();
  switch (id) {
    case MethodId::kIsalnum:
    case MethodId::kIsalpha:
    case MethodId::kIsascii:
    case MethodId::kIsdigit:
    case MethodId::kIslower:
    case MethodId::kIsnumeric:
    case MethodId::kIsspace:
    case MethodId::kIsupper:
      *out = boolean(ask_all(id, t.str()));
      return m.spend(t.len / 16);
    case MethodId::kStartswith:
    case MethodId::kEndswith:
      return starts_or_ends(m, id, self, a, out);
    case MethodId::kCount:
    case MethodId::kFind:
    case MethodId::kIndex:
    case MethodId::kRfind:
    case MethodId::kRindex:
      return find_or_count(m, id, self, a, out);
    case MethodId::kSplit:
    case MethodId::kRsplit:
      return split(m, id, self, a, out);
    case MethodId::kPartition:
    case MethodId::kRpartition:
      return partition(m, id, self, a, out);
    case MethodId::kSplitlines:
      return split_lines(m, self, truth(a[0]), out);
    case MethodId::kStrip:
    case MethodId::kLstrip:
    case MethodId::kRstrip: {
      const bool all = none_or_absent(a[0]);
      if (!all && !need_text(m, id, a[0])) return false;
      if (!m.spend(all ? 0 : t.len / 16 * (a[0].n / 16))) return false;
      *out = string(strip(t, all ? nullptr : a, id != MethodId::kRstrip, id != MethodId::kLstrip));
      out->sub = self.sub;
      return true;
    }
    case MethodId::kRemoveprefix:
    case MethodId::kRemovesuffix: {
      if (!need_text(m, id, a[0])) return false;
      const bool prefix = id == MethodId::kRemoveprefix;
      const bool has = prefix ? t.str().starts_with(a[0].str()) : t.str().ends_with(a[0].str());
      const size_t n = has ? a[0].n : 0;
      *out = string(prefix ? t.sub(n, t.len) : t.sub(0, t.len - n));
      return true;
    }
    default:
      break;
  }
  Build text(m);
  if (!make_text(m, id, self, args, a, text)) return false;
  *out = text.take();
  out->sub = self.sub;
  return true;
}

}  // namespace jinja
}  // namespace gcrt
