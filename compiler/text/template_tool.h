// `gguf-compile apply-template`: a conversation to a prompt, by the very program that a compiled model would run.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

namespace gc::text {

struct ApplyTemplateOptions {
  // What the template's bos_token and eos_token are when the context does not say.
  std::string bos_token = "<s>";
  std::string eos_token = "</s>";
  // Seconds since 1970, told as UTC. Absent: the clock, in local time.
  std::optional<std::int64_t> now;
};

// Prints the prompt, nothing else; returns the exit code (0). Throws UserError in one line for a template that does
// not parse ("line N: ..."), a malformed context and what the template itself raises. Warnings go to `err`.
int apply_template(std::string_view template_text, std::string_view context_json,
                   const ApplyTemplateOptions& options, std::ostream& out, std::ostream& err);

}  // namespace gc::text
