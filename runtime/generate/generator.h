#pragma once
// Tokens in, sampled tokens and their text out: one sequence of a session, a sampler, the ways to an end.
//
// The text comes in whole UTF-8 characters, without the stop string and without what might still become one; joined
// it is the same however tokens cut it (token_chooser.h).
//
// The last token of a generation has been chosen but not run: it is not in the session's state. Who continues the
// sequence puts it in front of the next prompt, or says what the whole sequence shall be (generate_whole).
//
// At the context's end a generation ends, or the context is shifted: the first `keep` tokens stay, of the rest the
// older half is dropped, and what remains is run again as a prompt. Keys rotated in place would cost less (the
// peers' way) and answer from states that no prompt would give; half a context of prompt is a second or two.
//
// init() takes the memory of all this; a token allocates nothing that stays.
#include <stdint.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/base/vec.h"
#include "runtime/core/session.h"
#include "runtime/generate/token_chooser.h"

namespace gcrt {

struct GenerateTimes {
  uint64_t prompt_tokens = 0, tokens = 0;
  uint64_t kept_tokens = 0;  // of the sequence, that were in the state before and stayed there
  uint64_t shifts = 0;       // of the context
  uint64_t steps = 0;        // tokens run through the model after the prompt: tokens but the last
  int64_t prompt_ns = 0;     // the prompt's steps
  int64_t generate_ns = 0;   // from the prompt's end to the last token
};

class Generator {
 public:
  // Called for each token, and once more with token -1 if text was held back at the end. `text` may be empty, and is
  // gone when the call returns. False ends the generation.
  using OnToken = bool (*)(void* user, int32_t token, Str text);

  explicit Generator(Allocator a = libc_allocator())
      : allocator_(a), chooser_(a), state_(a), whole_(a), ids_(a), values_(a) {}
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

  // The same, told by all the tokens that the sequence shall have. What it has in common with the state stays there,
  // generated tokens as generated (the plain continuation of one's own session); the rest is forgotten and run
  // as a prompt. An empty state begins with what the file brings along of the prompt (prompt_cache.h).
  Status generate_whole(Span<const int32_t> whole, OnToken on_token, void* user, End* end,
                        Span<char> message);
  // These come next, whatever the model would say: before generate() or from its callback.
  [[nodiscard]] bool force(Span<const int32_t> ids) { return chooser_.force(ids); }
  // The tokens in the state; -1 where somebody else has moved the sequence to another length since.
  Span<const int32_t> in_state() const { return state_; }
  void set_keep(int64_t keep) { chooser_.set_keep(keep); }

  const GenerateTimes& times() const { return times_; }  // of the last generate()
  uint64_t seed() const { return chooser_.seed(); }
  // Does the model's head choose the candidates (greedy and top-k chains, in a session with most_k)? The tokens are the
  // same either way; all logits are then never in memory.
  bool head_chooses() const { return logits_ == nullptr; }

 private:
  Status check_prompt(Span<const int32_t> prompt, Span<char> message) const;
  Status run(Span<const int32_t> prompt, OnToken on_token, void* user, End* end, Span<char> message);
  Status loop(OnToken on_token, void* user, End* end, Span<char> message);
  Status notice_others();
  Status init_sink();
  gc_sink* next_sink();
  Status choose(int32_t* token, Span<char> message);
  Status read(Span<const int32_t> prompt, gc_sink* sink);
  Status go_on(int32_t token);
  Status shift();
  void follow_back();
  Status rest_of_text(OnToken on_token, void* user);

  Allocator allocator_;
  Session* session_ = nullptr;
  uint32_t seq_ = 0;
  TokenChooser chooser_;
  float* logits_ = nullptr;  // f32[logits_stride], or null: the head chooses
  uint64_t logits_bytes_ = 0;
  gc_sink sink_ = {};
  gc_logit_rules rules_ = {};
  Vec<int32_t> state_;  // what is in the session's state
  Vec<int32_t> whole_;  // of a shift
  Vec<int32_t> ids_;    // of the head's list
  Vec<float> values_;
  GenerateTimes times_;
};

}  // namespace gcrt
