#pragma once
// The states after a text that a file brings along (gc_model::prompt_cache): the system's message of its chats, or what
// its completions begin with. A prompt with the same tokens starts from them.
//
// A cache is records, one for each ISA and KV type it was computed with, each of them the tokens, the text and a saved
// sequence (saved_sequence.h), whose guards decide whether a session takes it. What `OUT prefill` writes is one record;
// the compiler joins them.
#include <stdint.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/base/vec.h"
#include "runtime/core/session.h"

namespace gcrt {

struct PromptRecord {
  Span<const int32_t> ids;
  Str text;
  Span<const uint8_t> saved;
};

// The record at the beginning of `cache`, which is moved behind it. False: there is none, or it is damaged.
bool next_record(Span<const uint8_t>* cache, PromptRecord* record);
// Of the cache in a model; an empty record without one. All have the same tokens and text.
PromptRecord first_record(const gc_model& model);

// Writes the record of a sequence, whose tokens are `ids`.
[[nodiscard]] bool write_record(Session& session, uint32_t seq, Span<const int32_t> ids, Str text,
                                Vec<uint8_t>* out);

// How many tokens two lists begin with alike.
inline size_t common_prefix(Span<const int32_t> a, Span<const int32_t> b) {
  size_t n = 0;
  while (n < min_of(a.size(), b.size()) && a[n] == b[n]) ++n;
  return n;
}

// Puts the cached states into an empty sequence where one of the records is for this session's ISA and KV type and fits
// into its context; false: the sequence is empty.
bool restore_prompt(Session& session, uint32_t seq);

// Starts an empty sequence, which is to have `ids`, from the cached states where what they have in common is most of the
// cache: how many of `ids` the sequence has then, less than all of them, since the last one's logits are wanted.
uint32_t start_from_cache(Session& session, uint32_t seq, Span<const int32_t> ids);

}  // namespace gcrt
