#include "runtime/text/grammar/schema_emit.h"

#include "runtime/base/format.h"
#include "runtime/text/grammar/schema.h"
#include "runtime/text/utf8.h"

namespace gcrt {
namespace grammar {

Status compile_schema(Str text, Network& out, uint32_t* root, Span<char> message) {
  JsonDocument doc(out.allocator());
  Status s = doc.parse(text, message);
  if (s != kOk) return s;
  Terms terms(doc, message, out.allocator());
  s = terms.init();
  if (s == kOk) s = SchemaEmitter(terms, out).run(root);
  if (s == kOk && out.failed()) s = kErrFull;
  if (s == kErrFull) format_to(message, "the schema is too large, or has too many alternatives");
  if (s == kErrMemory) format_to(message, "not enough memory for the schema");
  return s;
}

// What many rules share: white space, strings and numbers that nothing limits.
void SchemaEmitter::make_shared() {
  space_ = net_.rule("white space");
  const Fragment f = {net_.node(), net_.node()};
  net_.epsilon(f.start, f.end);
  net_.bytes(f.start, ' ', ' ', f.end);
  uint32_t at = net_.node();
  const uint32_t second = net_.node();
  net_.bytes(f.start, '\n', '\n', at);
  net_.bytes(at, '\n', '\n', second);
  net_.epsilon(at, second);
  at = second;
  for (int i = 0; i < 20; ++i) {
    const uint32_t next = net_.node();
    net_.epsilon(at, f.end);
    net_.bytes(at, ' ', ' ', next);
    net_.bytes(at, '\t', '\t', next);
    at = next;
  }
  net_.epsilon(at, f.end);
  net_.define(space_, f);

  // A character of a string: as it is, by its short escape, by its number.
  char_ = net_.rule("a character");
  const Fragment c = {net_.node(), net_.node()};
  const Range plain[] = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x7E}, {0x80, kMaxCode}};
  net_.chars(c.start, Span<const Range>(plain), c.end);
  const uint32_t escape = net_.text(c.start, "\\");
  for (char e : Str("\"\\/bfnrt"))
    net_.bytes(escape, static_cast<uint8_t>(e), static_cast<uint8_t>(e), c.end);
  auto hex = [this](uint32_t from, Str digits, uint32_t to) {
    for (char d : digits) net_.bytes(from, static_cast<uint8_t>(d), static_cast<uint8_t>(d), to);
  };
  const Str any = "0123456789abcdefABCDEF";
  uint32_t u = net_.text(escape, "u");
  const uint32_t h1 = net_.node(), h2 = net_.node(), h3 = net_.node(), d1 = net_.node(), d2 = net_.node(),
                 d3 = net_.node();
  hex(u, "0123456789abcefABCEF", h1);
  hex(u, "dD", d1);
  hex(d1, "01234567", h2);
  hex(h1, any, h2), hex(h2, any, h3), hex(h3, any, c.end);
  hex(d1, "89abAB", d2);  // a surrogate pair
  hex(d2, any, d3);
  const uint32_t d4 = net_.node();
  hex(d3, any, d4);
  u = net_.text(d4, "\\u");
  const uint32_t l1 = net_.node(), l2 = net_.node(), l3 = net_.node();
  hex(u, "dD", l1), hex(l1, "cdefCDEF", l2), hex(l2, any, l3), hex(l3, any, c.end);
  net_.define(char_, c);

  string_ = net_.rule("a string");
  const uint32_t first = static_cast<uint32_t>(net_.n_nodes());
  Fragment s = net_.of_text("\"");
  s = net_.sequence(s, net_.repeat(net_.of_rule(char_), first, 0, Network::kUnbounded));
  s = net_.sequence(s, net_.of_text("\""));
  net_.define(string_, s);
}

void SchemaEmitter::json_char(uint32_t from, uint32_t lo, uint32_t hi, uint32_t to) {
  struct Short {
    uint32_t code;
    char escape;
  };
  static constexpr Short kShort[] = {{'"', '"'},  {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'},
                                     {'\n', 'n'}, {'\r', 'r'},  {'\t', 't'}};
  auto in = [lo, hi](uint32_t c) { return c >= lo && c <= hi; };
  for (const Short& s : kShort)
    if (in(s.code)) {
      const char text[] = {'\\', s.escape};
      net_.epsilon(net_.text(from, Str(text, 2)), to);
    }
  for (uint32_t c = 0; c < 0x20; ++c) {
    if (!in(c)) continue;
    constexpr char kDigits[] = "0123456789abcdef";
    const char text[] = {'\\', 'u', '0', '0', kDigits[c >> 4]};
    const uint32_t at = net_.text(from, Str(text, 5));
    const uint8_t low = static_cast<uint8_t>(kDigits[c & 15]);
    net_.bytes(at, low, low, to);
    if (low >= 'a') net_.bytes(at, static_cast<uint8_t>(low - 32), static_cast<uint8_t>(low - 32), to);
  }
  const Range plain[] = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, kMaxCode}};
  for (const Range& p : plain) {
    const Range r = {max_of(p.lo, lo), min_of(p.hi, hi)};
    if (r.lo <= r.hi) net_.chars(from, Span<const Range>(&r, 1), to);
  }
}

// White space comes after a value where it is used and not in its rule: a rule that ends with what is also within
// most tokens would make masks slow.
uint32_t SchemaEmitter::value(uint32_t from, uint32_t rule) {
  const Fragment after = space();
  net_.call(from, rule, after.start);
  return after.end;
}

Fragment SchemaEmitter::of_set(const Dfa& set, bool json) {
  const Fragment f = {net_.node(), net_.node()};
  if (set.empty()) return f;  // no way through
  const uint32_t first = static_cast<uint32_t>(net_.n_nodes());
  for (size_t i = 0; i < set.n_states(); ++i) net_.node();
  net_.epsilon(f.start, first);
  for (uint32_t s = 0; s < set.n_states() && !net_.failed(); ++s) {
    const Dfa::State& state = set.state(s);
    if (state.accepts) net_.epsilon(first + s, f.end);
    for (uint32_t e = 0; e < state.n; ++e) {
      const Dfa::Edge& edge = set.edge(state.first + e);
      if (json) {
        json_char(first + s, edge.lo, edge.hi, first + edge.to);
      } else {
        const Range r = {edge.lo, edge.hi};
        net_.chars(first + s, Span<const Range>(&r, 1), first + edge.to);
      }
    }
  }
  return f;
}

Fragment SchemaEmitter::quoted(Str text) {
  Fragment f = net_.of_text("\"");
  while (!text.empty() && !net_.failed()) {
    const int n = max_of(1, utf8_next(text));
    const uint32_t c = utf8_decode(text.data(), n), next = net_.node();
    json_char(f.end, c, c, next);
    f.end = next;
    text = text.sub(static_cast<size_t>(n));
  }
  return net_.sequence(f, net_.of_text("\""));
}
Fragment SchemaEmitter::quoted_set(const Dfa& set) {
  return net_.sequence(net_.sequence(net_.of_text("\""), of_set(set, true)), net_.of_text("\""));
}

Status SchemaEmitter::rule_of(Span<const Ref> refs, uint32_t* rule) {
  const uint32_t term = terms_.term(refs);
  if (term == kNone) return kErrMemory;
  while (rules_.size() <= term)
    if (!rules_.push(kNone)) return kErrMemory;
  if (rules_[term] == kNone) {
    rules_[term] = net_.rule("a value");
    if (!todo_.push({term, rules_[term]})) return kErrMemory;
  }
  *rule = rules_[term];
  return net_.failed() ? kErrFull : kOk;
}

Status SchemaEmitter::run(uint32_t* root) {
  make_shared();
  const Ref document = schema_ref(0);
  uint32_t whole = 0;
  Status s = rule_of(Span<const Ref>(&document, 1), &whole);
  *root = net_.rule("the document");
  net_.define(*root, net_.sequence(net_.of_rule(whole), space()));
  while (s == kOk && !todo_.empty()) {
    const Todo t = todo_.back();
    todo_.pop();
    s = define(t.term, t.rule);
    if (s == kOk && net_.failed()) s = kErrFull;
  }
  return s;
}

Status SchemaEmitter::define(uint32_t term, uint32_t rule) {
  Vec<Ref> refs(a_);
  if (!refs.copy(terms_.refs(term))) return kErrMemory;
  Vec<Cube> cubes(a_);
  if (const Status s = terms_.expand(refs, cubes); s != kOk) return s;
  const Fragment all = {net_.node(), net_.node()};
  for (const Cube& c : cubes)
    if (const Status s = cube(c, all); s != kOk) return s;
  net_.define(rule, all);
  return kOk;
}

Status SchemaEmitter::cube(const Cube& c, Fragment all) {
  if (c.types & kNull) join(net_.of_text("null"), all);
  if (c.types & kTrue) join(net_.of_text("true"), all);
  if (c.types & kFalse) join(net_.of_text("false"), all);
  Status s = kOk;
  if (c.types & kNumber) s = number(c, all);
  if (s == kOk && c.types & kString) s = string(c, all);
  if (s == kOk && c.types & kArray) s = array(c, all);
  if (s == kOk && c.types & kObject) s = object(c, all);
  return s;
}

Status SchemaEmitter::number(const Cube& c, Fragment all) {
  Dfa set(a_);
  bool any = false;
  if (const Status s = terms_.number_set(c, set, &any); s != kOk) return s;
  if (!any) {
    join(of_set(set, false), all);
    return kOk;
  }
  if (number_ == 0) {
    number_ = net_.rule("a number");
    const Range digits = {'0', '9'};
    const Range nonzero = {'1', '9'};
    const Span<const Range> d(&digits, 1);
    auto up_to = [&](uint32_t from, uint32_t min, uint32_t max, uint32_t to) {
      for (uint32_t i = 0; i < max; ++i) {
        if (i >= min) net_.epsilon(from, to);
        const uint32_t next = net_.node();
        net_.chars(from, d, next);
        from = next;
      }
      net_.epsilon(from, to);
    };
    const Fragment f = {net_.node(), net_.node()};
    const uint32_t whole = net_.node(), more = net_.node(), after = net_.node(), exponent = net_.node();
    net_.epsilon(f.start, whole);
    net_.bytes(f.start, '-', '-', whole);
    net_.bytes(whole, '0', '0', after);
    net_.chars(whole, Span<const Range>(&nonzero, 1), more);
    up_to(more, 0, 19, after);
    up_to(net_.text(after, "."), 1, 16, exponent);
    net_.epsilon(after, exponent);
    net_.epsilon(exponent, f.end);
    const uint32_t e = net_.node(), sign = net_.node();
    net_.bytes(exponent, 'e', 'e', e), net_.bytes(exponent, 'E', 'E', e);
    net_.epsilon(e, sign);
    net_.bytes(e, '+', '+', sign), net_.bytes(e, '-', '-', sign);
    up_to(sign, 1, 3, f.end);
    net_.define(number_, f);
  }
  join(net_.of_rule(number_), all);
  return kOk;
}

Status SchemaEmitter::string(const Cube& c, Fragment all) {
  Dfa set(a_);
  bool any = false;
  if (const Status s = terms_.string_set(c, false, set, &any); s != kOk) return s;
  if (!any) {
    join(quoted_set(set), all);
    return kOk;
  }
  uint32_t min = 0, max = Network::kUnbounded;
  for (const Fact& f : c.facts)
    if (f.kind == FactKind::kLength) min = max_of(min, f.a), max = min_of(max, f.b);
  if (min > max) return kOk;
  if (min == 0 && max == Network::kUnbounded) {
    join(net_.of_rule(string_), all);
    return kOk;
  }
  Fragment f = net_.of_text("\"");
  f = net_.sequence(f, net_.repeat_rule(char_, min, max));
  join(net_.sequence(f, net_.of_text("\"")), all);
  return kOk;
}

// ---- Arrays ----

// The rule of an item. counted: 1 it is one of those that are counted, -1 it is none, 0 either.
Status SchemaEmitter::item(const ArrayShape& s, uint32_t index, int counted, uint32_t* rule) {
  Vec<Ref> refs(a_);
  bool ok = true;
  for (const Fact& f : s.at)
    if (f.a == index) ok = refs.push(f.ref) && ok;
  for (const Fact& f : s.from)
    if (f.a <= index) ok = refs.push(f.ref) && ok;
  if (counted != 0) {
    const Ref r = counted > 0 ? s.counted : s.counted ^ 1;
    ok = refs.push(r) && ok;
  }
  return ok ? rule_of(refs, rule) : kErrMemory;
}

Status SchemaEmitter::array(const Cube& c, Fragment all) {
  ArrayShape s(a_);
  uint32_t node = kNone;
  bool ok = true;
  for (const Fact& f : c.facts) {
    switch (f.kind) {
      case FactKind::kItems:
        s.min = max_of(s.min, f.a), s.max = min_of(s.max, f.b);
        break;
      case FactKind::kItemAt:
        ok = s.at.push(f) && ok;
        s.prefix = max_of(s.prefix, f.a + 1);
        break;
      case FactKind::kItemsFrom:
        ok = s.from.push(f) && ok;
        s.prefix = max_of(s.prefix, f.a);
        break;
      case FactKind::kCount:
      case FactKind::kSomeFrom:
        if (f.kind == FactKind::kCount && f.a == 0 && f.b == Network::kUnbounded) break;
        if (s.counts)
          return terms_.fail(kErrUnsupported, f.node,
                             "more than one of contains and negated items is not supported");
        s.counts = true, node = f.node, s.counted = f.ref;
        s.first = f.kind == FactKind::kSomeFrom ? f.a : 0;
        s.least = f.kind == FactKind::kSomeFrom ? 1 : f.a;
        s.most = f.kind == FactKind::kSomeFrom ? Network::kUnbounded : f.b;
        s.prefix = max_of(s.prefix, s.first);
        break;
      default:
        break;
    }
  }
  if (!ok) return kErrMemory;
  if (s.min > s.max || s.least > s.most) return kOk;
  if (s.prefix > 2000) return kErrFull;
  const Fragment begin = token("["), end = net_.of_text("]");
  net_.epsilon(all.start, begin.start);
  net_.epsilon(end.end, all.end);
  return s.counts ? counted_items(s, node, begin.end, end.start) : plain_items(s, begin.end, end.start);
}

Status SchemaEmitter::plain_items(const ArrayShape& s, uint32_t at, uint32_t to) {
  // Those with an index of their own; at least the first, which has no comma before it.
  uint32_t i = 0;
  for (; i < max_of(s.prefix, 1u) && i < s.max; ++i) {
    if (i >= s.min) net_.epsilon(at, to);
    if (i) {
      const Fragment comma = token(",");
      net_.epsilon(at, comma.start);
      at = comma.end;
    }
    uint32_t rule = 0;
    if (const Status status = item(s, i, 0, &rule); status != kOk) return status;
    at = value(at, rule);
  }
  if (i >= s.max) {
    if (i >= s.min) net_.epsilon(at, to);
    return kOk;
  }
  uint32_t rule = 0;
  if (const Status status = item(s, s.prefix, 0, &rule); status != kOk) return status;
  const uint32_t more = net_.rule("a repetition");
  const Fragment comma = token(",");
  net_.define(more, {comma.start, value(comma.end, rule)});
  const Fragment rest =
      net_.repeat_rule(more, s.min > i ? s.min - i : 0, s.max == Network::kUnbounded ? s.max : s.max - i);
  net_.epsilon(at, rest.start);
  net_.epsilon(rest.end, to);
  return kOk;
}

// States are how many items there are, and how many of them count.
Status SchemaEmitter::counted_items(const ArrayShape& s, uint32_t node, uint32_t from, uint32_t to) {
  constexpr uint32_t kMostItems = 64;
  const bool bounded = s.most != Network::kUnbounded, ends = s.max != Network::kUnbounded;
  // One more than the prefix: the first item has no comma before it.
  const uint32_t items = max_of(max_of(s.prefix, s.min), ends ? s.max : 1),
                 counts = bounded ? s.most : s.least;
  if (items > kMostItems || counts > kMostItems)
    return terms_.fail(kErrUnsupported, node, "counting more than 64 items is not supported");
  const uint32_t grid = static_cast<uint32_t>(net_.n_nodes());
  for (uint32_t i = 0; i < (items + 1) * (counts + 1); ++i) net_.node();
  auto at = [&](uint32_t i, uint32_t n) { return grid + i * (counts + 1) + n; };
  net_.epsilon(from, at(0, 0));
  for (uint32_t i = 0; i <= items; ++i) {
    for (uint32_t n = 0; n <= counts; ++n) {
      if (i >= s.min && n >= s.least) net_.epsilon(at(i, n), to);
      if (ends && i == s.max) continue;
      uint32_t here = at(i, n);
      if (i) {
        const Fragment comma = token(",");
        net_.epsilon(here, comma.start);
        here = comma.end;
      }
      const uint32_t next = min_of(i + 1, items);
      uint32_t rule = 0;
      const bool may_count = i >= s.first && (n < counts);
      if (may_count) {
        if (const Status status = item(s, i, 1, &rule); status != kOk) return status;
        net_.epsilon(value(here, rule), at(next, n + 1));
      }
      // Where counts have an upper end, what doesn't count must not; else it doesn't matter.
      if (const Status status = item(s, i, bounded && i >= s.first ? -1 : 0, &rule); status != kOk)
        return status;
      net_.epsilon(value(here, rule), at(next, n));
    }
  }
  return kOk;
}

}  // namespace grammar
}  // namespace gcrt
