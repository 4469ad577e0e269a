// What facts say of numbers and strings, as sets; whether a cube has any value at all.
#include "runtime/text/grammar/numbers.h"
#include "runtime/text/grammar/regex.h"
#include "runtime/text/grammar/schema_work.h"

namespace gcrt {
namespace grammar {
namespace {

struct Format {
  Str name, pattern;
};
#define DATE                                                                                                 \
  "([0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]" \
  "|2[0-8]))|([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29)"
#define TIME "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#define BYTE "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define IPV4 BYTE "\\." BYTE "\\." BYTE "\\." BYTE
#define HEX4 "[0-9a-fA-F]{1,4}"
#define LABEL "[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
#define ESCAPED "%[0-9a-fA-F]{2}"
#define PATH_CHAR "([a-zA-Z0-9._~!$&'()*+,;=:@/-]|" ESCAPED ")"
// Each a subset of what its RFC allows.
constexpr Format kFormats[] = {
    {"date", "^" DATE "$"},
    {"time", "^" TIME "$"},
    {"date-time", "^" DATE "T" TIME "$"},
    {"duration",
     "^P(([0-9]+D|[0-9]+M([0-9]+D)?|[0-9]+Y([0-9]+M([0-9]+D)?)?)(T([0-9]+S|[0-9]+M([0-9]+S)?|[0-9]+H([0-9]+M("
     "[0-9]+S)?)?))?|T([0-9]+S|[0-9]+M([0-9]+S)?|[0-9]+H([0-9]+M([0-9]+S)?)?)|[0-9]+W)$"},
    {"uuid", "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"},
    {"ipv4", "^" IPV4 "$"},
    {"ipv6", "^((" HEX4 ":){7}" HEX4 "|(" HEX4 ":){1,7}:|(" HEX4 ":){1,6}:" HEX4 "|(" HEX4 ":){1,5}(:" HEX4
             "){1,2}|(" HEX4 ":){1,4}(:" HEX4 "){1,3}|(" HEX4 ":){1,3}(:" HEX4 "){1,4}|(" HEX4
             ":){1,2}(:" HEX4 "){1,5}|" HEX4 ":(:" HEX4 "){1,6}|:((:" HEX4 "){1,7}|:)|::(ffff:)?" IPV4 ")$"},
    {"hostname", "^" LABEL "(\\." LABEL ")*$"},
    {"email",
     "^[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+(\\.[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+)*@" LABEL "(\\." LABEL ")*$"},
    {"uri", "^[a-zA-Z][a-zA-Z0-9+.-]*:" PATH_CHAR "+(\\?(" PATH_CHAR "|\\?)*)?(#(" PATH_CHAR "|\\?)*)?$"},
    {"uri-reference", "^([a-zA-Z][a-zA-Z0-9+.-]*:" PATH_CHAR "+|/" PATH_CHAR "*|[a-zA-Z0-9._~-]"
                      "[a-zA-Z0-9._~/-]*)?(\\?(" PATH_CHAR "|\\?)*)?(#(" PATH_CHAR "|\\?)*)?$"},
    {"json-pointer", "^(/([^/~]|~[01])*)*$"},
    {"relative-json-pointer", "^(0|[1-9][0-9]*)(#|(/([^/~]|~[01])*)*)$"},
};

}  // namespace

Status Terms::regex(uint32_t node, Str keyword, Str pattern, Dfa& out) {
  char message[160] = {};
  const Status s = compile_regex(pattern, out, message);
  if (s == kOk || s == kErrMemory) return s;
  return fail(s == kErrFull ? kErrUnsupported : s, node, keyword, " '", pattern, "': ", Str(message));
}

Status Terms::format_set(uint32_t node, Str name, Dfa& out) {
  for (const Format& f : kFormats)
    if (f.name == name) return regex(node, "format", f.pattern, out);
  return fail(kErrUnsupported, node, "format '", name, "' is not supported");
}

Status Terms::number_set(const Cube& cube, Dfa& out, bool* any) {
  *any = true;
  bool integer = false;
  Dfa part(allocator_), one(allocator_);
  Decimal d(allocator_);
  auto with = [&](const Dfa& b, Dfa::Op op) {
    Status s = kOk;
    if (*any) s = set_plain_numbers(out);
    *any = false;
    return s == kOk ? out.apply(b, op) : s;
  };
  auto value = [&](uint32_t node) {
    const Status s = parse_decimal(doc_.text(node), d);
    return s == kErrFull ? fail(kErrUnsupported, node, "a number so large or small is not supported") : s;
  };
  for (const Fact& f : cube.facts) {
    Status s = kOk;
    switch (f.kind) {
      case FactKind::kInteger:
        integer |= !f.negated;
        if (f.negated) s = set_integer_values(part);
        if (f.negated && s == kOk) s = with(part, Dfa::Op::kWithout);
        break;
      case FactKind::kMinimum:
      case FactKind::kMaximum:
        s = value(f.node);
        if (s == kOk) {
          const bool least = f.kind == FactKind::kMinimum;
          s = set_compared(d, !least, !f.exclusive, least, part);
        }
        if (s == kOk) s = with(part, f.negated ? Dfa::Op::kWithout : Dfa::Op::kAnd);
        break;
      case FactKind::kMultiple:
        s = value(f.node);
        if (s == kOk && (d.negative || d.is_zero()))
          return fail(kErrInput, f.node, "expected a number above 0");
        if (s == kOk) {
          s = set_multiples(d, part);
          if (s == kErrFull)
            return fail(kErrUnsupported, f.node, "a multipleOf of so many digits is not supported");
        }
        if (s == kOk) s = with(part, f.negated ? Dfa::Op::kWithout : Dfa::Op::kAnd);
        break;
      case FactKind::kNumberIn: {
        Dfa all(allocator_);
        const bool list = doc_.is(f.node, JsonKind::kArray);
        for (uint32_t v = list ? doc_.first(f.node) : f.node; v != kNone && s == kOk;
             v = list ? doc_.next(v) : kNone) {
          if (!doc_.is(v, JsonKind::kNumber)) continue;
          s = value(v);
          Vec<char> text(allocator_);
          if (s == kOk) s = append_decimal(d, text);
          // What is wanted has one spelling, what is unwanted has all.
          if (s == kOk) s = f.negated ? set_compared(d, false, true, false, one) : one.set_text(str(text));
          if (s == kOk) s = all.apply(one, Dfa::Op::kOr);
        }
        if (s == kOk) s = with(all, f.negated ? Dfa::Op::kWithout : Dfa::Op::kAnd);
        break;
      }
      default:
        break;
    }
    if (s != kOk) return s;
  }
  if (!integer) return kOk;
  if (*any) {
    *any = false;
    return set_integers(out);
  }
  if (const Status s = set_integers(part); s != kOk) return s;
  return out.apply(part, Dfa::Op::kAnd);
}

Status Terms::string_set(const Cube& cube, bool lengths, Dfa& out, bool* any) {
  *any = true;
  Dfa part(allocator_), one(allocator_);
  auto with = [&](const Dfa& b, Dfa::Op op) {
    Status s = kOk;
    if (*any) s = out.set_all();
    *any = false;
    return s == kOk ? out.apply(b, op) : s;
  };
  for (const Fact& f : cube.facts) {
    Status s = kOk;
    const Dfa::Op op = f.negated ? Dfa::Op::kWithout : Dfa::Op::kAnd;
    switch (f.kind) {
      case FactKind::kPattern:
        s = regex(f.node, "pattern", f.text, part);
        if (s == kOk) s = with(part, op);
        break;
      case FactKind::kFormat:
        s = format_set(f.node, f.text, part);
        if (s == kOk) s = with(part, op);
        break;
      case FactKind::kStringIn: {
        Dfa all(allocator_);
        const bool list = doc_.is(f.node, JsonKind::kArray);
        for (uint32_t v = list ? doc_.first(f.node) : f.node; v != kNone && s == kOk;
             v = list ? doc_.next(v) : kNone) {
          if (!doc_.is(v, JsonKind::kString)) continue;
          s = one.set_text(doc_.text(v));
          if (s == kOk) s = all.apply(one, Dfa::Op::kOr);
        }
        if (s == kOk) s = with(all, op);
        break;
      }
      default:
        break;
    }
    if (s != kOk) return s;
  }
  for (const Fact& f : cube.facts) {
    if (f.kind != FactKind::kLength || !(lengths || !*any)) continue;
    Status s = part.set_length(f.a, f.b == 0xFFFFFFFF ? Network::kUnbounded : f.b);
    if (s == kOk) s = with(part, Dfa::Op::kAnd);
    if (s != kOk)
      return s == kErrFull ? fail(kErrUnsupported, f.node, "a length with a pattern is too large") : s;
  }
  return kOk;
}

Status Terms::string_language(Span<const Ref> refs, Dfa& out) {
  Vec<Cube> cubes(allocator_);
  if (const Status s = expand(refs, cubes); s != kOk) return s;
  Dfa all(allocator_);
  for (const Cube& c : cubes) {
    if (!(c.types & kString)) continue;
    Dfa one(allocator_);
    bool any = false;
    Status s = string_set(c, true, one, &any);
    if (s == kOk && any) s = one.set_all();
    if (s == kOk) s = all.apply(one, Dfa::Op::kOr);
    if (s != kOk) return s;
  }
  swap_values(out, all);
  return kOk;
}

Status Terms::surely_empty(Span<const Ref> refs, int depth, bool* out) {
  *out = false;
  Vec<Cube> cubes(allocator_);
  if (const Status s = expand(refs, cubes); s != kOk) return s;
  for (const Cube& c : cubes) {
    bool none = false;
    if (const Status s = surely_empty(c, depth, &none); s != kOk || !none) return s;
  }
  *out = true;
  return kOk;
}

Status Terms::surely_empty(const Cube& cube, int depth, bool* out) {
  *out = false;
  if (cube.types & (kNull | kFalse | kTrue | kArray)) return kOk;
  bool any = false;
  Dfa set(allocator_);
  if (cube.types & kNumber) {
    const Status s = number_set(cube, set, &any);
    if (s != kOk || any || !set.empty()) return s;
  }
  if (cube.types & kString) {
    const Status s = string_set(cube, true, set, &any);
    if (s != kOk || any || !set.empty()) return s;
  }
  if (cube.types & kObject) {
    bool none = false;
    for (const Fact& f : cube.facts) {
      if (f.kind != FactKind::kRequired) continue;
      Vec<Ref> refs(allocator_);
      for (const Fact& g : cube.facts) {
        if (g.text != f.text) continue;
        none |= g.kind == FactKind::kAbsent;
        if (g.kind == FactKind::kProperty && !refs.push(g.ref)) return kErrMemory;
      }
      if (!none && depth < 3 && refs.size() > 1)
        if (const Status s = surely_empty(refs, depth + 1, &none); s != kOk) return s;
      if (none) break;
    }
    if (!none) return kOk;
  }
  *out = true;
  return kOk;
}

}  // namespace grammar
}  // namespace gcrt
