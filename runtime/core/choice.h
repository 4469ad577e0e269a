#pragma once
// The choice of tokens inside the head: of each output the k greatest logits after biases, penalties and mask, without
// storing logits. Each worker has a list of its own, kept while its pieces pass (gc_choice in program.h); the lists are
// merged when the step is over. Order is by falling logit, then by rising id, so nothing depends on who saw what when.
//
// A piece of 1024 logits costs a comparison for each 4 and, once the list has filled up with good ones, little else: for
// 262,144 tokens 20 us of two workers' time, where storing, copying and searching logits takes 150.
#include <stdint.h>

#include "runtime/abi/program.h"
#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/base/vec.h"

namespace gcrt {

class Choice {
 public:
  explicit Choice(Allocator a = libc_allocator())
      : rules_(a), penalties_(a), biases_(a), lists_(a), entries_(a) {}
  Choice(const Choice&) = delete;
  Choice& operator=(const Choice&) = delete;

  static constexpr uint32_t kMostRecent = 4096;  // tokens that a rule's penalties look at

  // Room for `outputs` lists of `most_k` in each worker.
  Status init(uint32_t n_vocab, uint32_t workers, uint32_t outputs, uint32_t most_k, Allocator allocator);
  static uint64_t bytes(uint32_t workers, uint32_t outputs, uint32_t most_k);
  uint32_t most_k() const { return most_k_; }

  // Before a step whose sink is ARGMAX or TOPK. kErrArgument: k, or a rule, is out of range.
  Status begin(const gc_sink& sink, uint32_t n_outputs);
  const gc_choice* hooks() const { return &hooks_; }
  // After it: fills the sink's ids and values. kErrNan: of some outputs a logit was NaN or +inf, or all are -inf; their
  // lists are empty.
  Status finish(const gc_sink& sink, uint32_t n_outputs);

 private:
  struct Entry {
    float logit;
    int32_t id;
  };
  struct alignas(64) List {
    uint32_t n = 0, taken = 0;
    float threshold = 0;  // what a logit must reach to enter
    float limit = 0;      // the threshold after the bounds
    bool bounds = false;  // entries are bounds
    bool bad = false;     // a NaN or +inf was seen
  };
  struct Penalty {
    int32_t id, count;
  };
  // One output's rules, made ready: sorted by id.
  struct Rules {
    uint32_t penalties = 0, n_penalties = 0, biases = 0, n_biases = 0;
    float repeat = 1, frequency = 0, presence = 0;
    const uint64_t* mask = nullptr;
  };

  static bool above(const Entry& a, const Entry& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
  }
  static void take(void* self, uint32_t worker, uint32_t output, uint32_t first, uint32_t n, float* logits);
  static void bound(void* self, uint32_t worker, uint32_t output, uint32_t first, uint32_t n, float* least,
                    float* most);
  static float limit(void* self, uint32_t output);

  List& list(uint32_t worker, uint32_t output) { return lists_[worker * outputs_ + output]; }
  Entry* entries(uint32_t worker, uint32_t output) {
    return entries_.data() + (uint64_t{worker} * outputs_ + output) * most_k_;
  }
  void clear(List& list, bool bounds);
  Status add_rules(const gc_logit_rules& given);
  template <class F>
  void each_ruled(const Rules& rules, uint32_t first, uint32_t n, const F& f) const;
  void apply(const Rules& rules, uint32_t first, uint32_t n, float* logits) const;
  void offer(uint32_t worker, uint32_t output, uint32_t first, uint32_t n, const float* logits);

  uint32_t n_vocab_ = 0, workers_ = 0, outputs_ = 0, most_k_ = 0, k_ = 0;
  gc_choice hooks_ = {};
  Vec<Rules> rules_;  // of each output, or empty
  Vec<Penalty> penalties_;
  Vec<gc_bias> biases_;
  Vec<List> lists_;     // [workers][outputs]
  Vec<Entry> entries_;  // [workers][outputs][most_k]: heaps, the worst at the top
};

}  // namespace gcrt
