#pragma once
// DRY ("don't repeat yourself"): a token that would go on with something already said becomes less likely, the more
// the longer the repetition is: by multiplier * base ^ (length - allowed_length).
//
// The text is read backwards. At each earlier place, how many tokens before it are the same as at the text's end? The
// Z-algorithm answers that for all places in linear time. The token that followed there would lengthen the repetition
// now. Breakers (a line end, a quote) bound what counts as one repetition, and are never penalized themselves when
// they are single tokens: a conversation's markup may repeat.
#include <stdint.h>

#include "runtime/base/int_map.h"
#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/base/vec.h"

namespace gcrt {

struct DryParams {
  float multiplier;  // 0 off
  float base;
  int32_t allowed_length;  // of a repetition that costs nothing
  int32_t last_n;          // tokens looked at; 0 off, -1 all
};
inline bool dry_works(const DryParams& p) { return p.multiplier != 0.0f && p.base >= 1.0f && p.last_n != 0; }

// Sequences of tokens that break repetitions: a head token and what follows it.
class DryBreakers {
 public:
  explicit DryBreakers(Allocator a) : rows_(a), tails_(a), first_(a) {}
  // The tail may be empty. Equal ones are kept once.
  Status add(int32_t head, Span<const int32_t> tail);
  Status copy(const DryBreakers& other);
  void clear();

  // f(tail) for each breaker that begins with `head`.
  template <class F>
  void each(int32_t head, F f) const {
    const uint32_t* at = first_.find(head);
    for (uint32_t i = at ? *at : kNone; i != kNone; i = rows_[i].next)
      f(Span<const int32_t>(tails_.data() + rows_[i].begin, rows_[i].count));
  }
  bool is_single(int32_t head) const {
    bool single = false;
    each(head, [&](Span<const int32_t> tail) { single |= tail.empty(); });
    return single;
  }
  size_t size() const { return rows_.size(); }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Row {
    uint32_t begin, count;  // in tails_
    uint32_t next;          // of the same head
  };
  Vec<Row> rows_;
  Vec<int32_t> tails_;
  IntMap<uint32_t> first_;  // head -> row
};

class Dry {
 public:
  explicit Dry(Allocator a) : breakers(a), recent_(a), repeats_(a), lengths_(a) {}

  void init(const DryParams& p) { params_ = p, reset(); }
  void reset() { recent_.clear(), oldest_ = 0; }
  Status accept(int32_t token);
  // The length of the repetition that each token would go on with, where it costs something.
  Status measure();
  const IntMap<int32_t>& lengths() const { return lengths_; }
  // What is taken off the logit of a token that goes on with `length`.
  float penalty(int32_t length) const;

  DryBreakers breakers;

 private:
  // The token `i` places before the end.
  int32_t back(size_t i) const {
    size_t at = oldest_ + recent_.size() - 1 - i;
    return recent_[at >= recent_.size() ? at - recent_.size() : at];
  }
  size_t limit(size_t n) const;

  DryParams params_{};
  Vec<int32_t> recent_;  // a ring of last_n tokens
  size_t oldest_ = 0;
  Vec<int32_t> repeats_;  // [place, from the end] tokens before it that end the text, too
  IntMap<int32_t> lengths_;
};

}  // namespace gcrt
