#pragma once
// Which token of a sequence comes next, and what text it is: what there is to do for a token besides running the model.
// It knows no session, so that a loop over one sequence (generator.h) and one over many (runtime/batch) do the same.
//
//   begin(), accept() the prompt
//   prepare()          the mask, before the step that gives the next token's logits
//   most(), rules()    what the head shall choose from, or all logits
//   choose()           after that step; or pick(), which several choosers may do at the same time, and take()
//   text_of()          in whole characters, without what may still become a stop string
//
// The order is token -> bytes -> stop strings -> characters, since a stop string may begin or end inside a token and
// tokens may end inside a character.
#include <stdint.h>

#include "runtime/abi/program.h"
#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/base/vec.h"
#include "runtime/text/breakers.h"
#include "runtime/text/sampler.h"
#include "runtime/text/stop.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/utf8.h"

namespace gcrt {

// What may come next is somebody's decision, a grammar's for instance. The mask applies to the model's logits, before
// the chain; it is asked for once a token. One sequence's.
struct TokenConstraint {
  void* self = nullptr;  // null: there is no constraint
  // A new text begins: generate() was called.
  Status (*begin)(void* self) = nullptr;
  // Bit t of words [n_vocab / 64 rounded up]: token t may come. *mask null: any. Valid until the next call.
  Status (*mask)(void* self, const uint64_t** mask) = nullptr;
  // A token that the mask allowed was chosen, one that ends the text included.
  Status (*accept)(void* self, int32_t token) = nullptr;
};

struct GenerateOptions {
  int64_t max_tokens = -1;    // negative: no limit but the context
  bool ignore_eog = false;    // tokens that end a generation are never chosen
  bool show_special = false;  // control tokens appear in the text
  uint64_t seed = 0;
  bool context_shift = false;
  int64_t keep = 0;  // of the sequence's first tokens, when the context is shifted
  TokenConstraint constraint;
  // Copied by init().
  Span<const SamplerStage> chain;
  Span<const LogitBias> bias;
  Span<const Str> dry_breakers = {kDryBreakers, sizeof kDryBreakers / sizeof kDryBreakers[0]};
  Span<const Str> stops;
};

enum class End : uint8_t {
  kEog,      // the model ended it
  kStop,     // a stop string came
  kLength,   // max_tokens
  kContext,  // no room for another token
  kCaller,   // the callback said so
  kAborted,  // Session::abort()
};

class TokenChooser {
 public:
  explicit TokenChooser(Allocator a)
      : allocator_(a), sampler_(a), stop_(a), forced_(a), bias_(a), bytes_(a), safe_(a), text_(a) {}
  TokenChooser(const TokenChooser&) = delete;
  TokenChooser& operator=(const TokenChooser&) = delete;

  // `tokenizer` may be null or without a vocabulary: there is no text then, and nothing ends by itself. It outlives
  // this. `most_k`: of the session. kErrArgument, kErrMemory: `message` says what.
  Status init(uint32_t n_vocab, uint32_t most_k, const Tokenizer* tokenizer, const GenerateOptions& options,
              Span<char> message);

  // A new text begins.
  Status begin();
  // Tokens of the sequence that were not chosen here: a prompt's.
  Status accept(Span<const int32_t> ids);
  // Whoever changed the sequence accepts its tokens anew.
  void forget_tokens() { sampler_.forget_tokens(); }
  // These come next, whatever the model would say; until end_text() they are taken one by one.
  [[nodiscard]] bool force(Span<const int32_t> ids) { return forced_.append(ids); }
  bool is_forced() const { return at_forced_ < forced_.size(); }

  // The mask of the next token, before the step that gives its logits.
  Status prepare();
  // How many candidates the head may choose; 0: all logits are needed. The tokens are the same either way.
  uint32_t most() const { return k_; }
  // What it does before that, as the sampler now has it; false: nothing. Valid until the sampler changes.
  bool rules(gc_logit_rules* rules) const;

  // From all logits, or from the head's list, which ends before an id of -1. Nothing but this object is touched.
  Status pick(Span<const float> logits, int32_t* token);
  Status pick_of(Span<const int32_t> ids, Span<const float> logits, int32_t* token);
  // The token becomes part of the sequence. `picked` is what pick() said of it, and what is returned when that is an
  // error; `message` then says what it means.
  Status take(Status picked, int32_t token, Span<char> message);
  Status choose(Span<const float> logits, int32_t* token, Span<char> message) {
    return take(pick(logits, token), *token, message);
  }
  Status choose_of(Span<const int32_t> ids, Span<const float> logits, int32_t* token, Span<char> message) {
    return take(pick_of(ids, logits, token), *token, message);
  }
  // After pick(): of the model's own distribution.
  Status top_probs(Span<const float> logits, size_t n, int32_t chosen, Vec<TokenProb>& out, TokenProb* own) {
    return sampler_.top_probs(logits, n, chosen, out, own);
  }
  bool ends(int32_t token) const { return tokenizer_ != nullptr && tokenizer_->is_eog(token); }

  // Text that the token completes, gone with the next call.
  Status text_of(int32_t token, Str* text);
  bool stopped() const { return stop_.stopped(); }
  int32_t stop() const { return stop_.found(); }  // which stop string; -1: none
  // What was held back, at the text's end.
  Status rest_of_text(Str* text);
  // Forgets what was forced and did not come.
  void end_text();

  uint64_t seed() const { return sampler_.seed(); }
  int64_t max_tokens() const { return max_tokens_; }
  bool shifts() const { return shifts_; }
  int64_t keep() const { return keep_; }
  void set_keep(int64_t keep) { keep_ = keep; }

 private:
  Status init_sampler(const GenerateOptions& options, Span<char> message);
  Status init_breakers(const GenerateOptions& options);
  bool take_forced(int32_t* token);

  Allocator allocator_;
  const Tokenizer* tokenizer_ = nullptr;
  uint32_t n_vocab_ = 0;
  uint32_t k_ = 0;
  int64_t max_tokens_ = -1;
  int64_t keep_ = 0;
  bool show_special_ = false;
  bool shifts_ = false;
  TokenConstraint constraint_;
  const uint64_t* mask_ = nullptr;  // of the next token
  Sampler sampler_;
  StopMatcher stop_;
  Utf8Stream utf8_;
  Vec<int32_t> forced_;
  size_t at_forced_ = 0;
  bool was_forced_ = false;  // what was picked last
  Vec<gc_bias> bias_;
  Vec<char> bytes_, safe_, text_;  // of one token: as it is, without stop strings, in whole characters
};

}  // namespace gcrt
