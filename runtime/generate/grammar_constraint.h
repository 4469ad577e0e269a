#pragma once
// A grammar that decides which tokens may come next (TokenConstraint). One sequence's.
#include <stdint.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/base/vec.h"
#include "runtime/generate/generator.h"
#include "runtime/text/grammar.h"

namespace gcrt {

class GrammarConstraint {
 public:
  enum class Kind : uint8_t { kGbnf, kJsonSchema };
  struct Times {
    int64_t compile_ns = 0;  // of the grammar, with all that masks need from it
    int64_t vocab_ns = 0;    // to sort the vocabulary
    uint64_t masks = 0;      // of the last text
    int64_t masks_ns = 0, worst_mask_ns = 0;
  };

  explicit GrammarConstraint(Allocator a) : grammar_(a), vocab_(a), state_(a), mask_(a) {}

  // Takes some milliseconds: what masks need is found out here, so that no token waits for it.
  // kErrInput, kErrUnsupported: what is wrong with the grammar, in `message`. `tokenizer` has a vocabulary.
  Status init(Kind kind, Str text, const Tokenizer& tokenizer, Span<char> message);
  bool active() const { return active_; }
  const Times& times() const { return times_; }
  // No constraint unless active().
  TokenConstraint constraint();
  // While true anything may come and the grammar doesn't see it: reasoning, before the answer begins.
  void suspend(bool on) { suspended_ = on; }

 private:
  static Status begin(void* self);
  static Status mask(void* self, const uint64_t** mask);
  static Status accept(void* self, int32_t token);

  Grammar grammar_;
  GrammarVocab vocab_;
  GrammarState state_;
  Vec<uint64_t> mask_;
  Times times_;
  bool active_ = false, suspended_ = false;
};

}  // namespace gcrt
