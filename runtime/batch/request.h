#pragma once
// A request from submit() to its end: what was asked for, copied, and what chooses its tokens.
#include "runtime/base/vec.h"
#include "runtime/batch/batch_request.h"
#include "runtime/generate/token_chooser.h"

namespace gcrt::batch {

struct Request {
  explicit Request(Allocator a) : chooser(a), prompt(a), likeliest(a) {}

  uint64_t id = 0;
  BatchRequest asked;  // its spans point nowhere; the prompt is below, the options are the chooser's
  TokenChooser chooser;
  Vec<int32_t> prompt;
  Vec<TokenProb> likeliest;
  int64_t submitted_ns = 0;
  Request* next = nullptr;  // in a list
  uint32_t cancelled = 0;   // atomic

  bool wants_probs() const { return asked.n_probs >= 0; }
  bool is_cancelled() const { return __atomic_load_n(&cancelled, __ATOMIC_RELAXED) != 0; }
  void cancel() { __atomic_store_n(&cancelled, 1, __ATOMIC_RELAXED); }
};

int64_t monotonic_ns();

}  // namespace gcrt::batch
