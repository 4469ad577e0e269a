// `gguf-compile parse-output`: what a model said, taken apart by the very parser that a compiled model would run.
#pragma once

#include <iosfwd>
#include <string_view>

namespace gc::text {

// `case_json`: an object with `raw` (the answer, special tokens as text) and what was asked: messages, tools,
// enable_thinking (true), parallel_tool_calls (true), partial (false: the answer is whole). The prompt, whose end says
// whether the answer begins inside the reasoning, is made by the template; `generation_prompt`, its end, stands in for it
// where the template refuses the messages.
//
// Prints {"content", "reasoning_content", "tool_calls": [{"id", "name", "arguments"}]}, where arguments is text.
// Returns the exit code (0); throws UserError in one line for a malformed case or answer.
int parse_output(std::string_view template_text, std::string_view case_json, std::ostream& out,
                 std::ostream& err);

}  // namespace gc::text
