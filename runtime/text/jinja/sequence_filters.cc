// Filters of sequences. What jinja evaluates lazily is evaluated at once here and comes as an iterator, which can be
// gone through once and has no length, as there.
#include "runtime/text/jinja/machine.h"

namespace gcrt {
namespace jinja {
namespace {

bool absent(const Value& v) { return v.kind == Kind::kUndefined && !v.hint; }

bool fold_case(Machine& m, const Value& v, bool fold, Value* out) {
  *out = v;
  if (!fold || v.kind != Kind::kString) return true;
  Build b(m);
  if (!change_case(m, MethodId::kLower, v.text(), b)) return false;
  *out = b.take();
  return true;
}

// v by a path "a.b.0"; an attribute that is no string is one key. What is missing on the way is `fallback`, if there
// is one.
bool follow(Machine& m, const Value& v, const Value& path, Value* out, const Value& fallback = Value()) {
  const bool falls = !absent(fallback) && fallback.kind != Kind::kNone;
  if (path.kind != Kind::kString) {
    if (!get_item(m, v, path, out)) return false;
    if (falls && out->kind == Kind::kUndefined) *out = fallback;
    return true;
  }
  Value at = v;
  for (size_t from = 0; from <= path.n;) {
    size_t end = from;
    bool number = true;
    int64_t index = 0;
    for (; end < path.n && path.s[end] != '.'; ++end) {
      number &= path.s[end] >= '0' && path.s[end] <= '9' && index < 100000000;
      if (number) index = index * 10 + (path.s[end] - '0');
    }
    const Value key = number && end > from ? integer(index) : string(path.text().sub(from, end));
    Value next;
    if (!get_item(m, at, key, &next)) return false;
    at = falls && next.kind == Kind::kUndefined ? fallback : next;
    from = end + 1;
  }
  *out = at;
  return true;
}

// The value that an item is sorted, compared or told apart by.
bool key_of(Machine& m, const Value& item, const Value& attribute, bool fold, Value* out) {
  Value v = item;
  if (!absent(attribute) && attribute.kind != Kind::kNone && !follow(m, item, attribute, &v)) return false;
  return fold_case(m, v, fold, out);
}

bool keys_of(Machine& m, Span<const Value> items, const Value& attribute, bool fold, Span<const Value>* out) {
  ListBuild keys(m);
  for (const Value& item : items) {
    Value key;
    if (!key_of(m, item, attribute, fold, &key) || !keys.push(key)) return false;
  }
  *out = {keys.items(), keys.size()};
  return true;
}

// Keys by any number of attributes, "a,b": tuples, of one for one, as what is undefined can be told equal in a tuple
// and not be ordered by itself.
bool sort_keys_of(Machine& m, Span<const Value> items, const Value& attribute, bool fold,
                  Span<const Value>* out) {
  ListBuild keys(m);
  for (const Value& item : items) {
    ListBuild parts(m);
    Value key;
    if (attribute.kind != Kind::kString && (!key_of(m, item, attribute, fold, &key) || !parts.push(key)))
      return false;
    for (size_t from = 0; attribute.kind == Kind::kString && from <= attribute.n;) {
      size_t end = from;
      while (end < attribute.n && attribute.s[end] != ',') ++end;
      if (!key_of(m, item, string(attribute.text().sub(from, end)), fold, &key) || !parts.push(key))
        return false;
      from = end + 1;
    }
    if (!keys.push(parts.take(Kind::kTuple))) return false;
  }
  *out = {keys.items(), keys.size()};
  return true;
}

bool sorted(Machine& m, Span<const Value> items, Span<const Value> keys, bool reverse, ListBuild& list) {
  uint32_t* order = m.make<uint32_t>(items.size());
  if (!order) return false;
  for (size_t i = 0; i < items.size(); ++i) order[i] = static_cast<uint32_t>(i);
  if (!sort_order(m, keys, reverse, order)) return false;
  for (size_t i = 0; i < items.size(); ++i)
    if (!list.push(items[order[i]])) return false;
  return true;
}

bool dict_pairs(Machine& m, const Value& v, Span<const Value>* out) {
  Value view;
  const Method items{MethodId::kDictItems, v};
  if (!call_method(m, items, {}, &view)) return false;
  *out = view.list();
  return true;
}

bool dict_sort(Machine& m, const Value& v, const Value* a, Value* out) {
  if (v.kind == Kind::kUndefined) return fail_undefined(m, v);
  if (v.kind != Kind::kDict) return m.fail("'", type_name(v), " object' has no attribute 'items'");
  const bool by_value = a[1].kind == Kind::kString && a[1].str() == "value";
  if (!absent(a[1]) && !by_value && !same_text(a[1], "key"))
    return m.fail("You can only sort by either \"key\" or \"value\"");
  Span<const Value> pairs, keys;
  if (!dict_pairs(m, v, &pairs) || !keys_of(m, pairs, integer(by_value), !truth(a[0]), &keys)) return false;
  ListBuild list(m);
  if (!sorted(m, pairs, keys, truth(a[2]), list)) return false;
  *out = list.take(Kind::kList);
  return true;
}

bool sort(Machine& m, Span<const Value> items, const Value* a, Value* out) {
  Span<const Value> keys;
  ListBuild list(m);
  if (!sort_keys_of(m, items, a[2], !truth(a[1]), &keys) || !sorted(m, items, keys, truth(a[0]), list))
    return false;
  *out = list.take(Kind::kList);
  return true;
}

bool unique(Machine& m, Span<const Value> items, const Value* a, Value* out) {
  Span<const Value> keys;
  DictBuild seen(m);
  if (!keys_of(m, items, a[1], !truth(a[0]), &keys)) return false;
  ListBuild list(m);
  uint32_t n = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!check_hashable(m, keys[i]) || !seen.put(keys[i], none())) return false;
    const uint32_t now = seen.take().n;
    if (now != n && !list.push(items[i])) return false;
    n = now;
  }
  *out = list.take_iterator();
  return true;
}

bool group_by(Machine& m, Span<const Value> items, const Value* a, Value* out) {
  const bool fold = !(absent(a[2]) ? false : truth(a[2]));
  ListBuild keys(m);
  for (const Value& item : items) {
    Value v, key;
    if (!follow(m, item, a[0], &v, a[1])) return false;
    if (!fold_case(m, v, fold, &key) || !keys.push(key)) return false;
  }
  uint32_t* order = m.make<uint32_t>(items.size());
  if (!order) return false;
  for (size_t i = 0; i < items.size(); ++i) order[i] = static_cast<uint32_t>(i);
  if (!sort_order(m, {keys.items(), keys.size()}, false, order)) return false;
  ListBuild groups(m);
  for (size_t i = 0; i < items.size();) {
    ListBuild members(m);
    size_t j = i;
    for (; j < items.size() && equal(keys.items()[order[i]], keys.items()[order[j]], m.steps_left); ++j)
      if (!members.push(items[order[j]])) return false;
    if (j == i) return m.spend(1) && m.fail("groupby: a value that is not equal to itself");
    Value* pair = m.make<Value>(2);
    if (!pair) return false;
    // The name of the group is the first member's value, as it is written.
    if (!follow(m, items[order[i]], a[0], &pair[0], a[1])) return false;
    pair[1] = members.take(Kind::kList);
    Value group = sequence(Kind::kTuple, pair, 2);
    group.sub = 1;  // has the attributes grouper and list
    if (!groups.push(group)) return false;
    i = j;
  }
  *out = groups.take(Kind::kList);
  return true;
}

bool extreme(Machine& m, Span<const Value> items, const Value* a, Compare how, Value* out) {
  if (items.empty()) {
    *out = undefined(m, Hint::kMessage, literal("No aggregated item, sequence was empty."));
    return !m.failed;
  }
  Span<const Value> keys;
  if (!keys_of(m, items, a[1], !truth(a[0]), &keys)) return false;
  size_t best = 0;
  for (size_t i = 1; i < items.size(); ++i) {
    bool better = false;
    if (!m.spend(1) || !compare(m, how, keys[i], keys[best], &better)) return false;
    if (better) best = i;
  }
  *out = items[best];
  return true;
}

bool sum(Machine& m, Span<const Value> items, const Value* a, Value* out) {
  Value total = absent(a[1]) ? integer(0) : a[1];
  Span<const Value> keys;
  if (!keys_of(m, items, a[0], false, &keys)) return false;
  if (total.kind == Kind::kString) return m.fail("sum() can't sum strings [use ''.join(seq) instead]");
  for (const Value& v : keys) {
    Value next;
    if (!m.spend(1) || !binary(m, Op::kAdd, total, v, &next)) return false;
    total = next;
  }
  *out = total;
  return true;
}

bool join(Machine& m, Span<const Value> items, const Value* a, Value* out) {
  Text between{Str("")};
  if (!absent(a[0]) && !to_text(m, a[0], &between)) return false;
  Build b(m);
  for (size_t i = 0; i < items.size(); ++i) {
    Value v = items[i];
    if (!absent(a[1]) && a[1].kind != Kind::kNone && !follow(m, items[i], a[1], &v)) return false;
    if ((i && !b.put(between)) || !put_text(m, b, v)) return false;
  }
  *out = b.take();
  return true;
}

bool reverse(Machine& m, const Value& v, Value* out) {
  if (v.kind == Kind::kString) return get_slice(m, v, none(), none(), integer(-1), out);
  Span<const Value> items;
  ListBuild list(m);
  if (!iterate(m, v, &items)) return false;
  for (size_t i = items.size(); i-- > 0;)
    if (!list.push(items[i])) return false;
  *out = list.take_iterator();
  return true;
}

bool first_or_last(Machine& m, FilterId id, const Value& v, Value* out) {
  if (v.kind == Kind::kIterator) {
    if (id == FilterId::kLast) return m.fail("'generator' object is not reversible");
    Iterator& it = *v.iterator;
    *out = it.at < it.n ? it.items[it.at++]
                        : undefined(m, Hint::kMessage, literal("No first item, sequence was empty."));
    return !m.failed;
  }
  Span<const Value> items;
  if (!iterate(m, v, &items)) return false;
  if (items.empty())
    *out = undefined(m, Hint::kMessage,
                     literal(id == FilterId::kFirst ? "No first item, sequence was empty."
                                                    : "No last item, sequence was empty."));
  else
    *out = id == FilterId::kFirst ? items[0] : items[items.size() - 1];
  return !m.failed;
}

bool batch(Machine& m, Span<const Value> items, const Value* a, Value* out) {
  int64_t n = 0;
  if (!to_index(m, a[0], &n)) return false;
  if (n < 1) return m.fail("batch: the count must be positive");
  const size_t size = static_cast<size_t>(n);
  if (size > kMaxRange) return m.fail_memory();
  ListBuild all(m);
  for (size_t i = 0; i < items.size(); i += size) {
    ListBuild one(m);
    for (size_t j = i; j < min_of(i + size, items.size()); ++j)
      if (!one.push(items[j])) return false;
    while (one.size() < size && !absent(a[1]) && a[1].kind != Kind::kNone)
      if (!one.push(a[1])) return false;
    if (!all.push(one.take(Kind::kList))) return false;
  }
  *out = all.take_iterator();
  return true;
}

bool slice(Machine& m, Span<const Value> items, const Value* a, Value* out) {
  int64_t n = 0;
  if (!to_index(m, a[0], &n)) return false;
  if (n < 1 || n > kMaxRange) return m.fail("slice: the count must be positive, at most ", kMaxRange);
  const size_t slices = static_cast<size_t>(n), each = items.size() / slices, extra = items.size() % slices;
  ListBuild all(m);
  size_t at = 0;
  for (size_t i = 0; i < slices; ++i) {
    ListBuild one(m);
    for (const size_t end = at + each + (i < extra); at < end; ++at)
      if (!one.push(items[at])) return false;
    if (!absent(a[1]) && a[1].kind != Kind::kNone && i >= extra && extra && !one.push(a[1])) return false;
    if (!all.push(one.take(Kind::kList))) return false;
  }
  *out = all.take_iterator();
  return true;
}

bool need_name(Machine& m, const Value& v, const char* what) {
  return v.kind == Kind::kString || m.fail("the name of a ", what, " must be a string, not ", type_name(v));
}

// select, reject, selectattr, rejectattr.
bool select(Machine& m, Span<const Value> items, const Args& args, bool by_attribute, bool wanted,
            Value* out) {
  Span<const Value> rest = args.positional;
  if (by_attribute && rest.empty()) return m.fail("Missing parameter for attribute name");
  const Value attribute = by_attribute ? rest[0] : Value();
  rest = rest.sub(by_attribute ? 1 : 0);
  int test = kNotFound;
  if (!rest.empty()) {
    if (!need_name(m, rest[0], "test")) return false;
    test = find_test(rest[0].str());
    if (test == kNotFound) return m.fail("No test named '", rest[0].str(), "'.");
    rest = rest.sub(1);
  }
  ListBuild list(m);
  for (const Value& item : items) {
    Value v = item;
    bool yes = false;
    if (by_attribute && !follow(m, item, attribute, &v)) return false;
    if (test == kNotFound)
      yes = truth(v);
    else if (!apply_test(m, static_cast<TestId>(test), v, rest, &yes))
      return false;
    if (yes == wanted && !list.push(item)) return false;
  }
  *out = list.take_iterator();
  return true;
}

bool map_attribute(Machine& m, Span<const Value> items, const Args& args, Value* out) {
  Value attribute, fallback;
  for (const NamedArg& a : args.named) {
    if (a.name.str() == "attribute")
      attribute = a.value;
    else if (a.name.str() == "default")
      fallback = a.value;
    else
      return m.fail("Unexpected keyword argument '", a.name.str(), "'");
  }
  if (absent(attribute)) return m.fail("map requires a filter argument");
  ListBuild list(m);
  for (const Value& item : items) {
    Value v;
    if (!follow(m, item, attribute, &v, fallback) || !list.push(v)) return false;
  }
  *out = list.take_iterator();
  return true;
}

bool map(Machine& m, Span<const Value> items, const Args& args, Value* out) {
  if (args.positional.empty()) return map_attribute(m, items, args, out);
  if (!need_name(m, args.positional[0], "filter")) return false;
  const int id = find_filter(args.positional[0].str());
  if (id == kNotFound) return m.fail("No filter named '", args.positional[0].str(), "'.");
  if (id == static_cast<int>(FilterId::kMap)) return m.fail("map within map is not supported");
  ListBuild list(m);
  for (const Value& item : items) {
    Value v;
    const Args rest{args.positional.sub(1), args.named};
    if (!m.spend(1) || !apply_filter(m, static_cast<FilterId>(id), item, rest, &v) || !list.push(v))
      return false;
  }
  *out = list.take_iterator();
  return true;
}

bool pairs_of(Machine& m, const Value& v, Value* out) {
  ListBuild list(m);
  if (v.kind == Kind::kDict) {
    Span<const Value> pairs;
    if (!dict_pairs(m, v, &pairs)) return false;
    for (const Value& pair : pairs)
      if (!list.push(pair)) return false;
  } else if (v.kind != Kind::kUndefined) {
    return m.fail("Can only get item pairs from a mapping.");
  }
  *out = list.take_iterator();
  return true;
}

}  // namespace

bool apply_sequence_filter(Machine& m, FilterId id, const Value& v, const Args& args, Value* out) {
  Value a[4];
  const Str parameters = filter_parameters(id);
  if (parameters != "*" && !bind(m, filter_name(id), parameters, args, a)) return false;
  Span<const Value> items;
  int64_t n = 0;
  switch (id) {
    case FilterId::kAttr:
      if (a[0].kind != Kind::kString) return m.fail("attr: the name must be a string");
      if (v.kind == Kind::kDict && find_method(MethodOf::kDict, a[0].str()) == kNotFound) {
        *out = undefined(m, Hint::kAttribute, a[0], v.kind);
        return !m.failed;
      }
      return get_attribute(m, v, a[0], out);
    case FilterId::kCount:
    case FilterId::kLength:
      if (!length_of(m, v, &n)) return false;
      *out = integer(n);
      return true;
    case FilterId::kDictsort:
      return dict_sort(m, v, a, out);
    case FilterId::kItems:
      return pairs_of(m, v, out);
    case FilterId::kFirst:
    case FilterId::kLast:
      return first_or_last(m, id, v, out);
    case FilterId::kReverse:
      return reverse(m, v, out);
    default:
      break;
  }
  // These begin with "if value:", so for them none is empty.
  const bool lenient = id == FilterId::kMap || id == FilterId::kSelect || id == FilterId::kReject ||
                       id == FilterId::kSelectattr || id == FilterId::kRejectattr;
  if (!(lenient && !truth(v)) && !iterate(m, v, &items)) return false;
  switch (id) {
    case FilterId::kList:
      *out = sequence(Kind::kList, items.data(), items.size());
      return true;
    case FilterId::kJoin:
      return join(m, items, a, out);
    case FilterId::kSort:
      return sort(m, items, a, out);
    case FilterId::kUnique:
      return unique(m, items, a, out);
    case FilterId::kGroupby:
      return group_by(m, items, a, out);
    case FilterId::kMin:
      return extreme(m, items, a, Compare::kLt, out);
    case FilterId::kMax:
      return extreme(m, items, a, Compare::kGt, out);
    case FilterId::kSum:
      return sum(m, items, a, out);
    case FilterId::kBatch:
      return batch(m, items, a, out);
    case FilterId::kSlice:
      return slice(m, items, a, out);
    case FilterId::kMap:
      return map(m, items, args, out);
    case FilterId::kSelect:
      return select(m, items, args, false, true, out);
    case FilterId::kReject:
      return select(m, items, args, false, false, out);
    case FilterId::kSelectattr:
      return select(m, items, args, true, true, out);
    case FilterId::kRejectattr:
      return select(m, items, args, true, false, out);
    default:
      return m.fail("no such filter");
  }
}

}  // namespace jinja
}  // namespace gcrt
