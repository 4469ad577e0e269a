#pragma once
// From what clients send to token ids: messages through the model's template, prompts as they are.
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/apps/server/fields.h"
#include "runtime/apps/server/service.h"

namespace gcrt::serve {

struct Prompt {
  std::vector<std::int32_t> ids;
  std::string text;       // rendered; of token prompts empty
  std::size_t fixed = 0;  // tokens at its beginning that other prompts of this conversation will have
};

// The messages of OpenAI's chat API in the form that templates know. Throws ApiError.
json::array read_messages(const Service& service, const json::value& messages);
// Their tools: [{"type": "function", "function": {...}}]; empty for null.
json::array read_tools(const json::value& tools);

struct ChatInput {
  json::array messages, tools;
  json::object variables;  // more of the template's
  std::string switches;    // members for the template, a comma before each (OutputFormat::append_switches)
  bool add_generation_prompt = true;
  bool continue_final = false;  // the last message is an assistant's that goes on
};
// No control token can come from the messages' text. Throws ApiError.
Prompt render_chat(const Service& service, const ChatInput& input);

// "prompt": a text, ids, a list of both, or a list of such. Throws ApiError.
std::vector<Prompt> read_prompts(const Service& service, const json::value& prompt, const std::string& param,
                                 bool parse_special = true);
std::vector<std::int32_t> tokenize(const Service& service, std::string_view text, bool add_special,
                                   bool parse_special);
// The bytes of a token, as they go into a text.
std::string token_bytes(const Service& service, std::int32_t id);

// Asks the template what it takes.
void probe_template(Service& service);

}  // namespace gcrt::serve
