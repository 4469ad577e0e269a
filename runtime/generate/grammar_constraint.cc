#include "runtime/generate/grammar_constraint.h"

#include <time.h>

#include "runtime/base/format.h"

namespace gcrt {
namespace {

int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}

}  // namespace

Status GrammarConstraint::init(Kind kind, Str text, const Tokenizer& tokenizer, Span<char> message) {
  const int64_t start = now_ns();
  Status s = kind == Kind::kGbnf ? grammar_.compile_gbnf(text, message, &tokenizer)
                                 : grammar_.compile_json_schema(text, message);
  if (s != kOk) return s;
  if (grammar_.allows_nothing()) {
    format_to(message, "the schema allows nothing");
    return kErrInput;
  }
  const int64_t compiled = now_ns();
  s = vocab_.init(tokenizer);
  const int64_t sorted = now_ns();
  if (s == kOk) s = state_.init(&grammar_, &vocab_);
  if (s == kOk) s = state_.prepare();
  if (s == kErrFull) format_to(message, "the grammar is ambiguous beyond reason");
  times_.vocab_ns = sorted - compiled;
  times_.compile_ns = now_ns() - start - times_.vocab_ns;
  if (s == kOk && !mask_.resize(vocab_.mask_words())) s = kErrMemory;
  if (s == kErrMemory) format_to(message, "not enough memory for the grammar");
  active_ = s == kOk;
  return s;
}

TokenConstraint GrammarConstraint::constraint() {
  if (!active_) return {};
  return {this, begin, mask, accept};
}

Status GrammarConstraint::begin(void* self) {
  GrammarConstraint& g = *static_cast<GrammarConstraint*>(self);
  g.state_.reset();
  g.times_.masks = 0, g.times_.masks_ns = g.times_.worst_mask_ns = 0;
  return kOk;
}

Status GrammarConstraint::mask(void* self, const uint64_t** mask) {
  GrammarConstraint& g = *static_cast<GrammarConstraint*>(self);
  *mask = nullptr;
  if (g.suspended_) return kOk;
  *mask = g.mask_.data();
  const int64_t start = now_ns();
  const Status s = g.state_.fill_mask({g.mask_.data(), g.mask_.size()});
  const int64_t took = now_ns() - start;
  ++g.times_.masks;
  g.times_.masks_ns += took;
  g.times_.worst_mask_ns = max_of(g.times_.worst_mask_ns, took);
  return s;
}

Status GrammarConstraint::accept(void* self, int32_t token) {
  GrammarConstraint& g = *static_cast<GrammarConstraint*>(self);
  return g.suspended_ ? kOk : g.state_.accept_token(token);
}

}  // namespace gcrt
