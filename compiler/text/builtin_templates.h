// Chat templates by name, for files that have none (--chat-template NAME). Without BOS, which the tokenizer adds where
// the file wants it. Contents may be text or typed parts; of those the text is taken.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace gc::text {

struct BuiltinTemplate {
  std::string_view name;
  std::string_view body;
};

std::span<const BuiltinTemplate> builtin_templates();  // by name

// The Jinja source. Throws UserError for a name that is none, with those there are.
std::string builtin_template(std::string_view name);

}  // namespace gc::text
