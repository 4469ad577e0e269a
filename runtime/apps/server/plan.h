#pragma once
// From a request's fields to what the engine is asked for.
#include <memory>
#include <string>

#include "runtime/apps/server/fields.h"
#include "runtime/apps/server/generation.h"
#include "runtime/apps/server/service.h"

namespace gcrt::serve {

// Sampling, stops, limits, grammar: all but the prompt and how the answer is read. Throws ApiError.
std::shared_ptr<Plan> make_plan(Service& service, const Params& params);

// tool_choice, in OpenAI's words: "none", "auto", "required", or {"type": "function", "function": {"name"}}.
struct ToolChoice {
  enum Kind { kAuto, kNone, kRequired, kNamed } kind = kAuto;
  std::string name;  // kNamed
};
ToolChoice read_tool_choice(const json::value& choice);

// What a chat asks for beside its messages.
struct ChatRequest {
  ChatInput input;
  ToolChoice tool_choice;
  bool parallel_calls = true, parse_calls = true;
  Thinking thinking = Thinking::kDefault;
  std::int64_t reasoning_budget = -1;
  bool reasoning_apart = true;
};
// The prompt, and how the answer is read. Throws ApiError.
std::shared_ptr<Plan> make_chat_plan(Service& service, const Params& params, ChatRequest request);

// "low", "medium", "high", "none", "minimal"; empty: as the template does.
Thinking read_effort(const Service& service, const std::string& effort, const std::string& param);
// {"type": "json_schema", ...}, {"type": "json_object"}, {"type": "text"} of `format`, named `param`.
std::optional<GrammarText> read_response_format(const json::value& format, const std::string& param);

}  // namespace gcrt::serve
