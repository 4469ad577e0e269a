#include "runtime/text/grammar/regex.h"

#include "runtime/base/format.h"
#include "runtime/base/sort.h"
#include "runtime/text/utf8.h"

namespace gcrt {
namespace grammar {
namespace {

// A text is read as BEGIN, its characters, END; ^ and $ match those. "Somewhere" is any text around.
constexpr uint32_t kBegin = kMaxCode + 1, kEnd = kMaxCode + 2;
constexpr size_t kMostNodes = 60'000;
constexpr int kMostDepth = 200;

struct Arrow {
  uint32_t to, next, lo, hi;  // lo > hi: without a character
};

class Builder {
 public:
  Builder(Str s, Allocator a, Span<char> message)
      : s_(s),
        message_(message),
        a_(a),
        first_(a),
        arrows_(a),
        copy_(a),
        seen_(a),
        list_(a),
        sets_(a),
        set_(a) {}

  Status run(Dfa& out) {
    const uint32_t start = node(), inner = node(), matched = node(), end = node();
    // Before the match: nothing (for ^), or BEGIN and any text.
    arrow(start, inner, kBegin, kBegin);
    arrow(inner, inner, 0, kMaxCode);
    Fragment f = {};
    if (!alternatives(0, &f)) return status_;
    if (at_ < s_.size()) {
      fault("unexpected ')'");
      return status_;
    }
    skip(start, f.start), skip(inner, f.start);
    skip(f.end, matched);
    arrow(matched, matched, 0, kMaxCode);
    arrow(matched, end, kEnd, kEnd);
    skip(f.end, end);  // $ has read END
    return determine(start, end, out);
  }

 private:
  template <class... Parts>
  bool fault(const Parts&... parts) {
    format_to(message_, parts...);
    status_ = kErrInput;
    return false;
  }
  bool unsupported(Str what) {
    format_to(message_, what, " is not supported");
    status_ = kErrUnsupported;
    return false;
  }
  bool too_large() {
    format_to(message_, "it is too large");
    status_ = kErrFull;
    return false;
  }
  bool out_of_memory() {
    status_ = kErrMemory;
    return false;
  }

  uint32_t node() {
    if (!first_.push(kNone)) failed_ = true;
    return failed_ ? 0 : static_cast<uint32_t>(first_.size() - 1);
  }
  void arrow(uint32_t from, uint32_t to, uint32_t lo, uint32_t hi) {
    if (failed_) return;
    if (!arrows_.push({to, first_[from], lo, hi})) failed_ = true;
    if (!failed_) first_[from] = static_cast<uint32_t>(arrows_.size() - 1);
  }
  void skip(uint32_t from, uint32_t to) { arrow(from, to, 1, 0); }
  Fragment of_ranges(const Vec<Range>& ranges) {
    const Fragment f = {node(), node()};
    for (const Range& r : ranges) arrow(f.start, f.end, r.lo, r.hi);
    return f;
  }

  char peek(size_t ahead = 0) const { return at_ + ahead < s_.size() ? s_[at_ + ahead] : '\0'; }
  bool more() const { return at_ < s_.size(); }

  bool alternatives(int depth, Fragment* out) {
    if (depth > kMostDepth) return too_large();
    const Fragment all = {node(), node()};
    for (bool again = true; again;) {
      uint32_t at = node();
      skip(all.start, at);
      while (more() && peek() != '|' && peek() != ')') {
        Fragment f = {};
        if (!term(depth, &f)) return false;
        skip(at, f.start);
        at = f.end;
        if (failed_) return out_of_memory();
        if (first_.size() > kMostNodes) return too_large();
      }
      skip(at, all.end);
      again = peek() == '|' && more();
      at_ += again;
    }
    *out = all;
    return true;
  }

  bool term(int depth, Fragment* out) {
    const char c = peek();
    if (c == '^' || c == '$') {
      ++at_;
      if (peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{' || (more() && peek() == c))
        return unsupported("a repeated ^ or $");
      *out = {node(), node()};
      const uint32_t mark = c == '^' ? kBegin : kEnd;
      arrow(out->start, out->end, mark, mark);
      return true;
    }
    const uint32_t before = static_cast<uint32_t>(first_.size());
    const size_t anchors = n_anchors_;
    if (!atom(depth, out)) return false;
    return repetition(before, anchors != n_anchors_, out);
  }

  bool group(int depth, Fragment* out) {
    ++at_;
    if (peek() == '?') {
      const char kind = peek(1);
      if (kind == '=' || kind == '!') return unsupported("look-ahead");
      if (kind == '<' && (peek(2) == '=' || peek(2) == '!')) return unsupported("look-behind");
      if (kind == '<') {
        while (more() && peek() != '>') ++at_;
        ++at_;
      } else if (kind == ':') {
        at_ += 2;
      } else {
        return unsupported("a group of this kind");
      }
    }
    if (!alternatives(depth + 1, out)) return false;
    if (peek() != ')') return fault("'(' is never closed");
    ++at_;
    return true;
  }

  bool atom(int depth, Fragment* out) {
    ranges_.clear();
    const char c = peek();
    switch (c) {
      case '(':
        return group(depth, out);
      case '[':
        if (!char_class()) return false;
        break;
      case '.': {
        ++at_;
        const Range ends[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
        if (!ranges_.append(Span<const Range>(ends))) return out_of_memory();
        if (!invert()) return false;
        break;
      }
      case '*':
      case '+':
      case '?':
        return fault("'", s_.sub(at_, 1), "' follows nothing that it could repeat");
      case '{':
      case '}':
      case ']':
        return fault("unexpected '", s_.sub(at_, 1), "'");
      default: {
        uint32_t code = 0;
        bool is_set = false;
        if (!character(false, &code, &is_set)) return false;
        if (!is_set && !ranges_.push({code, code})) return out_of_memory();
      }
    }
    *out = of_ranges(ranges_);
    return true;
  }

  bool invert() {
    normalize_ranges(ranges_);
    Vec<Range> all(a_);
    if (!invert_ranges(ranges_, all)) return out_of_memory();
    ranges_ = static_cast<Vec<Range>&&>(all);
    return true;
  }

  bool hex(int digits, uint32_t* out) {
    *out = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const char c = peek();
      const int h = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
      if (h < 0) return fault("expected hexadecimal digits");
      *out = *out * 16 + static_cast<uint32_t>(h);
    }
    return true;
  }

  // \d \w \s and their opposites, into ranges_.
  bool named_class(char c) {
    static constexpr Range kDigits[] = {{'0', '9'}};
    static constexpr Range kWord[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    static constexpr Range kSpace[] = {{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680},
                                       {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                                       {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
    const char kind = c | 0x20;
    const Span<const Range> set = kind == 'd'   ? Span<const Range>(kDigits)
                                  : kind == 'w' ? Span<const Range>(kWord)
                                                : Span<const Range>(kSpace);
    if (c == kind) return ranges_.append(set) || out_of_memory();
    return invert_ranges(set, ranges_) || out_of_memory();
  }

  // One character, or a set of them in ranges_.
  bool character(bool in_class, uint32_t* out, bool* is_set) {
    *is_set = false;
    if (peek() != '\\') {
      const int n = utf8_next(s_.sub(at_));
      if (n <= 0) return fault("it is not UTF-8");
      *out = utf8_decode(s_.data() + at_, n);
      at_ += static_cast<size_t>(n);
      return true;
    }
    if (at_ + 1 >= s_.size()) return fault("'\\' at the end");
    const char c = peek(1);
    at_ += 2;
    switch (c) {
      case 'd':
      case 'D':
      case 'w':
      case 'W':
      case 's':
      case 'S':
        *is_set = true;
        return named_class(c);
      case 'p':
      case 'P':
        return unsupported("\\p{...}");
      case 'b':
        if (!in_class) return unsupported("\\b");
        *out = '\b';
        return true;
      case 'B':
        return unsupported("\\B");
      case 'k':
        return unsupported("a back reference");
      case 't':
        return *out = '\t', true;
      case 'n':
        return *out = '\n', true;
      case 'v':
        return *out = '\v', true;
      case 'f':
        return *out = '\f', true;
      case 'r':
        return *out = '\r', true;
      case '0':
        if (peek() >= '0' && peek() <= '9') return unsupported("an octal escape");
        return *out = 0, true;
      case 'c':
        if (!((peek() | 0x20) >= 'a' && (peek() | 0x20) <= 'z')) return fault("unknown escape '\\c'");
        *out = static_cast<uint32_t>(peek() & 31);
        ++at_;
        return true;
      case 'x':
        return hex(2, out);
      case 'u':
        return unicode(out);
      default:
        break;
    }
    if (c >= '1' && c <= '9') return unsupported("a back reference");
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
      return fault("unknown escape '\\", s_.sub(at_ - 1, 1), "'");
    --at_;
    const int n = utf8_next(s_.sub(at_));
    if (n <= 0) return fault("it is not UTF-8");
    *out = utf8_decode(s_.data() + at_, n);
    at_ += static_cast<size_t>(n);
    return true;
  }

  bool unicode(uint32_t* out) {
    if (peek() == '{') {
      ++at_;
      *out = 0;
      int digits = 0;
      while (more() && peek() != '}') {
        uint32_t h = 0;
        if (!hex(1, &h)) return false;
        *out = *out * 16 + h;
        if (++digits > 6) return fault("there is no such character");
      }
      ++at_;
    } else {
      if (!hex(4, out)) return false;
      if (*out >= 0xD800 && *out <= 0xDBFF && peek() == '\\' && peek(1) == 'u') {
        uint32_t low = 0;
        at_ += 2;
        if (!hex(4, &low)) return false;
        if (low < 0xDC00 || low > 0xDFFF) return fault("half a surrogate pair");
        *out = 0x10000 + ((*out - 0xD800) << 10 | (low - 0xDC00));
      }
    }
    return (*out <= kMaxCode && !(*out >= 0xD800 && *out <= 0xDFFF)) || fault("there is no such character");
  }

  bool char_class() {
    ++at_;
    bool negated = false;
    if (peek() == '^') negated = true, ++at_;
    while (peek() != ']') {
      if (!more()) return fault("a class has no closing ']'");
      uint32_t lo = 0, hi = 0;
      bool set = false;
      if (!character(true, &lo, &set)) return false;
      if (set) continue;
      hi = lo;
      if (peek() == '-' && peek(1) != ']' && at_ + 1 < s_.size()) {
        ++at_;
        if (!character(true, &hi, &set)) return false;
        if (set) {
          if (!ranges_.push({'-', '-'})) return out_of_memory();
          hi = lo;
        }
        if (hi < lo) return fault("a range of a class goes backwards");
      }
      if (!ranges_.push({lo, hi})) return out_of_memory();
    }
    ++at_;
    normalize_ranges(ranges_);
    return !negated || invert();
  }

  bool number(uint32_t* out) {
    uint64_t v = 0;
    if (peek() < '0' || peek() > '9') return fault("unexpected '{'");
    for (; peek() >= '0' && peek() <= '9'; ++at_)
      if ((v = v * 10 + static_cast<uint64_t>(peek() - '0')) > kMostNodes) return too_large();
    *out = static_cast<uint32_t>(v);
    return true;
  }

  Fragment copy(Fragment f) {
    return copy_.copy(
        f, first_, arrows_, failed_, [this] { return node(); },
        [this](uint32_t from, const Arrow& old, uint32_t to) { arrow(from, to, old.lo, old.hi); });
  }

  bool repetition(uint32_t before, bool, Fragment* f) {
    uint32_t min = 1, max = 1;
    constexpr uint32_t kNoEnd = Network::kUnbounded;
    const char c = peek();
    if (c == '*' || c == '+' || c == '?') {
      ++at_;
      min = c == '+';
      max = c == '?' ? 1 : kNoEnd;
    } else if (c == '{') {
      ++at_;
      if (!number(&min)) return false;
      max = min;
      if (peek() == ',') {
        ++at_;
        max = kNoEnd;
        if (peek() != '}' && !number(&max)) return false;
      }
      if (peek() != '}') return fault("unexpected '{'");
      ++at_;
      if (max < min) return fault("a repetition goes backwards");
    } else {
      return true;
    }
    if (peek() == '?') ++at_;
    if (peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{')
      return fault("a repetition of a repetition");
    // An anchor within what is repeated would have to match many times at one place.
    for (uint32_t n = before; n < first_.size(); ++n)
      for (uint32_t e = first_[n]; e != kNone; e = arrows_[e].next)
        if (arrows_[e].lo > kMaxCode && max > 1) return unsupported("a repeated ^ or $");
    const uint64_t nodes = first_.size() - before;
    const uint32_t times = max == kNoEnd ? max_of(min, 1u) : max;
    if (nodes * times > kMostNodes) return too_large();
    const Fragment all = {node(), node()};
    uint32_t at = all.start;
    for (uint32_t i = 0; i < times; ++i) {
      if (i >= min) skip(at, all.end);
      const Fragment part = i + 1 == times ? *f : copy(*f);
      skip(at, part.start);
      at = node();
      skip(part.end, at);
      if (max == kNoEnd && i + 1 == times) skip(part.end, part.start);
    }
    skip(at, all.end);
    *f = all;
    return !failed_ || out_of_memory();
  }

  // ---- To a deterministic automaton ----

  uint32_t close_set() {
    // list_ holds what is reached; marks by rounds.
    for (size_t i = 0; i < list_.size(); ++i)
      for (uint32_t e = first_[list_[i]]; e != kNone; e = arrows_[e].next)
        if (arrows_[e].lo > arrows_[e].hi) reach(arrows_[e].to);
    set_.clear();
    for (uint32_t n : list_) {
      bool keep = n == end_;
      for (uint32_t e = first_[n]; e != kNone; e = arrows_[e].next) keep |= arrows_[e].lo <= arrows_[e].hi;
      if (keep && !set_.push(n)) failed_ = true;
    }
    sort(set_.data(), set_.size(), [](uint32_t a, uint32_t b) { return a < b; });
    const uint32_t id = sets_.intern(set_);
    if (id == kNone) failed_ = true;
    return id;
  }
  void begin_set() {
    ++round_;
    list_.clear();
  }
  void reach(uint32_t n) {
    if (seen_[n] == round_) return;
    seen_[n] = round_;
    if (!list_.push(n)) failed_ = true;
  }
  // Where a set leads to by `code`; kNone: nowhere.
  uint32_t step(uint32_t set, uint32_t code) {
    begin_set();
    for (uint32_t n : sets_[set])
      for (uint32_t e = first_[n]; e != kNone; e = arrows_[e].next)
        if (arrows_[e].lo <= code && code <= arrows_[e].hi) reach(arrows_[e].to);
    return list_.empty() ? kNone : close_set();
  }

  Status determine(uint32_t start, uint32_t end, Dfa& out) {
    end_ = end;
    if (failed_ || !seen_.resize(first_.size())) return kErrMemory;
    begin_set();
    reach(start);
    const uint32_t before = close_set(), first = failed_ ? kNone : step(before, kBegin);
    if (failed_) return kErrMemory;
    // Sets are numbered as they come; the text's first is not 0.
    Vec<uint32_t> number(a_), order(a_), cuts(a_);
    Vec<Dfa::Arc> arcs(a_);
    Vec<uint8_t> accepts(a_);
    auto id = [&](uint32_t set) {
      while (number.size() <= set)
        if (!number.push(kNone)) return kNone;
      if (number[set] == kNone) {
        number[set] = static_cast<uint32_t>(order.size());
        if (!order.push(set)) return kNone;
      }
      return number[set];
    };
    if (first == kNone) return out.build({}, arcs);
    if (id(first) == kNone) return kErrMemory;
    for (uint32_t i = 0; i < order.size(); ++i) {
      const uint32_t set = order[i];
      if (order.size() > Dfa::kMostStates || sets_.words() > (1u << 23)) {
        too_large();
        return kErrFull;
      }
      cuts.clear();
      for (uint32_t n : sets_[set])
        for (uint32_t e = first_[n]; e != kNone; e = arrows_[e].next) {
          const Arrow& w = arrows_[e];
          if (w.lo > w.hi || w.lo > kMaxCode) continue;
          if (!cuts.push(w.lo) || !cuts.push(w.hi + 1)) return kErrMemory;
        }
      sort(cuts.data(), cuts.size(), [](uint32_t a, uint32_t b) { return a < b; });
      for (size_t c = 0; c < cuts.size(); ++c) {
        const uint32_t lo = cuts[c];
        if ((c && cuts[c - 1] == lo) || lo > kMaxCode) continue;
        size_t next = c + 1;
        while (next < cuts.size() && cuts[next] == lo) ++next;
        if (next == cuts.size()) break;
        const uint32_t to = step(set, lo);
        if (to == kNone) continue;
        const uint32_t t = id(to);
        if (t == kNone || !arcs.push({i, lo, cuts[next] - 1, t})) return kErrMemory;
      }
      const uint32_t at_end = step(set, kEnd);
      bool accepted = false;
      if (at_end != kNone)
        for (uint32_t n : sets_[at_end]) accepted |= n == end_;
      if (failed_ || !accepts.push(accepted)) return kErrMemory;
    }
    return out.build(accepts, arcs);
  }

  Str s_;
  Span<char> message_;
  Allocator a_;
  Status status_ = kOk;
  size_t at_ = 0, n_anchors_ = 0;
  bool failed_ = false;
  Vec<uint32_t> first_;
  Vec<Arrow> arrows_;
  Vec<Range> ranges_{a_};
  GraphCopy copy_;
  Vec<uint32_t> seen_, list_;
  uint32_t round_ = 0, end_ = 0;
  Interner sets_;
  Vec<uint32_t> set_;
};

}  // namespace

Status compile_regex(Str pattern, Dfa& out, Span<char> message) {
  return Builder(pattern, out.allocator(), message).run(out);
}

}  // namespace grammar
}  // namespace gcrt
