// Conversions of values and the things that grow.
#include <math.h>

#include "runtime/text/frozen.h"
#include "runtime/text/jinja/machine.h"
#include "runtime/text/jinja/number.h"

namespace gcrt {
namespace jinja {
namespace {

constexpr size_t kMaxText = size_t{1} << 31;
constexpr size_t kIndexFrom = 16;

uint64_t hash_value(const Value& v) {
  if (v.kind == Kind::kString) return frozen::hash_bytes(v.s, v.n);
  if (v.is_number()) {
    const double d = to_double(v);
    return frozen::hash_bytes(reinterpret_cast<const char*>(&d), d == 0 ? 0 : sizeof d);
  }
  return static_cast<uint64_t>(v.kind);
}

}  // namespace

// ---- Build ----

bool Build::put(Text t) {
  if (t.len > kMaxText || n_ + t.len > kMaxText) return m_.fail_memory();
  if (!m_.spend(t.len / 16)) return false;
  if (n_ + t.len > capacity_ &&
      !m_.arena.grow_text(&text_, &marks_, n_, &capacity_, max_of<size_t>(n_ + t.len, 32)))
    return m_.fail_memory();
  if (t.len) {
    memcpy(text_ + n_, t.ptr, t.len);
    if (t.marks)
      memcpy(marks_ + n_, t.marks, t.len);
    else
      memset(marks_ + n_, 0, t.len);
  }
  n_ += t.len;
  return true;
}

bool Build::put_code(uint32_t c, uint8_t mark) {
  char bytes[4];
  size_t n = 0;
  if (c < 0x80) {
    bytes[n++] = static_cast<char>(c);
  } else if (c < 0x800) {
    bytes[n++] = static_cast<char>(0xC0 | c >> 6);
  } else if (c < 0x10000) {
    bytes[n++] = static_cast<char>(0xE0 | c >> 12);
    bytes[n++] = static_cast<char>(0x80 | (c >> 6 & 63));
  } else {
    bytes[n++] = static_cast<char>(0xF0 | c >> 18);
    bytes[n++] = static_cast<char>(0x80 | (c >> 12 & 63));
    bytes[n++] = static_cast<char>(0x80 | (c >> 6 & 63));
  }
  if (c >= 0x80) bytes[n++] = static_cast<char>(0x80 | (c & 63));
  const uint8_t marks[4] = {mark, mark, mark, mark};
  return put(Text(bytes, marks, n));
}

bool Build::put_repeated(Text t, uint64_t times) {
  if (t.len && times > kMaxText / t.len) return m_.fail_memory();
  for (uint64_t i = 0; t.len && i < times; ++i)
    if (!m_.spend(1) || !put(t)) return false;
  return true;
}

bool Build::put_int(int64_t v) {
  char digits[24];
  Writer w(digits);
  w.put_int(v);
  return put(Text(w.text()));
}

bool Build::start(Text t) {
  if (!t.marks || !m_.arena.last_text(t.ptr, t.len)) return put(t);
  // The arena's memory is writable; only values see it as const.
  text_ = const_cast<char*>(t.ptr);
  marks_ = const_cast<uint8_t*>(t.marks);
  n_ = capacity_ = t.len;
  return true;
}

Value Build::take() {
  m_.arena.trim_text(text_, n_, capacity_);
  capacity_ = n_;
  return string(text());
}

bool ListBuild::push(const Value& v) {
  if (n_ == capacity_) {
    const size_t more = max_of<size_t>(8, 2 * capacity_);
    Value* fresh = m_.make<Value>(more);
    if (!fresh) return false;
    if (n_) memcpy(static_cast<void*>(fresh), items_, n_ * sizeof(Value));
    items_ = fresh, capacity_ = more;
  }
  items_[n_++] = v;
  return true;
}

Value ListBuild::take_iterator() {
  Value v;
  Iterator* it = m_.make<Iterator>();
  if (!it) return v;
  *it = {items_, static_cast<uint32_t>(n_), 0};
  v.kind = Kind::kIterator;
  v.iterator = it;
  return v;
}

bool DictBuild::put(const Value& key, const Value& value) {
  if (n_slots_) {
    if (!m_.spend(1)) return false;
    uint32_t* at = slot(key);
    if (*at) {
      entries_[*at - 1].value = value;
      return true;
    }
  } else {
    for (size_t i = 0; i < n_; ++i)
      if (equal(entries_[i].key, key, m_.steps_left)) {
        entries_[i].value = value;
        return true;
      }
  }
  if (n_ == capacity_) {
    const size_t more = max_of<size_t>(4, 2 * capacity_);
    Entry* fresh = m_.make<Entry>(more);
    if (!fresh) return false;
    if (n_) memcpy(static_cast<void*>(fresh), entries_, n_ * sizeof(Entry));
    entries_ = fresh, capacity_ = more;
  }
  entries_[n_++] = {key, value};
  if (2 * n_ > n_slots_ && n_ >= kIndexFrom) return index();
  if (n_slots_) *slot(key) = static_cast<uint32_t>(n_);
  return true;
}

bool DictBuild::index() {
  n_slots_ = 4 * n_;
  slots_ = m_.make<uint32_t>(n_slots_);
  if (!slots_) return false;
  for (size_t i = 0; i < n_; ++i) *slot(entries_[i].key) = static_cast<uint32_t>(i + 1);
  return true;
}

uint32_t* DictBuild::slot(const Value& key) {
  size_t at = hash_value(key) % n_slots_;
  while (slots_[at] && !equal(entries_[slots_[at] - 1].key, key, m_.steps_left))
    at = at + 1 == n_slots_ ? 0 : at + 1;
  return &slots_[at];
}

// ---- Text of values ----

Value literal(Str s) { return string(Text(s)); }

namespace {

bool put_hex(Build& out, char kind, uint32_t c, int digits, uint8_t mark) {
  bool ok = out.put_char('\\', mark) && out.put_char(kind, mark);
  for (int i = digits - 1; i >= 0; --i) ok = ok && out.put_char("0123456789abcdef"[c >> (4 * i) & 15], mark);
  return ok;
}

bool put_string_repr(Build& out, Text t) {
  bool single = false, both = false;
  for (char c : t.str()) single |= c == '\'', both |= c == '"';
  const char quote = single && !both ? '"' : '\'';
  if (!out.put_char(quote)) return false;
  for (size_t i = 0, bytes = 0; i < t.len; i += bytes) {
    const uint32_t c = code_at(t.ptr + i, t.len - i, &bytes);
    const uint8_t mark = t.mark(i);
    bool ok;
    if (c == static_cast<uint32_t>(quote) || c == '\\')
      ok = out.put_char('\\', mark) && out.put_char(t.ptr[i], mark);
    else if (c == '\n')
      ok = out.put_char('\\', mark) && out.put_char('n', mark);
    else if (c == '\r')
      ok = out.put_char('\\', mark) && out.put_char('r', mark);
    else if (c == '\t')
      ok = out.put_char('\\', mark) && out.put_char('t', mark);
    else if (is_printable(c))
      ok = out.put(t.sub(i, i + bytes));
    else if (c < 0x100)
      ok = put_hex(out, 'x', c, 2, mark);
    else if (c < 0x10000)
      ok = put_hex(out, 'u', c, 4, mark);
    else
      ok = put_hex(out, 'U', c, 8, mark);
    if (!ok) return false;
  }
  return out.put_char(quote);
}

bool put_items(Machine& m, Build& out, Span<const Value> items, int depth) {
  for (size_t i = 0; i < items.size(); ++i)
    if ((i && !out.put(", ")) || !put_repr(m, out, items[i], depth + 1)) return false;
  return true;
}

bool put_entries(Machine& m, Build& out, Span<const Entry> entries, int depth) {
  if (!out.put("{")) return false;
  for (size_t i = 0; i < entries.size(); ++i)
    if ((i && !out.put(", ")) || !put_repr(m, out, entries[i].key, depth + 1) || !out.put(": ") ||
        !put_repr(m, out, entries[i].value, depth + 1))
      return false;
  return out.put("}");
}

// Of what has no text that a template should print.
bool put_object(Build& out, const Value& v) {
  return out.put("<") && out.put(type_name(v)) && out.put(" object>");
}

}  // namespace

bool put_repr(Machine& m, Build& out, const Value& v, int depth) {
  if (depth > kMaxValueDepth) return m.fail("lists too deep to write");
  if (!m.spend(1)) return false;
  switch (v.kind) {
    case Kind::kUndefined:
      return out.put("Undefined");
    case Kind::kNone:
      return out.put("None");
    case Kind::kBool:
      return out.put(v.b ? "True" : "False");
    case Kind::kInt:
      return out.put_int(v.i);
    case Kind::kFloat: {
      char text[40];
      return out.put(Text(Str(text, float_repr(v.f, text))));
    }
    case Kind::kString:
      if (!v.sub) return put_string_repr(out, v.text());
      return out.put("Markup(") && put_string_repr(out, v.text()) && out.put(")");
    case Kind::kList:
      return out.put("[") && put_items(m, out, v.list(), depth) && out.put("]");
    case Kind::kTuple:
      return out.put("(") && put_items(m, out, v.list(), depth) && out.put(v.n == 1 ? ",)" : ")");
    case Kind::kDict:
      return put_entries(m, out, {v.entries, v.n}, depth);
    case Kind::kView:
      return out.put(type_name(v)) && out.put("([") && put_items(m, out, v.list(), depth) && out.put("])");
    case Kind::kRange:  // its bounds lie before the items
      return out.put("range(") && out.put_int(v.items[-3].i) && out.put(", ") && out.put_int(v.items[-2].i) &&
             (v.items[-1].i == 1 || (out.put(", ") && out.put_int(v.items[-1].i))) && out.put(")");
    case Kind::kNamespace:
      return out.put("<Namespace ") && put_entries(m, out, {v.space->entries, v.space->n}, depth) &&
             out.put(">");
    case Kind::kMacro: {
      return out.put("<Macro ") && put_string_repr(out, m.program.text(m.program.node(v.macro->node).arg)) &&
             out.put(">");
    }
    case Kind::kIterator:
    case Kind::kFunction:
    case Kind::kMethod:
    case Kind::kLoop:
    case Kind::kCycler:
    case Kind::kJoiner:
      return put_object(out, v);
  }
  return false;
}

bool put_text(Machine& m, Build& out, const Value& v) {
  if (v.kind == Kind::kString) return out.put(v.text());
  if (v.kind == Kind::kUndefined) return true;
  return put_repr(m, out, v);
}

bool to_text(Machine& m, const Value& v, Text* out) {
  if (v.kind == Kind::kString) {
    *out = v.text();
    return true;
  }
  Build b(m);
  if (!put_text(m, b, v)) return false;
  *out = b.take().text();
  return true;
}

// ---- Undefined ----

Value undefined(Machine& m, Hint::What what, const Value& key, Kind object) {
  Value v;
  Hint* hint = m.make<Hint>();
  if (hint) *hint = {what, object, key};
  v.hint = hint;
  return v;
}

bool fail_undefined(Machine& m, const Value& v) {
  const Hint* h = v.hint;
  if (!h) return m.fail("the value is undefined");
  Str key = h->key.kind == Kind::kString ? h->key.str() : Str();
  const char* object = h->object == Kind::kNone ? "None" : type_name(h->object);
  const char* of = h->object == Kind::kNone || h->object == Kind::kUndefined ? "" : " object";
  if (h->object == Kind::kNamespace) object = "jinja2.utils.Namespace";
  switch (h->what) {
    case Hint::kName:
      return m.fail("'", key, "' is undefined");
    case Hint::kParameter:
      return m.fail("parameter '", key, "' was not provided");
    case Hint::kMessage:
      return m.fail(key);
    case Hint::kUnsafe:
      return m.fail("access to attribute '", key, "' of '", type_name(h->object), "' object is unsafe.");
    case Hint::kAttribute:
      break;
  }
  if (h->key.kind == Kind::kString) return m.fail("'", object, of, "' has no attribute '", key, "'");
  Build b(m);
  if (!put_repr(m, b, h->key)) return false;
  return m.fail(object, of, " has no element ", b.text().str());
}

// ---- Sequences ----

bool iterate(Machine& m, const Value& v, Span<const Value>* out) {
  *out = {};
  switch (v.kind) {
    case Kind::kUndefined:
      return true;
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView:
    case Kind::kRange:
      *out = v.list();
      return m.spend(1);
    case Kind::kIterator:
      *out = {v.iterator->items + v.iterator->at, v.iterator->n - v.iterator->at};
      v.iterator->at = v.iterator->n;
      return true;
    case Kind::kDict: {
      Value* keys = m.make<Value>(v.n);
      if (!keys) return false;
      for (uint32_t i = 0; i < v.n; ++i) keys[i] = v.entries[i].key;
      *out = {keys, v.n};
      return true;
    }
    case Kind::kString: {
      ListBuild chars(m);
      for (size_t i = 0, bytes = 0; i < v.n; i += bytes) {
        code_at(v.s + i, v.n - i, &bytes);
        if (!chars.push(string(v.text().sub(i, i + bytes)))) return false;
      }
      *out = {chars.items(), chars.size()};
      return true;
    }
    case Kind::kLoop:
      *out = {v.loop->items + v.loop->at, v.loop->n - v.loop->at};
      return true;
    case Kind::kNone:
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
    case Kind::kNamespace:
    case Kind::kMacro:
    case Kind::kFunction:
    case Kind::kMethod:
    case Kind::kCycler:
    case Kind::kJoiner:
      break;
  }
  return m.fail("'", type_name(v), "' object is not iterable");
}

bool length_of(Machine& m, const Value& v, int64_t* out) {
  switch (v.kind) {
    case Kind::kUndefined:
      *out = 0;
      return true;
    case Kind::kString:
      *out = static_cast<int64_t>(count_chars(v.str()));
      return m.spend(v.n / 16);
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kView:
    case Kind::kRange:
      *out = v.n;
      return true;
    case Kind::kLoop:
      *out = v.loop->n;
      return true;
    default:
      return m.fail("object of type '", type_name(v), "' has no len()");
  }
}

bool check_hashable(Machine& m, const Value& key) {
  if (key.kind == Kind::kList || key.kind == Kind::kDict)
    return m.fail("unhashable type: '", type_name(key), "'");
  if (key.kind == Kind::kTuple)
    for (const Value& v : key.list())
      if (v.kind == Kind::kTuple ? false : !check_hashable(m, v)) return false;
  return true;
}

bool find_key(Machine& m, const Value& dict, const Value& key, const Value** out) {
  *out = nullptr;
  if (!check_hashable(m, key)) return false;
  for (uint32_t i = 0; i < dict.n; ++i) {
    if (!equal(dict.entries[i].key, key, m.steps_left)) continue;
    *out = &dict.entries[i].value;
    return m.spend(i / 16);
  }
  return m.spend(dict.n / 16);
}

bool to_index(Machine& m, const Value& v, int64_t* out) {
  if (v.kind == Kind::kInt || v.kind == Kind::kBool) {
    *out = v.kind == Kind::kInt ? v.i : v.b;
    return true;
  }
  if (v.kind == Kind::kUndefined) return fail_undefined(m, v);
  return m.fail("'", type_name(v), "' object cannot be interpreted as an integer");
}

bool bind(Machine& m, Str what, Str parameters, const Args& args, Value* out, uint32_t* given) {
  uint32_t n = 0, seen = 0;
  for (Str rest = parameters; !rest.empty(); ++n) {
    const Str name = next_parameter(&rest);
    out[n] = Value();
    if (n < args.positional.size()) out[n] = args.positional[n], seen |= 1u << n;
    for (const NamedArg& a : args.named) {
      if (a.name.str() != name) continue;
      if (seen >> n & 1) return m.fail(what, "() got multiple values for argument '", name, "'");
      out[n] = a.value, seen |= 1u << n;
    }
  }
  if (args.positional.size() > n)
    return m.fail(what, "() takes at most ", n, " arguments (", args.positional.size(), " given)");
  for (const NamedArg& a : args.named) {
    bool known = false;
    for (Str rest = parameters; !rest.empty();) known |= next_parameter(&rest) == a.name.str();
    if (!known) return m.fail(what, "() got an unexpected keyword argument '", a.name.str(), "'");
  }
  if (given) *given = seen;
  return true;
}

bool sort_order(Machine& m, Span<const Value> keys, bool reverse, uint32_t* order) {
  const size_t n = keys.size();
  uint32_t* other = m.make<uint32_t>(n);
  if (!other) return false;
  for (size_t width = 1; width < n; width *= 2) {
    for (size_t from = 0; from < n; from += 2 * width) {
      const size_t mid = min_of(from + width, n), end = min_of(from + 2 * width, n);
      for (size_t i = from, j = mid, k = from; k < end; ++k) {
        bool second = i == mid;
        if (i < mid && j < end) {
          const Value &a = keys[order[i]], &b = keys[order[j]];
          // Stable either way: the later one goes first only when it must.
          if (!m.spend(1) || !compare(m, Compare::kLt, reverse ? a : b, reverse ? b : a, &second))
            return false;
        }
        other[k] = second ? order[j++] : order[i++];
      }
    }
    memcpy(order, other, n * sizeof(uint32_t));
  }
  return true;
}

}  // namespace jinja
}  // namespace gcrt
