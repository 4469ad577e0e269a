#pragma once
// The messages of a conversation, and their form as JSON: what templates are given, what files keep.
#include <stdint.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/base/vec.h"

namespace gcrt {

struct ChatMessage {
  explicit ChatMessage(Allocator a) : role(a), content(a), reasoning(a) {}
  Vec<char> role;  // "system", "user", "assistant"
  Vec<char> content;
  Vec<char> reasoning;  // of an assistant; empty: none
};

// Appends `{"role": ..., "content": ..., "reasoning_content": ...}`. False: no memory.
[[nodiscard]] bool append_message_json(const ChatMessage& message, Vec<char>& out);

// `json`: an array of messages, or an object that has one as "messages"; contents are texts, or arrays of parts whose
// texts are joined. kErrInput: what is wrong with it, in `message`; `out` is as it was then.
Status read_messages_json(Str json, Vec<ChatMessage>& out, Span<char> message, Allocator allocator);

}  // namespace gcrt
