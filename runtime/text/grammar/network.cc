#include "runtime/text/grammar/network.h"

#include "runtime/base/sort.h"
#include "runtime/text/grammar/token_refs.h"

namespace gcrt {
namespace grammar {

void normalize_ranges(Vec<Range>& r) {
  sort(r.data(), r.size(), [](const Range& a, const Range& b) { return a.lo < b.lo; });
  size_t n = 0;
  for (const Range& x : r) {
    if (x.lo > x.hi) continue;
    if (n && x.lo <= r[n - 1].hi + 1)
      r[n - 1].hi = max_of(r[n - 1].hi, x.hi);
    else
      r[n++] = x;
  }
  r.truncate(n);
}

bool invert_ranges(Span<const Range> ranges, Vec<Range>& out) {
  uint32_t at = 0;
  for (const Range& r : ranges) {
    if (r.lo > at && !out.push({at, r.lo - 1})) return false;
    at = r.hi + 1;
  }
  return at > kMaxCode || out.push({at, kMaxCode});
}

uint32_t Network::node() {
  if (first_.size() < kMostEdges && first_.push(kNone)) return static_cast<uint32_t>(first_.size() - 1);
  failed_ = true;
  return 0;
}

void Network::edge(uint32_t from, EdgeKind kind, uint32_t value, uint32_t to) {
  if (failed_) return;
  if (edges_.size() < kMostEdges && edges_.push({to, first_[from], value, kind}))
    first_[from] = static_cast<uint32_t>(edges_.size() - 1);
  else
    failed_ = true;
}

// Splits until all characters of a part have as many bytes and differ in whole bytes only.
void Network::utf8_range(uint32_t from, uint32_t lo, uint32_t hi, uint32_t to) {
  static constexpr uint32_t kLast[] = {0x7F, 0x7FF, 0xFFFF, kMaxCode};
  for (uint32_t last : kLast)
    if (lo <= last && hi > last) {
      utf8_range(from, lo, last, to);
      return utf8_range(from, last + 1, hi, to);
    }
  if (hi <= 0x7F) return bytes(from, static_cast<uint8_t>(lo), static_cast<uint8_t>(hi), to);
  const int n = hi <= 0x7FF ? 2 : hi <= 0xFFFF ? 3 : 4;
  for (int i = 1; i < n; ++i) {
    const uint32_t m = (1u << (6 * i)) - 1;
    if ((lo & ~m) == (hi & ~m)) continue;
    if ((lo & m) != 0) {
      utf8_range(from, lo, lo | m, to);
      return utf8_range(from, (lo | m) + 1, hi, to);
    }
    if ((hi & m) != m) {
      utf8_range(from, lo, (hi & ~m) - 1, to);
      return utf8_range(from, hi & ~m, hi, to);
    }
  }
  static constexpr uint32_t kLead[] = {0, 0, 0xC0, 0xE0, 0xF0};
  for (int i = n - 1; i >= 0; --i) {
    const uint32_t lead = i == n - 1 ? kLead[n] : 0x80, mask = i == n - 1 ? 0xFF : 0x3F;
    const uint32_t next = i == 0 ? to : node();
    bytes(from, static_cast<uint8_t>(lead | ((lo >> (6 * i)) & mask)),
          static_cast<uint8_t>(lead | ((hi >> (6 * i)) & mask)), next);
    from = next;
  }
}

void Network::chars(uint32_t from, Span<const Range> ranges, uint32_t to) {
  for (const Range& r : ranges) {
    // Surrogates are no characters.
    if (r.lo < 0xD800) utf8_range(from, r.lo, min_of(r.hi, 0xD7FFu), to);
    if (r.hi > 0xDFFF) utf8_range(from, max_of(r.lo, 0xE000u), r.hi, to);
  }
}

uint32_t Network::text(uint32_t from, Str text) {
  for (char c : text) {
    const uint32_t next = node();
    bytes(from, static_cast<uint8_t>(c), static_cast<uint8_t>(c), next);
    from = next;
  }
  return from;
}

Fragment Network::empty() {
  const uint32_t n = node();
  return {n, n};
}
Fragment Network::of_text(Str s) {
  const uint32_t n = node();
  return {n, text(n, s)};
}
Fragment Network::of_chars(Span<const Range> ranges) {
  const Fragment f = {node(), node()};
  chars(f.start, ranges, f.end);
  return f;
}
Fragment Network::of_token(int32_t id, bool others) {
  const Fragment f = {node(), node()};
  uint32_t same = node(), other = node();  // the bytes so far are the token's, or not
  bytes(f.start, kTokenMark, kTokenMark, same);
  for (int place = 0; place < kTokenBytes; ++place) {
    const bool last = place + 1 == kTokenBytes;
    const uint8_t byte = token_byte(id, place);
    const uint32_t next_same = last && !others ? f.end : node(), next_other = last ? f.end : node();
    bytes(same, byte, byte, next_same);
    if (others && byte > kTokenLo) bytes(same, kTokenLo, byte - 1, next_other);
    if (others && byte < kTokenHi) bytes(same, byte + 1, kTokenHi, next_other);
    if (others && place) bytes(other, kTokenLo, kTokenHi, next_other);
    same = next_same, other = next_other;
  }
  return f;
}

Fragment Network::of_rule(uint32_t rule) {
  const Fragment f = {node(), node()};
  call(f.start, rule, f.end);
  return f;
}
Fragment Network::sequence(Fragment a, Fragment b) {
  epsilon(a.end, b.start);
  return {a.start, b.end};
}
Fragment Network::either(Fragment a, Fragment b) {
  const Fragment f = {node(), node()};
  epsilon(f.start, a.start);
  epsilon(f.start, b.start);
  epsilon(a.end, f.end);
  epsilon(b.end, f.end);
  return f;
}

Fragment Network::expand(Fragment f, uint32_t min, uint32_t max) {
  const uint32_t times = max == kUnbounded ? max_of(min, 1u) : max;
  const Fragment all = {node(), node()};
  uint32_t at = all.start;
  for (uint32_t i = 0; i < times; ++i) {
    if (i >= min) epsilon(at, all.end);
    // The original goes last: the copies are made of what it was.
    const Fragment part = i + 1 == times ? f : copy(f);
    epsilon(at, part.start);
    at = node();
    epsilon(part.end, at);
    if (max == kUnbounded && i + 1 == times) epsilon(part.end, part.start);
  }
  epsilon(at, all.end);
  return all;
}

// Small ones are copied. A counter costs a frame a turn, and keeps states few: the masks of one turn serve all.
Fragment Network::repeat(Fragment f, uint32_t first_node, uint32_t min, uint32_t max) {
  if (max == 0) return empty();
  const uint64_t nodes = n_nodes() - first_node, times = max == kUnbounded ? max_of(min, 1u) : max;
  if (times == 1 || nodes * times <= 24) return expand(f, min, max);
  const uint32_t body = rule("a repetition");
  define(body, f);
  return repeat_rule(body, min, max);
}

Fragment Network::repeat_rule(uint32_t body, uint32_t min, uint32_t max) {
  if (max == 0) return empty();
  if (max == 1) {
    const Fragment f = of_rule(body);
    if (min == 0) epsilon(f.start, f.end);
    return f;
  }
  if (min <= 1 && max == kUnbounded) {
    const Fragment f = of_rule(body), all = {node(), node()};
    epsilon(all.start, f.start);
    epsilon(f.end, f.start);
    epsilon(f.end, all.end);
    if (min == 0) epsilon(all.start, all.end);
    return all;
  }
  const uint32_t r = rule("a repetition");
  if (failed_) return {0, 0};
  rules_[r].repeated = body;
  rules_[r].min = min;
  rules_[r].max = max;
  return of_rule(r);
}

uint32_t Network::rule(Str name) {
  Rule r;
  r.name_begin = static_cast<uint32_t>(names_.size());
  r.name_bytes = static_cast<uint32_t>(name.size());
  if (rules_.size() < kMostEdges && append(names_, name) && rules_.push(r))
    return static_cast<uint32_t>(rules_.size() - 1);
  failed_ = true;
  return 0;
}

Fragment Network::copy(Fragment f) {
  return copy_.copy(
      f, first_, edges_, failed_, [this] { return node(); },
      [this](uint32_t from, const Edge& old, uint32_t to) { edge(from, old.kind, old.value, to); });
}

}  // namespace grammar
}  // namespace gcrt
