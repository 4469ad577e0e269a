// Objects: named properties in their order, then others, whose keys are parted into cells by what their values must fulfil.
//
// A key may be written twice, and then its last value counts. Named keys and others are told apart, so only others can
// be; that is why a property that must be there among them comes last, and why they count as one towards minProperties.
#include "runtime/text/grammar/schema_emit.h"

namespace gcrt {
namespace grammar {

// The keys that a fact speaks of.
Status SchemaEmitter::key_set(const Fact& f, Dfa& out) {
  Dfa part(a_);
  switch (f.kind) {
    case FactKind::kMatching:
    case FactKind::kSomeMatching:
      return terms_.regex(f.node, "the pattern", f.text, out);
    case FactKind::kOthers:
    case FactKind::kSomeOther: {
      Status s = out.set_all();
      auto without = [&](uint32_t members) {
        for (uint32_t m = members == kNone ? kNone : doc_.first(members); m != kNone && s == kOk;
             m = doc_.next(m)) {
          s = part.set_text(doc_.key(m));
          if (s == kOk) s = out.apply(part, Dfa::Op::kWithout);
        }
      };
      if (f.exclusive) {
        without(f.node);  // a value's own
        return s;
      }
      without(doc_.find(f.node, "properties"));
      const uint32_t patterns = doc_.find(f.node, "patternProperties");
      for (uint32_t m = patterns == kNone ? kNone : doc_.first(patterns); m != kNone && s == kOk;
           m = doc_.next(m)) {
        s = terms_.regex(m, "the pattern", doc_.key(m), part);
        if (s == kOk) s = out.apply(part, Dfa::Op::kWithout);
      }
      return s;
    }
    case FactKind::kNames:
    case FactKind::kSomeName:
      return terms_.string_language(Span<const Ref>(&f.ref, 1), out);
    default:
      return out.set_all();
  }
}

// Names of one object: each is looked for among all.
constexpr size_t kMostNames = 4096;

Status SchemaEmitter::shape(const Cube& c, ObjectShape& s) {
  Status full = kOk;
  auto named = [&](Str key) -> Named* {
    for (Named& n : s.named)
      if (n.key == key) return &n;
    full = s.named.size() < kMostNames ? kErrMemory : kErrFull;
    if (full == kErrFull || !s.named.push(Named(a_))) return nullptr;
    s.named.back().key = key;
    return &s.named.back();
  };
  // In the order of `properties`, then of `required`.
  for (int round = 0; round < 2; ++round)
    for (const Fact& f : c.facts) {
      const bool property = f.kind == FactKind::kProperty;
      if (property != (round == 0)) continue;
      if (!property && f.kind != FactKind::kRequired && f.kind != FactKind::kAbsent) continue;
      Named* n = named(f.text);
      if (!n) return full;
      if (property && !n->refs.push(f.ref)) return kErrMemory;
      n->required |= f.kind == FactKind::kRequired;
      n->absent |= f.kind == FactKind::kAbsent;
    }
  for (const Fact& f : c.facts) {
    if (f.kind == FactKind::kProperties) {
      s.min = max_of(s.min, f.a), s.max = min_of(s.max, f.b);
      s.node = f.node;
    }
    if (f.kind != FactKind::kMatching && f.kind != FactKind::kOthers && f.kind != FactKind::kNames) continue;
    Dfa keys(a_);
    if (const Status status = key_set(f, keys); status != kOk) return status;
    for (Named& n : s.named) {
      const bool in = keys.accepts(n.key);
      if (f.kind == FactKind::kNames) n.absent |= !in;
      if (f.kind != FactKind::kNames && in && !n.refs.push(f.ref)) return kErrMemory;
    }
  }
  return kOk;
}

Status SchemaEmitter::split_cells(const Cube& c, ObjectShape& s) {
  Cell all(a_);
  Dfa part(a_);
  all.any_key = true;
  Status status = all.keys.set_all();
  auto limit = [&](Dfa::Op op) {
    all.any_key = false;
    return all.keys.apply(part, op);
  };
  for (const Named& n : s.named) {
    if (status == kOk) status = part.set_text(n.key);
    if (status == kOk) status = limit(Dfa::Op::kWithout);
  }
  for (const Fact& f : c.facts) {
    if (f.kind != FactKind::kNames) continue;
    if (status == kOk) status = key_set(f, part);
    if (status == kOk) status = limit(Dfa::Op::kAnd);
  }
  if (status != kOk) return status;
  if (!s.cells.push(static_cast<Cell&&>(all))) return kErrMemory;
  for (const Fact& f : c.facts) {
    if (f.kind != FactKind::kMatching && f.kind != FactKind::kOthers) continue;
    if (f.ref == kAnything) continue;
    if ((status = key_set(f, part)) != kOk) return status;
    for (size_t i = 0, n = s.cells.size(); i < n; ++i) {
      Cell in(a_);
      status = in.keys.combine(s.cells[i].keys, part, Dfa::Op::kAnd);
      if (status == kOk && in.keys.empty()) continue;
      Dfa rest(a_);
      if (status == kOk) status = rest.combine(s.cells[i].keys, part, Dfa::Op::kWithout);
      if (status != kOk) return status;
      if (rest.empty()) {
        if (!s.cells[i].refs.push(f.ref)) return kErrMemory;
        continue;
      }
      if (!in.refs.copy(s.cells[i].refs) || !in.refs.push(f.ref)) return kErrMemory;
      s.cells[i].any_key = false;
      swap_values(s.cells[i].keys, rest);
      if (!s.cells.push(static_cast<Cell&&>(in))) return kErrMemory;
      if (s.cells.size() > 64) return kErrFull;
    }
  }
  return kOk;
}

// "key": value
Status SchemaEmitter::member(const Cell& cell, Fragment* out) {
  uint32_t rule = 0;
  if (const Status s = rule_of(cell.refs, &rule); s != kOk) return s;
  Fragment key = net_.sequence(cell.any_key ? net_.of_rule(string_) : quoted_set(cell.keys), space());
  key = net_.sequence(key, token(":"));
  *out = {key.start, this->value(key.end, rule)};
  return kOk;
}

Status SchemaEmitter::object(const Cube& c, Fragment all) {
  const Fact* some = nullptr;
  for (const Fact& f : c.facts) {
    if (f.kind != FactKind::kSomeMatching && f.kind != FactKind::kSomeOther && f.kind != FactKind::kSomeName)
      continue;
    if (some)
      return terms_.fail(kErrUnsupported, f.node,
                         "more than one negated keyword about properties is not supported");
    some = &f;
  }
  if (some) return members_with_witness(c, *some, all);
  ObjectShape s(a_);
  const Status status = shape(c, s);
  return status == kOk ? members(c, s, nullptr, all) : status;
}

// One of the named properties is what must be there, or another one, which then comes last.
Status SchemaEmitter::members_with_witness(const Cube& c, const Fact& some, Fragment all) {
  Dfa keys(a_);
  if (const Status s = key_set(some, keys); s != kOk) return s;
  ObjectShape plain(a_);
  if (const Status s = shape(c, plain); s != kOk) return s;
  for (size_t i = 0; i < plain.named.size(); ++i) {
    if (!keys.accepts(plain.named[i].key)) continue;
    ObjectShape s(a_);
    if (const Status status = shape(c, s); status != kOk) return status;
    s.named[i].required = true;
    if (some.kind != FactKind::kSomeName && !s.named[i].refs.push(some.ref)) return kErrMemory;
    if (const Status status = members(c, s, nullptr, all); status != kOk) return status;
  }
  if (plain.max != Network::kUnbounded)
    return terms_.fail(kErrUnsupported, some.node,
                       "maxProperties with a negated keyword about properties is not supported");
  return members(c, plain, &some, all);
}

Status SchemaEmitter::members(const Cube& c, ObjectShape& s, const Fact* some, Fragment all) {
  uint32_t possible = 0;
  for (Named& n : s.named) {
    if (n.absent && n.required) return kOk;
    possible += !n.absent;
  }
  if (s.min > s.max) return kOk;
  const bool open = !c.closed || some != nullptr;
  if (const Status status = open ? split_cells(c, s) : kOk; status != kOk) return status;
  bool others = false;
  for (const Cell& cell : s.cells) {
    bool nothing = cell.keys.empty();
    for (Ref r : cell.refs) nothing |= r == kNothing || (!(r & 3) && doc_.is(r >> 2, JsonKind::kFalse));
    others |= !nothing;
  }
  if (others && s.min > possible + 1)
    return terms_.fail(kErrUnsupported, s.node,
                       "minProperties above the number of named properties and one is not supported: a key "
                       "could be there twice");
  const uint32_t counts = max_of(max_of(s.min, s.max == Network::kUnbounded ? 0 : s.max), 1u);
  const uint32_t n = static_cast<uint32_t>(s.named.size());
  if (uint64_t{counts + 1} * (n + 1) > 200'000) return kErrFull;
  const Fragment begin = token("{"), end = net_.of_text("}");
  net_.epsilon(all.start, begin.start);
  net_.epsilon(end.end, all.end);
  // States are which named properties are done with, and how many are there.
  const uint32_t grid = static_cast<uint32_t>(net_.n_nodes());
  for (uint64_t i = 0; i < uint64_t{n + 1} * (counts + 1) && !net_.failed(); ++i) net_.node();
  auto at = [&](uint32_t i, uint32_t count) { return grid + i * (counts + 1) + count; };
  net_.epsilon(begin.end, at(0, 0));
  auto with_comma = [&](uint32_t from, uint32_t count) {
    if (count == 0) return from;
    const Fragment comma = token(",");
    net_.epsilon(from, comma.start);
    return comma.end;
  };
  for (uint32_t i = 0; i < n; ++i) {
    const Named& named = s.named[i];
    uint32_t rule = 0;
    if (!named.absent)
      if (const Status status = rule_of(named.refs, &rule); status != kOk) return status;
    // The key and the colon once, whatever the count; the comma before.
    for (uint32_t count = 0; count <= min_of(i, counts); ++count) {
      if (!named.required) net_.epsilon(at(i, count), at(i + 1, count));
      if (named.absent || count >= s.max) continue;
      const Fragment key = net_.sequence(net_.sequence(quoted(named.key), space()), token(":"));
      net_.epsilon(with_comma(at(i, count), count), key.start);
      net_.epsilon(value(key.end, rule), at(i + 1, min_of(count + 1, counts)));
      if (net_.failed()) return kErrFull;
    }
  }
  Vec<Fragment> others_of(a_);
  for (uint32_t count = 0; count <= counts; ++count) {
    if (!some && count >= s.min) net_.epsilon(at(n, count), end.start);
    if (count >= s.max || (s.cells.empty() && !some)) continue;
    // After the first of the others.
    const uint32_t after = net_.node();
    if (others) {
      const uint32_t more = net_.rule("a repetition"), first = with_comma(at(n, count), count);
      const Fragment choice = {net_.node(), net_.node()}, again = {net_.node(), net_.node()};
      for (const Cell& cell : s.cells) {
        Fragment m = {};
        if (const Status status = member(cell, &m); status != kOk) return status;
        join(m, choice);
      }
      const uint32_t one = net_.rule("a property");
      net_.define(one, choice);
      net_.call(first, one, after);
      const Fragment next = net_.sequence(token(","), net_.of_rule(one));
      join(next, again);
      net_.define(more, again);
      const Fragment rest =
          net_.repeat_rule(more, 0, s.max == Network::kUnbounded ? s.max : s.max - count - 1);
      net_.epsilon(after, rest.start);
      if (!some && count + 1 >= s.min) net_.epsilon(rest.end, end.start);
      if (some) {
        // Among others, then the one that must be there.
        const uint32_t last = with_comma(rest.end, 1);
        if (!others_of.push({last, count})) return kErrMemory;
      }
    }
    if (some && !others_of.push({with_comma(at(n, count), count), count})) return kErrMemory;
  }
  if (!some) return kOk;
  Dfa keys(a_);
  if (const Status status = key_set(*some, keys); status != kOk) return status;
  for (const Cell& cell : s.cells) {
    Cell witness(a_);
    Status status = witness.keys.combine(cell.keys, keys, Dfa::Op::kAnd);
    if (status != kOk) return status;
    if (witness.keys.empty()) continue;
    if (!witness.refs.copy(cell.refs)) return kErrMemory;
    if (some->kind != FactKind::kSomeName && !witness.refs.push(some->ref)) return kErrMemory;
    Fragment m = {};
    if ((status = member(witness, &m)) != kOk) return status;
    for (const Fragment& from : others_of)
      if (from.end + 1 >= s.min) net_.epsilon(from.start, m.start);
    net_.epsilon(m.end, end.start);
  }
  return kOk;
}

}  // namespace grammar
}  // namespace gcrt
