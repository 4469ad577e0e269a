#include "runtime/text/grammar/numbers.h"

#include "runtime/text/grammar/regex.h"

namespace gcrt {
namespace grammar {

int64_t Decimal::small() const {
  if (!fraction.empty() || whole.size() > 9) return -1;
  int64_t v = 0;
  for (char c : whole) v = v * 10 + (c - '0');
  return negative ? -v : v;
}

Status parse_decimal(Str text, Decimal& out) {
  constexpr int64_t kMostExponent = 400;
  out.whole.clear(), out.fraction.clear();
  Vec<char> digits(out.whole.allocator());
  int64_t point = 0, exponent = 0;
  size_t at = 0;
  out.negative = text.starts_with("-");
  at += out.negative;
  bool seen_point = false;
  for (; at < text.size() && text[at] != 'e' && text[at] != 'E'; ++at) {
    if (text[at] == '.') {
      seen_point = true;
    } else {
      if (!digits.push(text[at])) return kErrMemory;
      point += !seen_point;
    }
  }
  if (at < text.size()) {
    bool minus = false;
    ++at;
    if (text[at] == '-' || text[at] == '+') minus = text[at++] == '-';
    for (; at < text.size(); ++at) exponent = min_of<int64_t>(exponent * 10 + (text[at] - '0'), 1'000'000);
    if (minus) exponent = -exponent;
  }
  // Superfluous zeros at both ends.
  size_t first = 0, last = digits.size();
  while (first < last && digits[first] == '0') ++first;
  while (last > first && digits[last - 1] == '0') --last;
  point += exponent - static_cast<int64_t>(first);
  if (first == last) {
    out.negative = false;
    return out.whole.push('0') ? kOk : kErrMemory;
  }
  if (point > kMostExponent || point < -kMostExponent) return kErrFull;
  const int64_t n = static_cast<int64_t>(last - first);
  bool ok = true;
  for (int64_t i = min_of<int64_t>(0, point); i < max_of(n, point); ++i) {
    const char c = i >= 0 && i < n ? digits[first + static_cast<size_t>(i)] : '0';
    ok = ok && (i < point ? out.whole.push(c) : out.fraction.push(c));
  }
  if (out.whole.empty()) ok = ok && out.whole.push('0');
  return ok ? kOk : kErrMemory;
}

Status append_decimal(const Decimal& d, Vec<char>& out) {
  bool ok = (!d.negative || out.push('-')) && out.append(d.whole);
  if (!d.fraction.empty()) ok = ok && out.push('.') && out.append(d.fraction);
  return ok ? kOk : kErrMemory;
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  int c = a.whole.size() != b.whole.size() ? (a.whole.size() < b.whole.size() ? -1 : 1)
                                           : compare(str(a.whole), str(b.whole));
  if (c == 0) c = compare(str(a.fraction), str(b.fraction));
  c = c < 0 ? -1 : c > 0;
  return a.negative ? -c : c;
}

namespace {
Status of_regex(Str s, Dfa& out) {
  char message[128];
  return compile_regex(s, out, message);
}
}  // namespace

Status set_plain_numbers(Dfa& out) { return of_regex("^-?(0|[1-9][0-9]{0,19})(\\.[0-9]{1,16})?$", out); }
Status set_integers(Dfa& out) { return of_regex("^-?(0|[1-9][0-9]{0,19})$", out); }
Status set_integer_values(Dfa& out) { return of_regex("^-?(0|[1-9][0-9]*)(\\.0+)?$", out); }

namespace {

// Builds an automaton by hand.
struct Arcs {
  explicit Arcs(Allocator a) : accepts(a), arcs(a) {}
  uint32_t state(bool accept) {
    ok = ok && accepts.push(accept);
    return static_cast<uint32_t>(accepts.size() - 1);
  }
  void arc(uint32_t from, char lo, char hi, uint32_t to) {
    if (lo <= hi) ok = ok && arcs.push({from, static_cast<uint32_t>(lo), static_cast<uint32_t>(hi), to});
  }
  Status finish(Dfa& out) { return ok ? out.build(accepts, arcs) : kErrMemory; }

  Vec<uint8_t> accepts;
  Vec<Dfa::Arc> arcs;
  bool ok = true;
};

// Magnitudes compared with that of a bound, digit by digit: which of less, equal and greater is so far.
class Comparison {
 public:
  Comparison(Arcs& arcs, const Decimal& bound, const bool (&accept)[3])
      : a_(arcs), b_(bound), accept_(accept) {
    for (int rel = 0; rel < 3; ++rel) {
      decided_[rel] = a_.state(accept_[rel]);
      a_.arc(decided_[rel], '0', '9', decided_[rel]);
      point_[rel] = a_.state(false);
      a_.arc(point_[rel], '0', '9', decided_[rel]);
    }
    more_ = a_.state(accept_[kGreater]);  // more digits before the point than the bound
    a_.arc(more_, '0', '9', more_);
    a_.arc(more_, '.', '.', point_[kGreater]);
    make_fraction();
    make_whole();
  }
  // Arcs by which a magnitude begins.
  void begin(uint32_t from) {
    a_.arc(from, '0', '0', zero_);
    for (int rel = 0; rel < 3; ++rel)
      if (rel == kEqual || whole_first_lo_[rel] <= whole_first_hi_[rel])
        a_.arc(from, whole_first_lo_[rel], whole_first_hi_[rel], whole_first_[rel]);
  }

 private:
  enum { kLess, kEqual, kGreater };

  void make_fraction() {
    const size_t m = b_.fraction.size();
    // [j] j digits of the fraction are the bound's.
    uint32_t next = a_.state(accept_[kEqual]);
    a_.arc(next, '0', '0', next);
    a_.arc(next, '1', '9', decided_[kGreater]);
    uint32_t after_point = a_.state(false);
    if (m == 0) {
      a_.arc(after_point, '0', '0', next);
      a_.arc(after_point, '1', '9', decided_[kGreater]);
    }
    for (size_t j = m; j-- > 0;) {
      const uint32_t s = j == 0 ? after_point : a_.state(accept_[kLess]);
      const char d = b_.fraction[j];
      a_.arc(s, '0', static_cast<char>(d - 1), decided_[kLess]);
      a_.arc(s, d, d, next);
      a_.arc(s, static_cast<char>(d + 1), '9', decided_[kGreater]);
      next = s;
    }
    after_point_ = after_point;
  }

  void make_whole() {
    const size_t k = b_.whole.size();
    // The last digit's states, then backwards.
    uint32_t next[3] = {};
    for (int rel = 0; rel < 3; ++rel) {
      const bool at_end =
          rel == kEqual ? (b_.fraction.empty() ? accept_[kEqual] : accept_[kLess]) : accept_[rel];
      next[rel] = a_.state(at_end);
      a_.arc(next[rel], '0', '9', more_);
      a_.arc(next[rel], '.', '.', rel == kEqual ? after_point_ : point_[rel]);
    }
    // "0" is a whole number of one digit that no digit follows.
    const int zero = k > 1 ? kLess : b_.whole[0] > '0' ? kLess : kEqual;
    const bool zero_end = zero == kEqual && !b_.fraction.empty() ? accept_[kLess] : accept_[zero];
    zero_ = a_.state(zero_end);
    a_.arc(zero_, '.', '.', zero == kEqual ? after_point_ : point_[zero]);
    for (size_t j = k; j-- > 1;) {
      // After j digits, fewer than the bound has.
      uint32_t now[3];
      const char d = b_.whole[j];
      for (int rel = 0; rel < 3; ++rel) {
        now[rel] = a_.state(accept_[kLess]);
        a_.arc(now[rel], '.', '.', point_[kLess]);
        if (rel != kEqual) {
          a_.arc(now[rel], '0', '9', next[rel]);
          continue;
        }
        a_.arc(now[rel], '0', static_cast<char>(d - 1), next[kLess]);
        a_.arc(now[rel], d, d, next[kEqual]);
        a_.arc(now[rel], static_cast<char>(d + 1), '9', next[kGreater]);
      }
      for (int rel = 0; rel < 3; ++rel) next[rel] = now[rel];
    }
    const char d = b_.whole[0];
    for (int rel = 0; rel < 3; ++rel) whole_first_[rel] = next[rel];
    whole_first_lo_[kLess] = '1', whole_first_hi_[kLess] = static_cast<char>(d - 1);
    whole_first_lo_[kEqual] = max_of('1', d), whole_first_hi_[kEqual] = d;
    whole_first_lo_[kGreater] = static_cast<char>(d + 1), whole_first_hi_[kGreater] = '9';
  }

  Arcs& a_;
  const Decimal& b_;
  const bool (&accept_)[3];
  uint32_t decided_[3], point_[3], more_ = 0, zero_ = 0, after_point_ = 0;
  uint32_t whole_first_[3];
  char whole_first_lo_[3], whole_first_hi_[3];
};

}  // namespace

Status set_compared(const Decimal& bound, bool less, bool equal, bool greater, Dfa& out) {
  Arcs arcs(out.allocator());
  const uint32_t start = arcs.state(false), minus = arcs.state(false);
  // What a magnitude's relation to the bound's says of positive and of negative values.
  const bool positive[3] = {bound.negative ? greater : less, bound.negative ? greater : equal, greater};
  const bool negative[3] = {bound.negative ? greater : less, bound.negative || bound.is_zero() ? equal : less,
                            less};
  Comparison of_positive(arcs, bound, positive), of_negative(arcs, bound, negative);
  of_positive.begin(start);
  arcs.arc(start, '-', '-', minus);
  of_negative.begin(minus);
  return arcs.finish(out);
}

Status set_multiples(const Decimal& of, Dfa& out) {
  constexpr uint64_t kMostRemainders = 10'000;
  uint64_t k = 0;
  const uint32_t places = static_cast<uint32_t>(of.fraction.size());
  for (char c : of.whole) k = min_of(k * 10 + static_cast<uint64_t>(c - '0'), kMostRemainders + 1);
  for (char c : of.fraction) k = min_of(k * 10 + static_cast<uint64_t>(c - '0'), kMostRemainders + 1);
  if (k == 0 || k > kMostRemainders || k * (places + 2) > Dfa::kMostStates - 10) return kErrFull;
  Arcs arcs(out.allocator());
  uint64_t scale[64];  // [i] 10^i mod k
  if (places >= 64) return kErrFull;
  scale[0] = 1 % k;
  for (uint32_t i = 1; i <= places; ++i) scale[i] = scale[i - 1] * 10 % k;
  const uint32_t start = arcs.state(false), minus = arcs.state(false), zero = arcs.state(true);
  const uint32_t point = arcs.state(false);  // the first of k: after the point, by remainder
  for (uint64_t r = 1; r < k; ++r) arcs.state(false);
  const uint32_t n = static_cast<uint32_t>(k), whole = point + n;
  for (uint64_t r = 0; r < k; ++r) arcs.state(r * scale[places] % k == 0);
  const uint32_t fraction = whole + n;  // [i - 1][r] after i digits of it
  for (uint32_t i = 1; i <= places; ++i)
    for (uint64_t r = 0; r < k; ++r) arcs.state(r * scale[places - i] % k == 0);
  // Digits past the places must be zeros.
  const uint32_t rest = arcs.state(true);
  arcs.arc(rest, '0', '0', rest);
  auto digits = [&](uint32_t from, uint64_t r, uint32_t to) {
    for (uint64_t d = 0; d < 10; ++d) {
      const char c = static_cast<char>('0' + d);
      arcs.arc(from, c, c, to + static_cast<uint32_t>((r * 10 + d) % k));
    }
  };
  for (uint64_t r = 0; r < k; ++r) {
    const uint32_t i = static_cast<uint32_t>(r);
    digits(whole + i, r, whole);
    arcs.arc(whole + i, '.', '.', point + i);
    if (places == 0) {
      if (r == 0) arcs.arc(point, '0', '0', rest);
      continue;
    }
    digits(point + i, r, fraction);
    for (uint32_t p = 1; p < places; ++p) digits(fraction + (p - 1) * n + i, r, fraction + p * n);
    if (r == 0) arcs.arc(fraction + (places - 1) * n, '0', '0', rest);
  }
  arcs.arc(zero, '.', '.', point);
  const uint32_t begins[] = {start, minus};
  for (uint32_t from : begins) {
    arcs.arc(from, '0', '0', zero);
    for (uint64_t d = 1; d < 10; ++d) {
      const char c = static_cast<char>('0' + d);
      arcs.arc(from, c, c, whole + static_cast<uint32_t>(d % k));
    }
  }
  arcs.arc(start, '-', '-', minus);
  return arcs.finish(out);
}

}  // namespace grammar
}  // namespace gcrt
