// Cuts a chat template into tokens as jinja2 does in the environment that chat templates are written for: blocks trim
// the newline after them and the white space before them on their line (trim_blocks, lstrip_blocks), the last newline
// of the file is dropped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gc::text {

enum class TokenKind : std::uint8_t {
  kData,        // text between tags
  kPrintBegin,  // {{
  kPrintEnd,
  kBlockBegin,  // {%
  kBlockEnd,
  kName,
  kString,  // text is its value, escapes resolved
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind;
  std::string text;
  std::uint32_t line;  // from 1
};

// Ends with a kEnd. Throws UserError "line N: ...".
std::vector<Token> lex_template(std::string_view source);

}  // namespace gc::text
