// Negations: a schema does not hold when one of its keywords doesn't, and of each keyword it is known how it can fail.
#include "runtime/text/grammar/schema_work.h"

namespace gcrt {
namespace grammar {
namespace {
constexpr uint32_t kNoEnd = 0xFFFFFFFF;
}

Status Terms::deny_schema(Work& w, uint32_t node) {
  Choice made(allocator_);
  for (uint32_t m = doc_.first(node); m != kNone; m = doc_.next(m))
    if (const Status s = deny_keyword(node, m, made); s != kOk) return s;
  Choice* c = w.choice(allocator_);
  if (!c) return kErrMemory;
  *c = static_cast<Choice&&>(made);
  return kOk;
}

Status Terms::deny_enum(uint32_t m, Choice& c) {
  if (!doc_.is(m, JsonKind::kArray)) return fail(kErrInput, m, "expected an array");
  Way way(allocator_);
  bool numbers = false, strings = false, ok = true;
  for (uint32_t v = doc_.first(m); v != kNone; v = doc_.next(v)) {
    const bool number = doc_.is(v, JsonKind::kNumber), string = doc_.is(v, JsonKind::kString);
    numbers |= number, strings |= string;
    if (!number && !string) ok = way.refs.push(value_ref(v, true)) && ok;
  }
  Fact f = fact(FactKind::kNumberIn, m);
  f.negated = true;
  if (numbers) ok = way.facts.push(f) && ok;
  f.kind = FactKind::kStringIn;
  if (strings) ok = way.facts.push(f) && ok;
  return ok && c.ways.push(static_cast<Way&&>(way)) ? kOk : kErrMemory;
}

Status Terms::deny_keyword(uint32_t schema, uint32_t m, Choice& c) {
  const Str key = doc_.key(m);
  const JsonKind kind = doc_.kind(m);
  bool ok = true;
  // A way with these types and facts.
  auto way = [&](uint32_t types, auto... facts) -> Way& {
    Way made(allocator_);
    made.types = types;
    (void)((ok = made.facts.push(facts) && ok), ...);
    ok = c.ways.push(static_cast<Way&&>(made)) && ok;
    return c.ways.back();
  };
  // A way with these schemas.
  auto way_of = [&](auto... refs) {
    Way made(allocator_);
    (void)((ok = made.refs.push(refs) && ok), ...);
    ok = c.ways.push(static_cast<Way&&>(made)) && ok;
  };
  auto negated = [&](FactKind k) {
    Fact f = fact(k, m);
    f.negated = true;
    f.exclusive = key.starts_with("e");
    if (doc_.is(m, JsonKind::kString)) f.text = doc_.text(m);
    return f;
  };
  auto done = [&] { return ok ? kOk : kErrMemory; };
  const Str refused[] = {"$dynamicRef", "$recursiveRef", "dependencies", "additionalItems",
                         "extends",     "disallow",      "divisibleBy"};
  for (Str r : refused)
    if (key == r) return fail(kErrUnsupported, schema, key, " is not supported");
  if (key == "unevaluatedItems" || key == "unevaluatedProperties")
    return kind == JsonKind::kTrue ? kOk
                                   : fail(kErrUnsupported, schema, "a negated ", key, " is not supported");
  if (key == "uniqueItems")
    return kind == JsonKind::kFalse ? kOk : fail(kErrUnsupported, schema, key, " is not supported");
  if (key == "format") return fail(kErrUnsupported, schema, "a negated format is not supported");

  if (key == "$ref") {
    uint32_t to = kNone;
    if (const Status s = target(schema, m, &to); s != kOk) return s;
    way_of(schema_ref(to, true));
    return done();
  }
  if (key == "allOf") {
    for (uint32_t s = doc_.first(m); s != kNone; s = doc_.next(s)) way_of(schema_ref(s, true));
    return done();
  }
  if (key == "anyOf" || key == "oneOf") {
    Way none(allocator_);
    for (uint32_t s = doc_.first(m); s != kNone; s = doc_.next(s))
      ok = none.refs.push(schema_ref(s, true)) && ok;
    ok = c.ways.push(static_cast<Way&&>(none)) && ok;
    for (uint32_t a = doc_.first(m); a != kNone && key == "oneOf"; a = doc_.next(a))
      for (uint32_t b = doc_.next(a); b != kNone; b = doc_.next(b)) way_of(schema_ref(a), schema_ref(b));
    return done();
  }
  if (key == "not") {
    way_of(schema_ref(m));
    return done();
  }
  if (key == "if") {
    const uint32_t then = doc_.find(schema, "then"), otherwise = doc_.find(schema, "else");
    if (then != kNone) way_of(schema_ref(m), schema_ref(then, true));
    if (otherwise != kNone) way_of(schema_ref(m, true), schema_ref(otherwise, true));
    return done();
  }
  if (key == "enum") return deny_enum(m, c);
  if (key == "const") {
    way_of(value_ref(m, true));
    return done();
  }
  if (key == "type") {
    uint32_t types = 0;
    bool integer = false;
    if (const Status s = types_of(m, &types, &integer); s != kOk) return s;
    way(kAllTypes & ~types);
    if (integer) way(kNumber, negated(FactKind::kInteger));
    return done();
  }
  const bool minimum = key == "minimum" || key == "exclusiveMinimum";
  if (minimum || key == "maximum" || key == "exclusiveMaximum" || key == "multipleOf") {
    if (kind != JsonKind::kNumber) return fail(kErrInput, m, "expected a number");
    way(kNumber, negated(key == "multipleOf" ? FactKind::kMultiple
                         : minimum           ? FactKind::kMinimum
                                             : FactKind::kMaximum));
    return done();
  }
  const bool of_length = key == "minLength" || key == "maxLength",
             of_items = key == "minItems" || key == "maxItems",
             of_properties = key == "minProperties" || key == "maxProperties";
  if (of_length || of_items || of_properties) {
    uint32_t n = 0;
    if (const Status s = number(m, &n); s != kOk) return s;
    const FactKind k = of_length ? FactKind::kLength : of_items ? FactKind::kItems : FactKind::kProperties;
    const uint32_t type = of_length ? kString : of_items ? kArray : kObject;
    if (key.starts_with("max"))
      way(type, counted(k, n + 1, kNoEnd));
    else if (n)
      way(type, counted(k, 0, n - 1));
    return done();
  }
  if (key == "pattern") {
    if (kind != JsonKind::kString) return fail(kErrInput, m, "expected a string");
    way(kString, negated(FactKind::kPattern));
    return done();
  }
  if (key == "prefixItems") {
    uint32_t i = 0;
    for (uint32_t s = doc_.first(m); s != kNone; s = doc_.next(s), ++i) {
      Fact f = fact(FactKind::kItemAt, m);
      f.a = i, f.ref = schema_ref(s, true);
      way(kArray, f, counted(FactKind::kItems, i + 1, kNoEnd));
    }
    return done();
  }
  if (key == "items") {
    if (kind == JsonKind::kArray)
      return fail(kErrUnsupported, schema, "items as an array is not supported; see prefixItems");
    Fact f = fact(FactKind::kSomeFrom, m);
    f.a = first_item(schema), f.ref = schema_ref(m, true);
    way(kArray, f);
    return done();
  }
  if (key == "contains") {
    const uint32_t least = doc_.find(schema, "minContains"), most = doc_.find(schema, "maxContains");
    uint32_t min = 1, max = kNoEnd;
    Status s = least != kNone ? number(least, &min) : kOk;
    if (s == kOk && most != kNone) s = number(most, &max);
    if (s != kOk) return s;
    Fact f = fact(FactKind::kCount, m);
    f.ref = schema_ref(m);
    if (min) {
      f.a = 0, f.b = min - 1;
      way(kArray, f);
    }
    if (max != kNoEnd) {
      f.a = max + 1, f.b = kNoEnd;
      way(kArray, f);
    }
    return done();
  }
  if (key == "properties" || key == "patternProperties") {
    for (uint32_t p = doc_.first(m); p != kNone; p = doc_.next(p)) {
      Fact some = keyed(FactKind::kSomeMatching, doc_.key(p), schema_ref(p, true));
      some.node = p;
      if (key == "properties")
        way(kObject, keyed(FactKind::kRequired, doc_.key(p)),
            keyed(FactKind::kProperty, doc_.key(p), schema_ref(p, true)));
      else
        way(kObject, some);
    }
    return done();
  }
  if (key == "additionalProperties" || key == "propertyNames") {
    Fact f = fact(key == "propertyNames" ? FactKind::kSomeName : FactKind::kSomeOther, schema);
    f.ref = schema_ref(m, true);
    way(kObject, f);
    return done();
  }
  if (key == "required") {
    for (uint32_t r = doc_.first(m); r != kNone; r = doc_.next(r))
      way(kObject, keyed(FactKind::kAbsent, doc_.text(r)));
    return done();
  }
  if (key == "dependentRequired" || key == "dependentSchemas")
    for (uint32_t p = doc_.first(m); p != kNone; p = doc_.next(p)) {
      if (key == "dependentSchemas") {
        Way& fails = way(kObject, keyed(FactKind::kRequired, doc_.key(p)));
        ok = fails.refs.push(schema_ref(p, true)) && ok;
        continue;
      }
      for (uint32_t r = doc_.first(p); r != kNone; r = doc_.next(r))
        way(kObject, keyed(FactKind::kRequired, doc_.key(p)), keyed(FactKind::kAbsent, doc_.text(r)));
    }
  return done();
}

}  // namespace grammar
}  // namespace gcrt
