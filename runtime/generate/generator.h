#pragma once
// Tokens in, sampled tokens and their text out: one sequence of a session, a sampler, the ways to an end.
//
// The text comes in whole UTF-8 characters, without the stop string and without what might still become one; joined
// it is the same however tokens cut it. The order is token -> bytes -> stop strings -> characters, since a stop
// string may begin or end inside a token and tokens may end inside a character.
//
// The last token of a generation has been chosen but not run: it is not in the session's state. Who continues the
// sequence puts it in front of the next prompt.
//
// init() takes the memory of all this; a token allocates nothing that stays.
#include <stdint.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/base/vec.h"
#include "runtime/core/session.h"
#include "runtime/text/breakers.h"
#include "runtime/text/sampler.h"
#include "runtime/text/stop.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/utf8.h"

namespace gcrt {

struct GenerateOptions {
  int64_t max_tokens = -1;    // negative: no limit but the context
  bool ignore_eog = false;    // tokens that end a generation are never chosen
  bool show_special = false;  // control tokens appear in the text
  uint64_t seed = 0;
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

struct GenerateTimes {
  uint64_t prompt_tokens = 0, tokens = 0;
  uint64_t steps = 0;       // tokens run through the model after the prompt: tokens but the last
  int64_t prompt_ns = 0;    // the prompt's steps
  int64_t generate_ns = 0;  // from the prompt's end to the last token
};

class Generator {
 public:
  // Called for each token, and once more with token -1 if text was held back at the end. `text` may be empty, and is
  // gone when the call returns. False ends the generation.
  using OnToken = bool (*)(void* user, int32_t token, Str text);

  explicit Generator(Allocator a = libc_allocator())
      : allocator_(a), sampler_(a), stop_(a), ids_(a), values_(a), bias_(a), bytes_(a), safe_(a), text_(a) {}
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;
  ~Generator();

  // `tokenizer` may be null or without a vocabulary: there is no text then, and nothing ends by itself. Both outlive
  // the generator. kErrArgument, kErrMemory: `message` says what.
  Status init(Session* session, uint32_t seq, const Tokenizer* tokenizer, const GenerateOptions& options,
              Span<char> message);

  // Appends the prompt to the sequence and generates until an end, which *end tells. kErrFull when the prompt does
  // not fit, kErrArgument when it is empty or has an id past the vocabulary, kErrNan when the model gives no numbers.
  Status generate(Span<const int32_t> prompt, OnToken on_token, void* user, End* end, Span<char> message);

  const GenerateTimes& times() const { return times_; }  // of the last generate()
  uint64_t seed() const { return sampler_.seed(); }
  // Does the model's head choose the candidates (greedy and top-k chains, in a session with most_k)? The tokens are the
  // same either way; all logits are then never in memory.
  bool head_chooses() const { return logits_ == nullptr; }

 private:
  Status init_breakers(const GenerateOptions& options);
  Status check_prompt(Span<const int32_t> prompt, Span<char> message) const;
  Status run(Span<const int32_t> prompt, OnToken on_token, void* user, End* end, Span<char> message);
  Status loop(OnToken on_token, void* user, End* end, Span<char> message);
  Status init_head(Span<const LogitBias> bias);
  gc_sink* next_sink();
  Status sample(int32_t* token);
  Status text_of(int32_t token);
  Status rest_of_text(OnToken on_token, void* user);
  bool ends(int32_t token) const { return tokenizer_ != nullptr && tokenizer_->is_eog(token); }

  Allocator allocator_;
  Session* session_ = nullptr;
  uint32_t seq_ = 0;
  const Tokenizer* tokenizer_ = nullptr;
  int64_t max_tokens_ = -1;
  bool show_special_ = false;
  Sampler sampler_;
  StopMatcher stop_;
  Utf8Stream utf8_;
  float* logits_ = nullptr;  // f32[logits_stride], or null: the head chooses
  uint64_t logits_bytes_ = 0;
  gc_sink sink_ = {};
  gc_logit_rules rules_ = {};
  Vec<int32_t> ids_;  // of the head's list
  Vec<float> values_;
  Vec<gc_bias> bias_;
  Vec<char> bytes_, safe_, text_;  // of one token: as it is, without stop strings, in whole characters
  GenerateTimes times_;
};

}  // namespace gcrt
