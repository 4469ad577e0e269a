// Operators of the language on values: arithmetic, comparison, attributes, items, slices; Python's, in jinja's sandbox.
#include <math.h>

#include "runtime/base/checked.h"
#include "runtime/text/jinja/machine.h"

namespace gcrt {
namespace jinja {
namespace {

const char* spelling(Op op) {
  if (op == Op::kAdd) return "+";
  if (op == Op::kSub) return "-";
  if (op == Op::kMul) return "*";
  if (op == Op::kDiv) return "/";
  if (op == Op::kFloorDiv) return "//";
  if (op == Op::kMod) return "%";
  return "** or pow()";
}

bool unsupported(Machine& m, Op op, const Value& a, const Value& b) {
  return m.fail("unsupported operand type(s) for ", spelling(op), ": '", type_name(a), "' and '",
                type_name(b), "'");
}

bool add_texts(Machine& m, const Value& a, const Value& b, Value* out) {
  Build text(m);
  const bool markup = a.sub || b.sub;
  bool ok = markup && !a.sub ? put_escaped(text, a.text()) : text.start(a.text());
  ok = ok && (markup && !b.sub ? put_escaped(text, b.text()) : text.put(b.text()));
  if (!ok) return false;
  *out = text.take();
  out->sub = markup;
  return true;
}

bool add_lists(Machine& m, const Value& a, const Value& b, Value* out) {
  const size_t n = size_t{a.n} + b.n;
  Value* items = m.make<Value>(n);
  if (!items) return false;
  for (uint32_t i = 0; i < a.n; ++i) items[i] = a.items[i];
  for (uint32_t i = 0; i < b.n; ++i) items[a.n + i] = b.items[i];
  *out = sequence(a.kind, items, n);
  return true;
}

bool repeat(Machine& m, const Value& v, int64_t times, Value* out) {
  const uint64_t n = times < 0 ? 0 : static_cast<uint64_t>(times);
  if (v.kind == Kind::kString) {
    Build text(m);
    if (!text.put_repeated(v.text(), n)) return false;
    *out = text.take();
    out->sub = v.sub;
    return true;
  }
  if (v.n && n > (uint64_t{1} << 24) / v.n) return m.fail_memory();
  Value* items = m.make<Value>(v.n * n);
  if (!items) return false;
  for (uint64_t i = 0; i < v.n * n; ++i) items[i] = v.items[i % v.n];
  *out = sequence(v.kind, items, v.n * n);
  return true;
}

bool int_power(Machine& m, int64_t a, int64_t b, Value* out) {
  int64_t r = 1;
  for (; b; b >>= 1) {
    if (b & 1 && !checked_mul(r, a, &r)) return m.fail("integer too large");
    if (b > 1 && !checked_mul(a, a, &a)) return m.fail("integer too large");
  }
  *out = integer(r);
  return true;
}

bool int_arithmetic(Machine& m, Op op, int64_t a, int64_t b, Value* out) {
  int64_t r = 0;
  bool fits = true;
  switch (op) {
    case Op::kAdd:
      fits = checked_add(a, b, &r);
      break;
    case Op::kSub:
      fits = checked_sub(a, b, &r);
      break;
    case Op::kMul:
      fits = checked_mul(a, b, &r);
      break;
    case Op::kDiv:
      if (b == 0) return m.fail("division by zero");
      *out = real(static_cast<double>(a) / static_cast<double>(b));
      return true;
    case Op::kFloorDiv:
    case Op::kMod:
      if (b == 0) return m.fail("integer division or modulo by zero");
      if (b == -1) {  // INT64_MIN / -1 traps
        fits = op == Op::kMod || checked_sub<int64_t>(0, a, &r);
        break;
      }
      r = op == Op::kMod ? a % b : a / b;
      if (a % b != 0 && (a % b < 0) != (b < 0)) r = op == Op::kMod ? r + b : r - 1;
      break;
    default:
      if (b >= 0) return int_power(m, a, b, out);
      if (a == 0) return m.fail("0.0 cannot be raised to a negative power");
      *out = real(pow(static_cast<double>(a), static_cast<double>(b)));
      return true;
  }
  if (!fits) return m.fail("integer too large");
  *out = integer(r);
  return true;
}

bool float_arithmetic(Machine& m, Op op, double a, double b, Value* out) {
  double r = 0;
  const bool divides = op == Op::kDiv || op == Op::kFloorDiv || op == Op::kMod;
  if (divides && b == 0)
    return m.fail(op == Op::kDiv ? "float division by zero" : "float floor division by zero");
  switch (op) {
    case Op::kAdd:
      r = a + b;
      break;
    case Op::kSub:
      r = a - b;
      break;
    case Op::kMul:
      r = a * b;
      break;
    case Op::kDiv:
      r = a / b;
      break;
    case Op::kFloorDiv:
    case Op::kMod: {
      double rest = fmod(a, b);
      if (rest != 0 && (b < 0) != (rest < 0)) rest += b;
      r = op == Op::kMod ? rest : rint((a - rest) / b);
      break;
    }
    default:
      if (a == 0 && b < 0) return m.fail("0.0 cannot be raised to a negative power");
      r = pow(a, b);
  }
  *out = real(r);
  return true;
}

int64_t as_int(const Value& v) { return v.kind == Kind::kBool ? v.b : v.i; }

// -1, 0, 1; 2 for a NaN.
int order_numbers(const Value& a, const Value& b) {
  if (a.kind != Kind::kFloat && b.kind != Kind::kFloat) {
    const int64_t x = as_int(a), y = as_int(b);
    return x < y ? -1 : x > y;
  }
  const double x = to_double(a), y = to_double(b);
  return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
}

bool order(Machine& m, const char* sign, const Value& a, const Value& b, int depth, int* out) {
  if (a.kind == Kind::kUndefined) return fail_undefined(m, a);
  if (b.kind == Kind::kUndefined) return fail_undefined(m, b);
  if (depth > kMaxValueDepth) return m.fail("lists too deep to compare");
  if (a.is_number() && b.is_number()) {
    *out = order_numbers(a, b);
    return true;
  }
  if (a.kind == Kind::kString && b.kind == Kind::kString) {
    *out = compare(a.str(), b.str());  // UTF-8's order is that of code points
    *out = *out < 0 ? -1 : *out > 0;
    return m.spend(min_of(a.n, b.n) / 64);
  }
  if (a.kind == b.kind && (a.kind == Kind::kList || a.kind == Kind::kTuple)) {
    for (uint32_t i = 0; i < a.n && i < b.n; ++i) {
      if (!m.spend(1)) return false;
      if (!equal(a.items[i], b.items[i], m.steps_left))
        return order(m, sign, a.items[i], b.items[i], depth + 1, out);
    }
    *out = a.n < b.n ? -1 : a.n > b.n;
    return true;
  }
  return m.fail("'", sign, "' not supported between instances of '", type_name(a), "' and '", type_name(b),
                "'");
}

bool contains(Machine& m, const Value& item, const Value& in, bool* out) {
  *out = false;
  if (in.kind == Kind::kString) {
    if (item.kind == Kind::kUndefined) return fail_undefined(m, item);
    if (item.kind != Kind::kString)
      return m.fail("'in <string>' requires string as left operand, not ", type_name(item));
    *out = item.n == 0 || (in.n && memmem(in.s, in.n, item.s, item.n));
    return m.spend(in.n / 16);
  }
  if (in.kind == Kind::kDict) {
    const Value* found = nullptr;
    if (!find_key(m, in, item, &found)) return false;
    *out = found != nullptr;
    return true;
  }
  if (in.kind == Kind::kIterator || in.kind == Kind::kUndefined || in.kind == Kind::kView ||
      in.is_sequence()) {
    Span<const Value> items;
    if (!iterate(m, in, &items)) return false;
    for (const Value& v : items)
      if (equal(v, item, m.steps_left)) {
        *out = true;
        break;
      }
    return m.spend(items.size() / 8);
  }
  return m.fail("argument of type '", type_name(in), "' is not iterable");
}

Value method(Machine& m, MethodId id, const Value& self) {
  Value v;
  Method* made = m.make<Method>();
  if (made) *made = {id, self};
  v.kind = Kind::kMethod;
  v.method = made;
  return v;
}

bool find_python_attribute(Machine& m, MethodOf type, const Value& v, const Value& name, Value* out,
                           bool* found) {
  *found = true;
  const int id = find_method(type, name.str());
  if (id != kNotFound) {
    *out = method(m, static_cast<MethodId>(id), v);
    return !m.failed;
  }
  if (is_mutator(type, name.str())) {
    *out = undefined(m, Hint::kUnsafe, name, v.kind);
    return true;
  }
  if (type == MethodOf::kStr && is_missing_method(name.str()))
    return m.fail("the method '", name.str(), "' of str is not supported");
  *found = false;
  return true;
}

bool loop_attribute(Machine& m, const Value& v, const Value& name, Value* out) {
  const LoopState& l = *v.loop;
  const Str s = name.str();
  const int64_t at = l.at, n = l.n;
  if (s == "index")
    *out = integer(at + 1);
  else if (s == "index0")
    *out = integer(at);
  else if (s == "revindex")
    *out = integer(n - at);
  else if (s == "revindex0")
    *out = integer(n - at - 1);
  else if (s == "first")
    *out = boolean(at == 0);
  else if (s == "last")
    *out = boolean(at + 1 == n);
  else if (s == "length")
    *out = integer(n);
  else if (s == "depth")
    *out = integer(l.depth + 1);
  else if (s == "depth0")
    *out = integer(l.depth);
  else if (s == "previtem")
    *out = at ? l.items[at - 1] : undefined(m, Hint::kMessage, literal("there is no previous item"));
  else if (s == "nextitem")
    *out = at + 1 < n ? l.items[at + 1] : undefined(m, Hint::kMessage, literal("there is no next item"));
  else
    return false;
  return true;
}

// What Python's getattr gives; *found is false when it gives nothing.
bool python_attribute(Machine& m, const Value& v, const Value& name, Value* out, bool* found) {
  *found = true;
  switch (v.kind) {
    case Kind::kString:
      return find_python_attribute(m, MethodOf::kStr, v, name, out, found);
    case Kind::kDict:
      return find_python_attribute(m, MethodOf::kDict, v, name, out, found);
    case Kind::kTuple:
      if (v.sub && (name.str() == "grouper" || name.str() == "list")) {
        *out = v.items[name.str() == "list"];
        return true;
      }
      [[fallthrough]];
    case Kind::kList:
      return find_python_attribute(m, MethodOf::kList, v, name, out, found);
    case Kind::kLoop:
      if (loop_attribute(m, v, name, out)) return !m.failed;
      return find_python_attribute(m, MethodOf::kLoop, v, name, out, found);
    case Kind::kCycler:
      if (name.str() == "current") {
        *out = v.cycle->items[v.cycle->at];
        return true;
      }
      return find_python_attribute(m, MethodOf::kCycler, v, name, out, found);
    case Kind::kNamespace:
      for (uint32_t i = 0; i < v.space->n; ++i)
        if (equal(v.space->entries[i].key, name, m.steps_left)) {
          *out = v.space->entries[i].value;
          return true;
        }
      break;
    case Kind::kMacro:
      if (name.str() == "name") {
        *out = literal(m.program.text(m.program.node(v.macro->node).arg));
        return true;
      }
      break;
    case Kind::kUndefined:
      return fail_undefined(m, v);
    default:
      break;
  }
  *found = false;
  return true;
}

bool index_sequence(Machine& m, const Value& v, int64_t i, Value* out) {
  if (v.kind == Kind::kString) {
    const int64_t n = static_cast<int64_t>(count_chars(v.str()));
    if (i < 0) i += n;
    if (i < 0 || i >= n) return false;
    const size_t from = char_offset(v.str(), static_cast<size_t>(i));
    size_t bytes = 0;
    code_at(v.s + from, v.n - from, &bytes);
    *out = string(v.text().sub(from, from + bytes));
    return m.spend(v.n / 16);
  }
  if (i < 0) i += v.n;
  if (i < 0 || i >= v.n) return false;
  *out = v.items[i];
  return true;
}

// v[key] as Python does it; false when there is nothing.
bool find_item(Machine& m, const Value& v, const Value& key, Value* out) {
  if (v.kind == Kind::kDict) {
    if (!m.spend(v.n / 16)) return false;
    for (uint32_t i = 0; i < v.n; ++i)
      if (equal(v.entries[i].key, key, m.steps_left)) {
        *out = v.entries[i].value;
        return true;
      }
    return false;
  }
  if ((v.is_sequence() || v.kind == Kind::kString) && (key.kind == Kind::kInt || key.kind == Kind::kBool))
    return index_sequence(m, v, as_int(key), out);
  return false;
}

Value no_attribute(Machine& m, const Value& v, const Value& name) {
  const Str s = name.kind == Kind::kString ? name.str() : Str();
  const bool internal = s.size() > 4 && s.starts_with("__") && s.ends_with("__");
  return undefined(m, internal ? Hint::kUnsafe : Hint::kAttribute, name, v.kind);
}

}  // namespace

bool binary(Machine& m, Op op, const Value& a, const Value& b, Value* out) {
  if (a.kind == Kind::kUndefined) return fail_undefined(m, a);
  if (op == Op::kMod && a.kind == Kind::kString) {
    Build text(m);
    if (!format_percent(m, a.text(), b, text)) return false;
    *out = text.take();
    out->sub = a.sub;
    return true;
  }
  if (b.kind == Kind::kUndefined) return fail_undefined(m, b);
  if (a.is_number() && b.is_number()) {
    if (a.kind != Kind::kFloat && b.kind != Kind::kFloat)
      return int_arithmetic(m, op, as_int(a), as_int(b), out);
    return float_arithmetic(m, op, to_double(a), to_double(b), out);
  }
  if (op == Op::kAdd) {
    if (a.kind == Kind::kString) {
      if (b.kind == Kind::kString) return add_texts(m, a, b, out);
      return m.fail("can only concatenate str (not \"", type_name(b), "\") to str");
    }
    if (a.kind == Kind::kList || a.kind == Kind::kTuple) {
      if (b.kind == a.kind) return add_lists(m, a, b, out);
      return m.fail("can only concatenate ", type_name(a), " (not \"", type_name(b), "\") to ", type_name(a));
    }
  }
  auto repeats = [](const Value& v) {
    return v.kind == Kind::kString || v.kind == Kind::kList || v.kind == Kind::kTuple;
  };
  auto whole = [](const Value& v) { return v.kind == Kind::kInt || v.kind == Kind::kBool; };
  if (op == Op::kMul && repeats(a) && whole(b)) return repeat(m, a, as_int(b), out);
  if (op == Op::kMul && repeats(b) && whole(a)) return repeat(m, b, as_int(a), out);
  return unsupported(m, op, a, b);
}

bool negate(Machine& m, Op op, const Value& a, Value* out) {
  if (a.kind == Kind::kUndefined) return fail_undefined(m, a);
  if (!a.is_number())
    return m.fail("bad operand type for unary ", op == Op::kNeg ? "-" : "+", ": '", type_name(a), "'");
  if (op == Op::kPos) {
    *out = a.kind == Kind::kFloat ? a : integer(as_int(a));
    return true;
  }
  if (a.kind == Kind::kFloat) {
    *out = real(-a.f);
    return true;
  }
  return int_arithmetic(m, Op::kSub, 0, as_int(a), out);
}

bool compare(Machine& m, Compare how, const Value& a, const Value& b, bool* out) {
  int o = 0;
  switch (how) {
    case Compare::kEq:
      *out = equal(a, b, m.steps_left);
      return m.spend(1);
    case Compare::kNe:
      *out = !equal(a, b, m.steps_left);
      return m.spend(1);
    case Compare::kLt:
      if (!order(m, "<", a, b, 0, &o)) return false;
      *out = o == -1;
      return true;
    case Compare::kLe:
      if (!order(m, "<=", a, b, 0, &o)) return false;
      *out = o == -1 || o == 0;
      return true;
    case Compare::kGt:
      if (!order(m, ">", a, b, 0, &o)) return false;
      *out = o == 1;
      return true;
    case Compare::kGe:
      if (!order(m, ">=", a, b, 0, &o)) return false;
      *out = o == 1 || o == 0;
      return true;
    case Compare::kIn:
      return contains(m, a, b, out);
    case Compare::kNotIn:
      if (!contains(m, a, b, out)) return false;
      *out = !*out;
      return true;
  }
  return false;
}

// v.name: the attribute before the item, so a dict's key "items" is reached as v['items'] alone.
bool get_attribute(Machine& m, const Value& v, const Value& name, Value* out) {
  bool found = false;
  if (!python_attribute(m, v, name, out, &found)) return false;
  if (!found && !find_item(m, v, name, out)) *out = no_attribute(m, v, name);
  return !m.failed;
}

// v[key]: the item before the attribute.
bool get_item(Machine& m, const Value& v, const Value& key, Value* out) {
  if (v.kind == Kind::kUndefined) return fail_undefined(m, v);
  if (find_item(m, v, key, out)) return true;
  if (m.failed) return false;
  bool found = false;
  if (key.kind == Kind::kString && !python_attribute(m, v, key, out, &found)) return false;
  if (!found) *out = no_attribute(m, v, key);
  return !m.failed;
}

bool get_slice(Machine& m, const Value& v, const Value& start, const Value& stop, const Value& step,
               Value* out) {
  if (v.kind == Kind::kUndefined) return fail_undefined(m, v);
  if (!v.is_sequence() && v.kind != Kind::kString) {
    *out = undefined(m, Hint::kAttribute, literal("[:]"), v.kind);
    return !m.failed;
  }
  int64_t by = 1, n = 0, from = 0, to = 0;
  if (!length_of(m, v, &n)) return false;
  const Value* const parts[] = {&start, &stop, &step};
  for (const Value* part : parts)
    if (part->kind != Kind::kNone && part->kind != Kind::kInt && part->kind != Kind::kBool)
      return m.fail("slice indices must be integers or None or have an __index__ method");
  if (step.kind != Kind::kNone) by = as_int(step);
  if (by == 0) return m.fail("slice step cannot be zero");
  if (by == INT64_MIN) by = -INT64_MAX;
  auto clamp = [n, by](int64_t i) {
    if (i < 0) i = max_of<int64_t>(i + n, by < 0 ? -1 : 0);
    return min_of(i, by < 0 ? n - 1 : n);
  };
  from = start.kind == Kind::kNone ? (by < 0 ? n - 1 : 0) : clamp(as_int(start));
  to = stop.kind == Kind::kNone ? (by < 0 ? -1 : n) : clamp(as_int(stop));
  if (v.kind == Kind::kString && by == 1) {
    const size_t a = char_offset(v.str(), static_cast<size_t>(from));
    const size_t b = to > from ? a + char_offset(v.str().sub(a), static_cast<size_t>(to - from)) : a;
    *out = string(v.text().sub(a, b));
    out->sub = v.sub;
    return true;
  }
  Span<const Value> items;
  if (!iterate(m, v, &items)) return false;
  ListBuild list(m);
  Build text(m);
  for (int64_t i = from; by > 0 ? i < to : i > to; i += by) {
    const Value& item = items[static_cast<size_t>(i)];
    if (v.kind == Kind::kString ? !text.put(item.text()) : !list.push(item)) return false;
    if (by > 0 ? i > INT64_MAX - by : i < INT64_MIN - by) break;
  }
  *out =
      v.kind == Kind::kString ? text.take() : list.take(v.kind == Kind::kTuple ? Kind::kTuple : Kind::kList);
  out->sub = v.kind == Kind::kString ? v.sub : 0;
  return true;
}

}  // namespace jinja
}  // namespace gcrt
