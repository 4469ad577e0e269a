#include "runtime/text/special.h"

#include "runtime/base/sort.h"

namespace gcrt {
namespace {

struct Match {
  uint32_t begin;
  uint32_t length;
  int32_t id;
};

// Is `a` handled after `b`?
bool later(const Match& a, const Match& b) {
  if (a.length != b.length) return a.length < b.length;
  if (a.id != b.id) return a.id > b.id;
  return a.begin > b.begin;
}

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

class Splitter {
 public:
  Splitter(const frozen::View& vocab, Str text, bool parse_special, Span<const TextRange> literal,
           Allocator a)
      : vocab_(vocab),
        text_(text),
        parse_special_(parse_special),
        literal_(literal),
        seeds_(a),
        heap_(a),
        taken_(a),
        found_(a) {}

  Status run(Vec<Fragment>& out) {
    Status s = seed();
    if (s != kOk) return s;
    if (seeds_.empty()) return whole(out);
    if (!taken_.resize(text_.size())) return kErrMemory;
    s = resolve();
    if (s != kOk) return s;
    sort(found_.data(), found_.size(), [](const Match& a, const Match& b) { return a.begin < b.begin; });
    return emit(out);
  }

 private:
  bool touches_literal(uint32_t begin, uint32_t end) const {
    // The first range that ends after `begin`.
    size_t lo = 0, hi = literal_.size();
    while (lo < hi) {
      size_t mid = (lo + hi) / 2;
      if (literal_[mid].end <= begin)
        lo = mid + 1;
      else
        hi = mid;
    }
    return lo < literal_.size() && literal_[lo].begin < end;
  }

  // The longest piece at `begin` of at most `limit` bytes; length 0 when there is none.
  Match longest(uint32_t begin, size_t limit) const {
    Match best{begin, 0, -1};
    uint32_t node = 0;
    size_t n = min_of(limit, text_.size() - begin);
    for (size_t i = 0; i < n; ++i) {
      node = vocab_.special_child(node, static_cast<uint8_t>(text_[begin + i]));
      if (!node) break;
      const frozen::TrieNode& t = vocab_.special(node);
      uint32_t length = static_cast<uint32_t>(i + 1);
      bool any = t.any_id >= 0 && parse_special_ && !touches_literal(begin, begin + length);
      int32_t id = any ? t.any_id : t.user_id;
      if (id >= 0) best = {begin, length, id};
    }
    return best;
  }

  Status seed() {
    if (!vocab_.has_special()) return kOk;
    bool starts[256];
    for (int b = 0; b < 256; ++b) starts[b] = vocab_.special_child(0, static_cast<uint8_t>(b)) != 0;
    for (uint32_t i = 0; i < text_.size(); ++i) {
      if (!starts[static_cast<uint8_t>(text_[i])]) continue;
      Match m = longest(i, SIZE_MAX);
      if (m.length && !seeds_.push(m)) return kErrMemory;
    }
    // They are in order already where a text is one long run.
    bool ordered = true;
    for (size_t i = 1; i < seeds_.size() && ordered; ++i) ordered = !later(seeds_[i - 1], seeds_[i]);
    if (!ordered)
      sort(seeds_.data(), seeds_.size(), [](const Match& a, const Match& b) { return later(b, a); });
    return kOk;
  }

  // The next one to be handled, of the seeds and of those that were shortened.
  Match next() {
    if (at_ < seeds_.size() && (heap_.empty() || later(heap_[0], seeds_[at_]))) return seeds_[at_++];
    pop_heap(heap_.data(), heap_.size(), later);
    Match m = heap_.back();
    heap_.pop();
    return m;
  }

  Status resolve() {
    while (at_ < seeds_.size() || !heap_.empty()) {
      const Match m = next();
      if (taken_[m.begin]) continue;
      const void* hit = memchr(taken_.data() + m.begin, 1, m.length);
      if (!hit) {
        if (!found_.push(m)) return kErrMemory;
        take(m);
        continue;
      }
      size_t room = static_cast<size_t>(static_cast<const uint8_t*>(hit) - taken_.data()) - m.begin;
      Match shorter = longest(m.begin, room);
      if (!shorter.length) continue;
      if (!heap_.push(shorter)) return kErrMemory;
      sift_up(heap_.data(), heap_.size() - 1, later);
    }
    return kOk;
  }

  void take(const Match& m) {
    uint32_t end = m.begin + m.length, n = static_cast<uint32_t>(text_.size());
    memset(taken_.data() + m.begin, 1, m.length);
    uint8_t attr = vocab_.attr(m.id);
    if (attr & frozen::kLStrip)
      for (uint32_t i = m.begin; i > 0 && !taken_[i - 1] && is_space(text_[i - 1]); --i) taken_[i - 1] = 1;
    if (attr & frozen::kRStrip)
      for (uint32_t i = end; i < n && !taken_[i] && is_space(text_[i]); ++i) taken_[i] = 1;
  }

  Status whole(Vec<Fragment>& out) {
    if (text_.empty()) return kOk;
    return out.push({0, static_cast<uint32_t>(text_.size()), -1}) ? kOk : kErrMemory;
  }

  // Raw fragments are the runs that are not taken.
  Status emit(Vec<Fragment>& out) {
    uint32_t n = static_cast<uint32_t>(text_.size()), at = 0;
    for (size_t k = 0; k <= found_.size(); ++k) {
      uint32_t stop = k < found_.size() ? found_[k].begin : n;
      while (at < stop) {
        uint32_t begin = at;
        while (at < stop && !taken_[at]) ++at;
        if (at > begin && !out.push({begin, at, -1})) return kErrMemory;
        while (at < stop && taken_[at]) ++at;
      }
      if (k == found_.size()) break;
      at = stop + found_[k].length;
      if (!out.push({stop, at, found_[k].id})) return kErrMemory;
    }
    return kOk;
  }

  const frozen::View& vocab_;
  Str text_;
  bool parse_special_;
  Span<const TextRange> literal_;
  Vec<Match> seeds_;    // at each place where a piece begins the longest one, in order
  size_t at_ = 0;       // the first one that is not handled yet
  Vec<Match> heap_;     // shorter ones at places where that did not fit
  Vec<uint8_t> taken_;  // [text bytes] 1: in a piece, or stripped beside one
  Vec<Match> found_;
};

}  // namespace

Status split_special(const frozen::View& vocab, Str text, bool parse_special, Span<const TextRange> literal,
                     Allocator allocator, Vec<Fragment>& out) {
  return Splitter(vocab, text, parse_special, literal, allocator).run(out);
}

}  // namespace gcrt
