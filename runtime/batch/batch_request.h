#pragma once
// What is asked of a batcher and what it says: requests, the events of their answers, and how busy it is. Who asks needs no
// more than this; who makes the steps, and when, is in batcher.h.
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/generate/generator.h"

namespace gcrt {

struct TokenEvent {
  uint64_t request = 0;
  int32_t id = -1;  // -1: the end of the text, which had been held back
  Str text;         // may be empty; in whole characters; gone when the call returns
  bool forced = false;
  // As far as it is: for llama-server's timings_per_token. steps counts the tokens run so far.
  GenerateTimes times;
  // Where n_probs >= 0 was asked for: of the model's own distribution, before biases and samplers.
  TokenProb chosen = {-1, 0};
  Span<const TokenProb> likeliest;  // the n_probs likeliest, likeliest first
};

struct EndEvent {
  uint64_t request = 0;
  Status status =
      kOk;  // kErrAborted: cancelled, or the batcher was stopped; else what went wrong, as `message` says
  Str message;
  End end = End::kEog;  // if kOk
  int32_t stop = -1;    // of End::kStop: which of the stop strings
  int32_t slot = -1;    // where it ran; -1: it never did
  uint64_t seed = 0;
  GenerateTimes times;  // kept_tokens: of the prompt, that were not computed again; prompt_tokens: that were
  int64_t queued_ns = 0;
  Span<const float> embeddings;  // f32[n_embeddings, n_output] of kEmbed
  uint32_t n_embeddings = 0;
};

struct BatchRequest {
  enum Kind : uint8_t { kGenerate, kEmbed };
  Kind kind = kGenerate;
  Span<const int32_t> prompt;  // copied
  GenerateOptions generate;    // copied, but for the constraint, which lives until on_end
  int32_t n_probs = -1;      // -1: no probabilities; 0: of the chosen token alone; n: of the n likeliest too
  bool cache_prompt = true;  // start from kept states, and keep those of this prompt
  int32_t slot = -1;         // a certain one
  // So many of the first tokens are likely to come back in other prompts (Conversation::fixed()): their states are
  // kept by themselves too, which rings and recurrent states need.
  size_t shared = 0;
  // Of kEmbed, by encoders:
  uint32_t pooling = GC_POOLING_MEAN;
  bool normalize = true;

  // All on the engine's thread, which waits meanwhile. May submit() and cancel(), and force() their own request.
  void* user = nullptr;
  // A piece of the prompt has been read: `done` of its tokens, `kept` of them from kept states. May be null.
  void (*on_prompt)(void* user, uint64_t request, size_t done, size_t kept) = nullptr;
  // False ends the request (End::kCaller).
  bool (*on_token)(void* user, const TokenEvent& event) = nullptr;
  // Once for each request that submit() took, as the last call. May be before submit() returns.
  void (*on_end)(void* user, const EndEvent& event) = nullptr;
};

struct SlotState {
  uint64_t request = 0;  // 0: it is free
  size_t prompt_tokens = 0, prompt_done = 0, kept = 0, generated = 0;
  size_t held = 0;  // tokens of the last prompt in this slot whose states are kept
};

// Totals since the start, but for the first four.
struct BatchMetrics {
  uint32_t slots = 0, running = 0, waiting = 0;
  uint64_t prefixes = 0;                                                     // that are kept
  uint64_t requests = 0, ended = 0, cancelled = 0, failed = 0, refused = 0;  // refused: the queue was full
  uint64_t prompt_tokens = 0, kept_tokens = 0, tokens = 0;
  int64_t prompt_ns = 0, generate_ns = 0;             // sums of the requests'
  uint64_t steps = 0, step_rows = 0, busy_slots = 0;  // the last two: sums over the steps
  int64_t step_ns = 0, most_step_ns = 0;
  int64_t most_wait_ns = 0;  // the longest step in which somebody generated
  uint64_t most_tokens = 0;  // longest sequence
};

}  // namespace gcrt
