#pragma once
// The tokens that are still in the running while a chain of samplers works: at first all of the vocabulary, in id
// order and without ids stored, later a short list.
//
// A full sort of 262,144 logits takes 15 ms, and the largest 40 are all that is wanted. So: one pass takes the
// maximum of each block of 128 logits; the k-th largest of these maxima is a bound that at least k logits reach;
// only blocks that reach it are read again, and only logits that reach it are collected (a few hundred), selected
// and sorted. Top-p grows such a selection until the mass is there; min-p skips blocks below its threshold.
// Figures (one core of a Xeon, SSE2 code, 262,144 logits, 2026): load and greedy 0.08 ms; with top-k 40, top-p and min-p
// 0.12; min-p alone 0.18; softmax and draw over all 0.65; top-p over a flat distribution 3.4 (by selection, not by
// sorting, which takes 15).
//
// Order among candidates is by falling logit, then by rising id: no result depends on how they were found. Sums run
// over fixed lanes and exp is our own, without fused operations, so that a seed gives the same text on every machine.
#include <stdint.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/base/vec.h"

namespace gcrt {

class Candidates {
 public:
  explicit Candidates(Allocator a) : logits_(a), ids_(a), probs_(a), maxima_(a), ranked_(a), keys_(a) {}

  // All of a vocabulary; the id is the index. kErrNan when a logit is NaN or +inf. -inf means "never".
  Status load(Span<const float> logits);
  // A list, as a head's top-k sink gives it.
  Status load(Span<const int32_t> ids, Span<const float> logits);

  size_t size() const { return logits_.size(); }
  int32_t id(size_t i) const { return all_ ? static_cast<int32_t>(i) : ids_[i]; }
  float logit(size_t i) const { return logits_[i]; }
  float prob(size_t i) const { return probs_[i]; }
  // Is every id here, at its own index?
  bool is_all() const { return all_; }
  void set_logit(size_t i, float v) {
    logits_[i] = v;
    sorted_ = false;
  }

  // Index of the greatest, the lowest id on ties; size() when all are -inf.
  size_t best() const;
  // Keeps the k best (k > 0).
  Status keep_top(size_t k);
  // Keeps those whose logit is at least `threshold`, but the min_keep best where they are fewer.
  Status keep_from(float threshold, size_t min_keep);
  // Keeps the shortest prefix, by order, whose probability reaches p, at least min_keep.
  Status keep_mass(float p, size_t min_keep);
  // Keeps those at `indices`, in their order.
  Status keep(Span<const uint32_t> indices);
  // The k greatest logits, falling; the candidates stay as they are.
  Status greatest_logits(size_t k, Vec<float>& out);
  // Does a stand before b: by falling logit, then by rising id?
  bool before(size_t a, size_t b) const {
    return logits_[a] != logits_[b] ? logits_[a] > logits_[b] : id(a) < id(b);
  }
  // Divides all logits by t > 0. Where that would overflow they become relative to the greatest first.
  void divide(float t);
  // Fills prob() and returns their sum before normalisation; 0 when all are -inf.
  Status softmax(double* sum);

 private:
  // A logit and an id as one number that orders as candidates do, greatest first.
  using Key = uint64_t;
  static constexpr size_t kBlock = 128;
  static constexpr size_t kSortLimit = 4096;

  Key key(size_t i) const;
  float greatest() const;
  bool find_maxima();
  // The k best into keys_, sorted when they are no more than kSortLimit; the candidates stay as they are.
  Status rank(size_t k);
  Status take_keys(size_t k, bool sorted);
  Status select_mass(float top, double target, size_t min_keep);
  Status keep_sorted_mass(double target, size_t min_keep);

  Vec<float> logits_;
  Vec<int32_t> ids_;  // unused while all_
  Vec<float> probs_;
  Vec<float> maxima_;  // of each block
  Vec<float> ranked_;  // maxima, for selection
  Vec<Key> keys_;
  bool all_ = true;
  bool sorted_ = false;
};

}  // namespace gcrt
