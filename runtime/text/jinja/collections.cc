// Methods of dicts and lists, and the functions that every template has.
#include "runtime/text/jinja/machine.h"

namespace gcrt {
namespace jinja {
namespace {

bool dict_view(Machine& m, const Value& d, ViewOf what, Value* out) {
  Value* items = m.make<Value>(d.n);
  Value* pairs = what == ViewOf::kItems ? m.make<Value>(size_t{2} * d.n) : nullptr;
  if (!items || (what == ViewOf::kItems && !pairs)) return false;
  for (uint32_t i = 0; i < d.n; ++i) {
    const Entry& e = d.entries[i];
    if (what == ViewOf::kKeys) items[i] = e.key;
    if (what == ViewOf::kValues) items[i] = e.value;
    if (what != ViewOf::kItems) continue;
    pairs[2 * i] = e.key, pairs[2 * i + 1] = e.value;
    items[i] = sequence(Kind::kTuple, pairs + 2 * i, 2);
  }
  *out = sequence(Kind::kView, items, d.n);
  out->sub = static_cast<uint8_t>(what);
  return true;
}

bool list_index(Machine& m, const Value& list, const Value* a, Value* out) {
  int64_t from = 0, to = list.n;
  if (a[1].kind != Kind::kUndefined && !to_index(m, a[1], &from)) return false;
  if (a[2].kind != Kind::kUndefined && !to_index(m, a[2], &to)) return false;
  if (from < 0) from = max_of<int64_t>(from + list.n, 0);
  if (to < 0) to += list.n;
  for (int64_t i = from; i < min_of<int64_t>(to, list.n); ++i)
    if (equal(list.items[i], a[0], m.steps_left)) {
      *out = integer(i);
      return true;
    }
  Build b(m);
  if (!put_repr(m, b, a[0])) return false;
  return m.fail(b.text().str(), " is not in list");
}

bool list_count(Machine& m, const Value& list, const Value& v, Value* out) {
  int64_t count = 0;
  for (const Value& item : list.list()) count += equal(item, v, m.steps_left);
  *out = integer(count);
  return m.spend(1);
}

bool loop_cycle(Machine& m, const Value& self, const Args& args, Value* out) {
  if (args.positional.empty()) return m.fail("no items for cycling given");
  *out = args.positional[self.loop->at % args.positional.size()];
  return true;
}

bool loop_changed(Machine& m, const Value& self, const Args& args, Value* out) {
  LoopState& l = *self.loop;
  const size_t n = args.positional.size();
  Value* kept = m.make<Value>(n);
  if (!kept) return false;
  for (size_t i = 0; i < n; ++i) kept[i] = args.positional[i];
  const Value now = sequence(Kind::kTuple, kept, n);
  *out = boolean(!l.has_changed || !equal(l.changed, now, m.steps_left));
  l.changed = now, l.has_changed = true;
  return m.spend(1);
}

// ---- functions ----

bool make_range(Machine& m, const Args& args, Value* out) {
  int64_t bounds[3] = {0, 0, 1};
  const size_t n = args.positional.size();
  if (n < 1 || n > 3)
    return m.fail("range expected at ", n < 1 ? "least 1 argument" : "most 3 arguments", ", got ", n);
  for (size_t i = 0; i < n; ++i)
    if (!to_index(m, args.positional[i], &bounds[n == 1 ? 1 : i])) return false;
  const int64_t start = bounds[0], stop = bounds[1], step = bounds[2];
  if (step == 0) return m.fail("range() arg 3 must not be zero");
  uint64_t count = 0;
  const uint64_t by = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
  const uint64_t span =
      static_cast<uint64_t>(step > 0 ? stop : start) - static_cast<uint64_t>(step > 0 ? start : stop);
  if (step > 0 ? start < stop : start > stop) count = (span - 1) / by + 1;
  if (count > kMaxRange)
    return m.fail("Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
  Value* items = m.make<Value>(count + 3);
  if (!items) return false;
  for (int i = 0; i < 3; ++i) items[i] = integer(bounds[i]);
  for (uint64_t i = 0; i < count; ++i) items[3 + i] = integer(start + static_cast<int64_t>(i) * step);
  *out = sequence(Kind::kRange, items + 3, count);
  return true;
}

// dict(...), from a mapping or pairs, then keywords.
bool fill_dict(Machine& m, const char* what, const Args& args, DictBuild& d) {
  if (args.positional.size() > 1)
    return m.fail(what, " expected at most 1 argument, got ", args.positional.size());
  if (!args.positional.empty()) {
    const Value& from = args.positional[0];
    Span<const Value> pairs;
    if (from.kind == Kind::kDict || from.kind == Kind::kNamespace) {
      const Entry* entries = from.kind == Kind::kDict ? from.entries : from.space->entries;
      const uint32_t n = from.kind == Kind::kDict ? from.n : from.space->n;
      for (uint32_t i = 0; i < n; ++i)
        if (!d.put(entries[i].key, entries[i].value)) return false;
    } else {
      if (!iterate(m, from, &pairs)) return false;
      for (const Value& pair : pairs) {
        Span<const Value> two;
        if (!iterate(m, pair, &two)) return false;
        if (two.size() != 2)
          return m.fail("dictionary update sequence element has length ", two.size(), "; 2 is required");
        if (!check_hashable(m, two[0]) || !d.put(two[0], two[1])) return false;
      }
    }
  }
  for (const NamedArg& a : args.named)
    if (!d.put(string(a.name), a.value)) return false;
  return true;
}

bool make_namespace(Machine& m, const Args& args, Value* out) {
  DictBuild d(m);
  if (!fill_dict(m, "namespace", args, d)) return false;
  const Value filled = d.take();
  Namespace* space = m.make<Namespace>();
  Entry* entries = m.make<Entry>(filled.n);
  if (!space || !entries) return false;
  for (uint32_t i = 0; i < filled.n; ++i) entries[i] = filled.entries[i];
  *space = {entries, filled.n, filled.n};
  out->kind = Kind::kNamespace;
  out->space = space;
  return true;
}

bool make_cycle(Machine& m, Kind kind, Span<const Value> items, Value* out) {
  Value* kept = m.make<Value>(items.size());
  Cycle* cycle = m.make<Cycle>();
  if (!kept || !cycle) return false;
  for (size_t i = 0; i < items.size(); ++i) kept[i] = items[i];
  *cycle = {kept, static_cast<uint32_t>(items.size()), 0};
  *out = Value();
  out->kind = kind;
  out->cycle = cycle;
  return true;
}

bool raise(Machine& m, const Args& args) {
  Value a[1];
  if (!bind(m, "raise_exception", "message", args, a)) return false;
  Text t;
  if (!to_text(m, a[0], &t)) return false;
  return m.fail(t.str());
}

bool time_now(Machine& m, const Args& args, Value* out) {
  Value a[1];
  if (!bind(m, "strftime_now", "format", args, a)) return false;
  if (a[0].kind != Kind::kString) return m.fail("strftime() argument 1 must be str, not ", type_name(a[0]));
  Build b(m);
  if (!format_time(m, a[0].text(), m.now, b)) return false;
  *out = b.take();
  return true;
}

}  // namespace

bool call_method(Machine& m, const Method& method, const Args& args, Value* out) {
  const Value& self = method.self;
  if (self.kind == Kind::kString) return call_str_method(m, method.id, self, args, out);
  Value a[4];
  const Str parameters = method_parameters(method.id);
  if (parameters != "*" && !bind(m, method_name(method.id), parameters, args, a)) return false;
  switch (method.id) {
    case MethodId::kDictGet: {
      const Value* found = nullptr;
      if (args.positional.empty()) return m.fail("get expected at least 1 argument, got 0");
      if (!find_key(m, self, a[0], &found)) return false;
      const bool has_default = args.positional.size() > 1 || !args.named.empty();
      *out = found ? *found : has_default ? a[1] : none();
      return true;
    }
    case MethodId::kDictItems:
      return dict_view(m, self, ViewOf::kItems, out);
    case MethodId::kDictKeys:
      return dict_view(m, self, ViewOf::kKeys, out);
    case MethodId::kDictValues:
      return dict_view(m, self, ViewOf::kValues, out);
    case MethodId::kDictCopy:
    case MethodId::kListCopy:
      *out = self;
      return true;
    case MethodId::kListCount:
      return list_count(m, self, a[0], out);
    case MethodId::kListIndex:
      return list_index(m, self, a, out);
    case MethodId::kLoopCycle:
      return loop_cycle(m, self, args, out);
    case MethodId::kLoopChanged:
      return loop_changed(m, self, args, out);
    case MethodId::kCyclerNext:
      *out = self.cycle->items[self.cycle->at];
      self.cycle->at = (self.cycle->at + 1) % self.cycle->n;
      return true;
    case MethodId::kCyclerReset:
      self.cycle->at = 0;
      *out = none();
      return true;
    default:
      return m.fail("no such method");
  }
}

bool call_function(Machine& m, FunctionId id, const Args& args, Value* out) {
  switch (id) {
    case FunctionId::kRange:
      return make_range(m, args, out);
    case FunctionId::kDict: {
      DictBuild d(m);
      if (!fill_dict(m, "dict", args, d)) return false;
      *out = d.take();
      return true;
    }
    case FunctionId::kNamespace:
      return make_namespace(m, args, out);
    case FunctionId::kCycler:
      if (args.positional.empty()) return m.fail("at least one item has to be provided");
      return make_cycle(m, Kind::kCycler, args.positional, out);
    case FunctionId::kJoiner: {
      Value a[1];
      if (!bind(m, "joiner", "sep", args, a)) return false;
      if (a[0].kind == Kind::kUndefined) a[0] = literal(", ");
      return make_cycle(m, Kind::kJoiner, {a, 1}, out);
    }
    case FunctionId::kRaise:
      return raise(m, args);
    case FunctionId::kStrftimeNow:
      return time_now(m, args, out);
  }
  return false;
}

}  // namespace jinja
}  // namespace gcrt
