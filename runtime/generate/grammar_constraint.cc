#include "runtime/generate/grammar_constraint.h"

#include "runtime/base/format.h"

namespace gcrt {

Status GrammarConstraint::init(Kind kind, Str text, const Tokenizer& tokenizer, Span<char> message) {
  Status s = kind == Kind::kGbnf ? grammar_.compile_gbnf(text, message)
                                 : grammar_.compile_json_schema(text, message);
  if (s != kOk) return s;
  s = vocab_.init(tokenizer);
  if (s == kOk) s = state_.init(&grammar_, &vocab_);
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
  static_cast<GrammarConstraint*>(self)->state_.reset();
  return kOk;
}

Status GrammarConstraint::mask(void* self, const uint64_t** mask) {
  GrammarConstraint& g = *static_cast<GrammarConstraint*>(self);
  *mask = nullptr;
  if (g.suspended_) return kOk;
  *mask = g.mask_.data();
  return g.state_.fill_mask({g.mask_.data(), g.mask_.size()});
}

Status GrammarConstraint::accept(void* self, int32_t token) {
  GrammarConstraint& g = *static_cast<GrammarConstraint*>(self);
  return g.suspended_ ? kOk : g.state_.accept_token(token);
}

}  // namespace gcrt
