#pragma once
// A conversation and the prompt for its next answer: messages through the model's chat template, and markup and
// messages through the tokenizer as one text, in which what people wrote never becomes a control token.
//
// The prompt is made from the messages each time; what of it the model has already in its state is found by comparing
// tokens (Generator::generate_whole). Templates rewrite the past (they drop old reasoning, trim answers), so a prompt
// that only ever grows, which would spare the comparison, would not be what the model was trained on.
//
// A conversation longer than its room can lose its oldest turns, never the system's message.
#include <stdint.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/base/vec.h"
#include "runtime/text/chat_messages.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/tokenizer.h"

namespace gcrt {

struct PromptOptions {
  Str variables;            // a JSON object with more of the template's variables; empty: none
  Str switches;             // still more: members alone, a comma in front of each
  int64_t now = 0;          // seconds since 1970, UTC
  int64_t utc_offset = 0;   // seconds east
  size_t room = SIZE_MAX;   // most tokens
  bool drop_turns = false;  // the oldest turns are left out of a prompt that has no room
};

class Conversation {
 public:
  // Both outlive this; the template is available.
  Conversation(const ChatTemplate& chat_template, const Tokenizer& tokenizer, Allocator a)
      : template_(chat_template), tokenizer_(tokenizer), allocator_(a), messages_(a), rendered_(), ids_(a) {}

  Vec<ChatMessage>& messages() { return messages_; }
  const Vec<ChatMessage>& messages() const { return messages_; }
  // The first message when it is the system's, else null.
  const ChatMessage* system() const;
  [[nodiscard]] bool add(Str role, Str content, Str reasoning = Str());
  // Replaces it or puts it in front; an empty text takes it away.
  [[nodiscard]] bool set_system(Str content);
  // Everything but the system's message.
  void clear();
  // What follows the last message of a person; true when there is one.
  bool drop_answer();

  // kErrInput: the template refuses, `message` says why. kErrFull: there is no room, and nothing (more) to leave out.
  Status prompt(const PromptOptions& options, Span<char> message);
  // Of the last prompt():
  Span<const int32_t> ids() const { return ids_; }
  Str text() const { return str(rendered_.text); }
  size_t dropped() const { return dropped_; }  // messages that were left out
  // Tokens at its beginning that every prompt of this conversation has: BOS, the system's message.
  size_t fixed() const { return fixed_; }

 private:
  size_t first_turn() const { return system() != nullptr ? 1 : 0; }
  Status render(const PromptOptions& options, size_t skip, bool system_alone, Span<char> message);
  void find_fixed(const PromptOptions& options);

  const ChatTemplate& template_;
  const Tokenizer& tokenizer_;
  Allocator allocator_;
  Vec<ChatMessage> messages_;
  Rendered rendered_;
  Vec<int32_t> ids_;
  size_t dropped_ = 0, fixed_ = 0;
};

}  // namespace gcrt
