#include "runtime/text/grammar/schema_terms.h"

#include "runtime/base/sort.h"
#include "runtime/text/grammar/numbers.h"
#include "runtime/text/grammar/schema_work.h"

namespace gcrt {
namespace grammar {
namespace {

constexpr uint32_t kMostCubes = 2000;
constexpr uint64_t kMostSteps = 1'000'000;
constexpr uint32_t kNoEnd = 0xFFFFFFFF;

// Keywords that assert something which cannot be enforced here.
constexpr Str kRefused[] = {"$dynamicRef", "$recursiveRef", "dependencies", "additionalItems",
                            "extends",     "disallow",      "divisibleBy"};

}  // namespace

Status Terms::init() {
  if (!checking_.resize(doc_.size()) || !checked_.resize(doc_.size())) return kErrMemory;
  return references_.index();
}

void Terms::put_path(Writer& w, uint32_t node) const {
  uint32_t up[JsonDocument::kMostDepth + 2];
  size_t n = 0;
  for (; node != kNone && n < JsonDocument::kMostDepth + 2; node = doc_.parent(node)) up[n++] = node;
  w.put('#');
  for (size_t i = n; i-- > 0;) {
    const uint32_t parent = doc_.parent(up[i]);
    if (parent == kNone) continue;
    w.put('/');
    if (doc_.is(parent, JsonKind::kObject)) {
      w.put(doc_.key(up[i]));
    } else {
      uint64_t index = 0;
      for (uint32_t c = doc_.first(parent); c != up[i]; c = doc_.next(c)) ++index;
      w.put_uint(index);
    }
  }
}

uint32_t Terms::term(Span<const Ref> refs) {
  sorted_.clear();
  if (!sorted_.append(refs)) return kNone;
  sort(sorted_.data(), sorted_.size(), [](Ref a, Ref b) { return a < b; });
  size_t n = 0;
  for (Ref r : sorted_)
    if (r != kAnything && !(n && sorted_[n - 1] == r)) sorted_[n++] = r;
  sorted_.truncate(n);
  return sets_.intern(sorted_);
}

// No way from a schema over others of the same value may lead back to it.
Status Terms::check(uint32_t node) {
  if (checked_[node] || !doc_.is(node, JsonKind::kObject)) return kOk;
  if (checking_[node]) return fail(kErrInput, node, "a $ref leads back to itself");
  if (depth_ > 500) return fail(kErrInput, node, "schemas refer to each other too deeply");
  checking_[node] = 1;
  ++depth_;
  Status s = kOk;
  for (uint32_t m = doc_.first(node); m != kNone && s == kOk; m = doc_.next(m)) {
    const Str key = doc_.key(m);
    if (key == "$ref") {
      uint32_t to = kNone;
      s = target(node, m, &to);
      if (s == kOk) s = check(to);
    } else if (key == "not" || key == "if" || key == "then" || key == "else") {
      s = check(m);
    } else if (key == "allOf" || key == "anyOf" || key == "oneOf" || key == "dependentSchemas") {
      for (uint32_t c = doc_.first(m); c != kNone && s == kOk; c = doc_.next(c)) s = check(c);
    }
  }
  --depth_;
  checking_[node] = 0;
  checked_[node] = 1;
  return s;
}

Status Terms::target(uint32_t schema, uint32_t member, uint32_t* out) {
  if (!doc_.is(member, JsonKind::kString)) return fail(kErrInput, member, "expected a string");
  const Str ref = doc_.text(member);
  if (const Status s = references_.resolve(schema, ref, out); s != kOk) return s;
  if (*out == kNone) {
    if (ref.starts_with("#")) return fail(kErrInput, member, "'", ref, "' is not in the schema");
    return fail(kErrUnsupported, member, "'", ref,
                "' is not in this document; other documents are not supported");
  }
  return kOk;
}

Status Terms::number(uint32_t node, uint32_t* out) {
  Decimal d(allocator_);
  Status s = doc_.is(node, JsonKind::kNumber) ? parse_decimal(doc_.text(node), d) : kErrInput;
  if (s == kErrMemory) return s;
  const int64_t v = s == kOk ? d.small() : -1;
  if (v < 0) return fail(kErrInput, node, "expected a whole number below 10^9");
  *out = static_cast<uint32_t>(v);
  return kOk;
}

Status Terms::types_of(uint32_t member, uint32_t* types, bool* integer) {
  *types = 0;
  *integer = false;
  bool number = false;
  auto add = [&](uint32_t n) {
    if (!doc_.is(n, JsonKind::kString)) return false;
    const Str t = doc_.text(n);
    number |= t == "number";
    *integer |= t == "integer";
    const uint32_t bits = t == "null"                       ? kNull
                          : t == "boolean"                  ? kFalse | kTrue
                          : t == "number" || t == "integer" ? kNumber
                          : t == "string"                   ? kString
                          : t == "array"                    ? kArray
                          : t == "object"                   ? kObject
                                                            : 0;
    *types |= bits;
    return bits != 0;
  };
  bool ok = true;
  if (doc_.is(member, JsonKind::kArray))
    for (uint32_t c = doc_.first(member); c != kNone; c = doc_.next(c)) ok = ok && add(c);
  else
    ok = add(member);
  if (!ok) return fail(kErrInput, member, "expected null, boolean, number, integer, string, array or object");
  *integer = *integer && !number;
  return kOk;
}

// Where `items` begins.
uint32_t Terms::first_item(uint32_t schema) const {
  const uint32_t prefix = doc_.find(schema, "prefixItems");
  return prefix == kNone ? 0 : doc_.count(prefix);
}

// Do unevaluatedItems and unevaluatedProperties speak of what the schema's own keywords leave over?
bool Terms::evaluates_alone(uint32_t schema) const {
  constexpr Str kOthers[] = {"$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "contains"};
  for (Str k : kOthers)
    if (doc_.find(schema, k) != kNone) return false;
  return true;
}

Status Terms::expand(Span<const Ref> refs, Vec<Cube>& out) {
  Vec<Choice> choices(allocator_);
  Work work(allocator_);
  work.choices = &choices;
  for (size_t i = refs.size(); i-- > 0;)
    if (!work.pending.push(refs[i])) return kErrMemory;
  const uint32_t outer = n_cubes_;
  n_cubes_ = 0;
  const Status s = run(work, out);
  n_cubes_ = outer;
  return s;
}

Status Terms::run(Work& w, Vec<Cube>& out) {
  while (!w.pending.empty()) {
    const Ref ref = w.pending.back();
    w.pending.pop();
    if (const Status s = take(w, ref); s != kOk) return s;
    if (w.cube.types == 0) return kOk;
  }
  if (++n_cubes_ > kMostCubes || ++steps_ > kMostSteps) return kErrFull;
  if (w.open.empty()) {
    Cube cube(allocator_);
    cube.types = w.cube.types, cube.closed = w.cube.closed;
    return cube.facts.copy(w.cube.facts) && out.push(static_cast<Cube&&>(cube)) ? kOk : kErrMemory;
  }
  const uint32_t choice = w.open.back();
  w.open.pop();
  for (size_t i = 0; i < (*w.choices)[choice].ways.size(); ++i) {
    Work next(allocator_);
    if (!next.copy(w)) return kErrMemory;
    const Way& way = (*w.choices)[choice].ways[i];
    next.cube.types &= way.types;
    if (next.cube.types == 0) continue;
    if (!next.cube.facts.append(way.facts)) return kErrMemory;
    for (size_t r = way.refs.size(); r-- > 0;)
      if (!next.pending.push(way.refs[r])) return kErrMemory;
    if (const Status s = run(next, out); s != kOk) return s;
  }
  return kOk;
}

Status Terms::take(Work& w, Ref ref) {
  if (ref == kAnything) return kOk;
  if (ref == kNothing) {
    w.cube.types = 0;
    return kOk;
  }
  for (Ref d : w.done) {
    if (d == ref) return kOk;
    if (d == (ref ^ 1)) {
      w.cube.types = 0;
      return kOk;
    }
  }
  if (!w.done.push(ref)) return kErrMemory;
  const uint32_t node = ref >> 2;
  const bool negated = ref & 1;
  if (ref & 2) return take_value(w, node, negated);
  switch (doc_.kind(node)) {
    case JsonKind::kTrue:
    case JsonKind::kFalse:
      if (doc_.is(node, JsonKind::kTrue) == negated) w.cube.types = 0;
      return kOk;
    case JsonKind::kObject:
      break;
    case JsonKind::kNull:
    case JsonKind::kNumber:
    case JsonKind::kString:
    case JsonKind::kArray:
      return fail(kErrInput, node, "expected a schema: an object, true or false");
  }
  if (const Status s = check(node); s != kOk) return s;
  return negated ? deny_schema(w, node) : assert_schema(w, node);
}

// A value itself: a scalar is a fact, arrays and objects are the facts that make them up.
Status Terms::take_value(Work& w, uint32_t node, bool negated) {
  const JsonKind kind = doc_.kind(node);
  const uint32_t types = kind == JsonKind::kNull     ? kNull
                         : kind == JsonKind::kFalse  ? kFalse
                         : kind == JsonKind::kTrue   ? kTrue
                         : kind == JsonKind::kNumber ? kNumber
                         : kind == JsonKind::kString ? kString
                         : kind == JsonKind::kArray  ? kArray
                                                     : kObject;
  if (!negated) w.cube.types &= types;
  if (kind == JsonKind::kNull || kind == JsonKind::kFalse || kind == JsonKind::kTrue) {
    if (negated) w.cube.types &= ~types;
    return kOk;
  }
  if (kind == JsonKind::kNumber || kind == JsonKind::kString) {
    Fact f = fact(kind == JsonKind::kNumber ? FactKind::kNumberIn : FactKind::kStringIn, node);
    f.negated = negated;
    return w.add(f) ? kOk : kErrMemory;
  }
  const bool array = kind == JsonKind::kArray;
  const uint32_t n = doc_.count(node);
  bool ok = true;
  uint32_t i = 0;
  if (!negated) {
    if (array) ok = w.add(counted(FactKind::kItems, n, n));
    for (uint32_t c = doc_.first(node); c != kNone && ok; c = doc_.next(c), ++i) {
      Fact f = keyed(array ? FactKind::kItemAt : FactKind::kProperty, doc_.key(c), value_ref(c));
      f.a = i;
      ok = w.add(f);
      if (!array) ok = ok && w.add(keyed(FactKind::kRequired, doc_.key(c)));
    }
    Fact others = fact(FactKind::kOthers, node);
    others.ref = kNothing;
    others.exclusive = true;
    if (!array) ok = ok && w.add(others);
    return ok ? kOk : kErrMemory;
  }
  Choice* choice = w.choice(allocator_);
  if (!choice) return kErrMemory;
  auto way = [&](uint32_t of_types) -> Way& {
    ok = ok && choice->ways.push(Way(allocator_));
    choice->ways.back().types = of_types;
    return choice->ways.back();
  };
  if (!choice->ways.reserve(4 + 2 * size_t{n})) return kErrMemory;
  way(kAllTypes & ~types);
  if (array) {
    if (n) ok = way(types).facts.push(counted(FactKind::kItems, 0, n - 1)) && ok;
    ok = way(types).facts.push(counted(FactKind::kItems, n + 1, kNoEnd)) && ok;
  } else {
    Fact other = fact(FactKind::kSomeOther, node);
    other.exclusive = true;
    ok = way(types).facts.push(other) && ok;
  }
  for (uint32_t c = doc_.first(node); c != kNone && ok; c = doc_.next(c), ++i) {
    Way& differs = way(types);
    if (array) {
      Fact f = fact(FactKind::kItemAt);
      f.a = i, f.ref = value_ref(c, true);
      ok = differs.facts.push(f) && differs.facts.push(counted(FactKind::kItems, i + 1, kNoEnd)) && ok;
    } else {
      ok = differs.facts.push(keyed(FactKind::kRequired, doc_.key(c))) &&
           differs.facts.push(keyed(FactKind::kProperty, doc_.key(c), value_ref(c, true))) && ok;
      ok = way(types).facts.push(keyed(FactKind::kAbsent, doc_.key(c))) && ok;
    }
  }
  return ok ? kOk : kErrMemory;
}

Status Terms::assert_schema(Work& w, uint32_t node) {
  const uint32_t type = doc_.find(node, "type");
  bool open = type == kNone || !doc_.is(type, JsonKind::kString) || doc_.text(type) != "object" ||
              doc_.find(node, "properties") == kNone;
  constexpr Str kOfOthers[] = {"additionalProperties", "patternProperties", "propertyNames", "minProperties",
                               "unevaluatedProperties"};
  for (Str k : kOfOthers) open |= doc_.find(node, k) != kNone;
  w.cube.closed |= !open;
  for (uint32_t m = doc_.first(node); m != kNone; m = doc_.next(m))
    if (const Status s = assert_keyword(w, node, m); s != kOk) return s;
  const uint32_t condition = doc_.find(node, "if");
  const uint32_t then = doc_.find(node, "then"), otherwise = doc_.find(node, "else");
  if (condition == kNone || (then == kNone && otherwise == kNone)) return kOk;
  Choice* c = w.choice(allocator_);
  if (!c) return kErrMemory;
  for (int i = 0; i < 2; ++i) {
    const bool holds = i == 0;
    Way way(allocator_);
    const uint32_t branch = holds ? then : otherwise;
    if (!way.refs.push(schema_ref(condition, !holds)) ||
        (branch != kNone && !way.refs.push(schema_ref(branch))) || !c->ways.push(static_cast<Way&&>(way)))
      return kErrMemory;
  }
  return kOk;
}

Status Terms::take_one_of(Work& w, uint32_t member) {
  Choice made(allocator_);
  for (uint32_t a = doc_.first(member); a != kNone; a = doc_.next(a)) {
    Way way(allocator_);
    if (!way.refs.push(schema_ref(a))) return kErrMemory;
    for (uint32_t b = doc_.first(member); b != kNone; b = doc_.next(b)) {
      bool apart = false;
      if (a == b) continue;
      if (const Status s = disjoint(schema_ref(a), schema_ref(b), &apart); s != kOk) return s;
      if (!apart && !way.refs.push(schema_ref(b, true))) return kErrMemory;
    }
    if (!made.ways.push(static_cast<Way&&>(way))) return kErrMemory;
  }
  Choice* c = w.choice(allocator_);
  if (!c) return kErrMemory;
  *c = static_cast<Choice&&>(made);
  return kOk;
}

// Scalars together; each array and object is a way of its own.
Status Terms::take_enum(Work& w, uint32_t member) {
  if (!doc_.is(member, JsonKind::kArray)) return fail(kErrInput, member, "expected an array");
  uint32_t types = 0;
  bool composite = false;
  for (uint32_t v = doc_.first(member); v != kNone; v = doc_.next(v)) {
    const JsonKind k = doc_.kind(v);
    types |= k == JsonKind::kNull     ? kNull
             : k == JsonKind::kFalse  ? kFalse
             : k == JsonKind::kTrue   ? kTrue
             : k == JsonKind::kNumber ? kNumber
             : k == JsonKind::kString ? kString
                                      : 0;
    composite |= k == JsonKind::kArray || k == JsonKind::kObject;
  }
  Way scalars(allocator_);
  scalars.types = types;
  if (!scalars.facts.push(fact(FactKind::kNumberIn, member)) ||
      !scalars.facts.push(fact(FactKind::kStringIn, member)))
    return kErrMemory;
  if (!composite) {
    w.cube.types &= types;
    return w.cube.facts.append(scalars.facts) ? kOk : kErrMemory;
  }
  Choice* c = w.choice(allocator_);
  if (!c || !c->ways.push(static_cast<Way&&>(scalars))) return kErrMemory;
  for (uint32_t v = doc_.first(member); v != kNone; v = doc_.next(v)) {
    if (!doc_.is(v, JsonKind::kArray) && !doc_.is(v, JsonKind::kObject)) continue;
    Way way(allocator_);
    if (!way.refs.push(value_ref(v)) || !c->ways.push(static_cast<Way&&>(way))) return kErrMemory;
  }
  return kOk;
}

Status Terms::assert_keyword(Work& w, uint32_t schema, uint32_t m) {
  const Str key = doc_.key(m);
  const JsonKind kind = doc_.kind(m);
  for (Str refused : kRefused)
    if (key == refused) return fail(kErrUnsupported, schema, key, " is not supported");
  if (key == "uniqueItems")
    return kind == JsonKind::kFalse ? kOk : fail(kErrUnsupported, schema, key, " is not supported");
  const bool of_schemas = key == "allOf" || key == "anyOf" || key == "oneOf" || key == "prefixItems";
  if (of_schemas && (kind != JsonKind::kArray || doc_.count(m) == 0))
    return fail(kErrInput, m, "expected an array of schemas");
  const bool of_named = key == "properties" || key == "patternProperties" || key == "dependentSchemas" ||
                        key == "dependentRequired";
  if (of_named && kind != JsonKind::kObject) return fail(kErrInput, m, "expected an object");

  bool ok = true;
  Fact f;
  f.node = m;
  auto add = [&](FactKind k) {
    f.kind = k;
    return w.add(f) ? kOk : kErrMemory;
  };
  if (key == "$ref") {
    uint32_t to = kNone;
    if (const Status s = target(schema, m, &to); s != kOk) return s;
    return w.pending.push(schema_ref(to)) ? kOk : kErrMemory;
  }
  if (key == "allOf") {
    for (uint32_t c = doc_.first(m); c != kNone; c = doc_.next(c)) ok = w.pending.push(schema_ref(c)) && ok;
    return ok ? kOk : kErrMemory;
  }
  if (key == "not") return w.pending.push(schema_ref(m, true)) ? kOk : kErrMemory;
  if (key == "anyOf") {
    Choice* c = w.choice(allocator_);
    for (uint32_t s = doc_.first(m); s != kNone && c; s = doc_.next(s)) {
      Way way(allocator_);
      ok = way.refs.push(schema_ref(s)) && c->ways.push(static_cast<Way&&>(way)) && ok;
    }
    return c && ok ? kOk : kErrMemory;
  }
  if (key == "oneOf") return take_one_of(w, m);
  if (key == "enum") return take_enum(w, m);
  if (key == "const") return w.pending.push(value_ref(m)) ? kOk : kErrMemory;
  if (key == "type") {
    uint32_t types = 0;
    bool integer = false;
    if (const Status s = types_of(m, &types, &integer); s != kOk) return s;
    w.cube.types &= types;
    return integer ? add(FactKind::kInteger) : kOk;
  }
  // Numbers.
  const bool minimum = key == "minimum" || key == "exclusiveMinimum";
  if (minimum || key == "maximum" || key == "exclusiveMaximum" || key == "multipleOf") {
    if (kind != JsonKind::kNumber) return fail(kErrInput, m, "expected a number");
    f.exclusive = key.starts_with("e");
    return add(key == "multipleOf" ? FactKind::kMultiple : minimum ? FactKind::kMinimum : FactKind::kMaximum);
  }
  // Counts.
  const bool of_length = key == "minLength" || key == "maxLength",
             of_items = key == "minItems" || key == "maxItems",
             of_properties = key == "minProperties" || key == "maxProperties";
  if (of_length || of_items || of_properties) {
    uint32_t n = 0;
    if (const Status s = number(m, &n); s != kOk) return s;
    (key.starts_with("min") ? f.a : f.b) = n;
    return add(of_length ? FactKind::kLength : of_items ? FactKind::kItems : FactKind::kProperties);
  }
  // Strings.
  if (key == "pattern" || key == "format") {
    if (kind != JsonKind::kString) return fail(kErrInput, m, "expected a string");
    f.text = doc_.text(m);
    return add(key == "pattern" ? FactKind::kPattern : FactKind::kFormat);
  }
  // Arrays.
  if (key == "prefixItems") {
    for (uint32_t c = doc_.first(m); c != kNone && ok; c = doc_.next(c), ++f.a) {
      f.ref = schema_ref(c);
      ok = add(FactKind::kItemAt) == kOk;
    }
    return ok ? kOk : kErrMemory;
  }
  if (key == "items") {
    if (kind == JsonKind::kArray)
      return fail(kErrUnsupported, schema, "items as an array is not supported; see prefixItems");
    f.a = first_item(schema), f.ref = schema_ref(m);
    return add(FactKind::kItemsFrom);
  }
  if (key == "unevaluatedItems" || key == "unevaluatedProperties") {
    const bool items = key == "unevaluatedItems";
    if (kind == JsonKind::kTrue || doc_.find(schema, items ? "items" : "additionalProperties") != kNone)
      return kOk;
    if (!evaluates_alone(schema))
      return fail(kErrUnsupported, schema, key,
                  " beside a keyword that applies other schemas is not supported");
    f.node = schema, f.a = first_item(schema), f.ref = schema_ref(m);
    return add(items ? FactKind::kItemsFrom : FactKind::kOthers);
  }
  if (key == "contains") {
    const uint32_t min = doc_.find(schema, "minContains"), max = doc_.find(schema, "maxContains");
    f.a = 1, f.ref = schema_ref(m);
    Status s = min != kNone ? number(min, &f.a) : kOk;
    if (s == kOk && max != kNone) s = number(max, &f.b);
    return s == kOk ? add(FactKind::kCount) : s;
  }
  // Objects.
  if (key == "properties" || key == "patternProperties") {
    for (uint32_t c = doc_.first(m); c != kNone && ok; c = doc_.next(c)) {
      f.node = c, f.text = doc_.key(c), f.ref = schema_ref(c);
      ok = add(key == "properties" ? FactKind::kProperty : FactKind::kMatching) == kOk;
    }
    return ok ? kOk : kErrMemory;
  }
  if (key == "additionalProperties" || key == "propertyNames") {
    f.node = schema, f.ref = schema_ref(m);
    return add(key == "propertyNames" ? FactKind::kNames : FactKind::kOthers);
  }
  if (key == "required") {
    if (kind != JsonKind::kArray) return fail(kErrInput, m, "expected an array");
    for (uint32_t c = doc_.first(m); c != kNone && ok; c = doc_.next(c)) {
      if (!doc_.is(c, JsonKind::kString)) return fail(kErrInput, m, "expected strings");
      ok = w.add(keyed(FactKind::kRequired, doc_.text(c)));
    }
    return ok ? kOk : kErrMemory;
  }
  if (key == "dependentRequired" || key == "dependentSchemas") {
    for (uint32_t c = doc_.first(m); c != kNone; c = doc_.next(c)) {
      Choice* choice = w.choice(allocator_);
      Way without(allocator_), with(allocator_);
      ok = without.facts.push(keyed(FactKind::kAbsent, doc_.key(c)));
      if (key == "dependentSchemas") {
        // The schema speaks of values of other types too, where the keyword doesn't.
        Way other(allocator_);
        other.types = kAllTypes & ~kObject;
        without.types = with.types = kObject;
        ok = with.refs.push(schema_ref(c)) && choice && choice->ways.push(static_cast<Way&&>(other)) && ok;
      }
      for (uint32_t r = doc_.first(c); r != kNone && key == "dependentRequired"; r = doc_.next(r))
        ok = with.facts.push(keyed(FactKind::kRequired, doc_.text(r))) && ok;
      ok = with.facts.push(keyed(FactKind::kRequired, doc_.key(c))) && ok;
      ok = ok && choice && choice->ways.push(static_cast<Way&&>(without)) &&
           choice->ways.push(static_cast<Way&&>(with));
      if (!ok) return kErrMemory;
    }
  }
  return kOk;
}

Status Terms::disjoint(Ref a, Ref b, bool* out) {
  const Ref both[] = {a, b};
  *out = false;
  const Status s = surely_empty(Span<const Ref>(both), 0, out);
  return s == kErrFull ? kOk : s;
}

}  // namespace grammar
}  // namespace gcrt
