// `gguf-compile tokenize`: text to ids by the very tokenizer that a compiled program would have.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>

namespace gc::text {

struct TokenizeOptions {
  std::string text;         // the text, unless one of the three below is set
  bool from_stdin = false;  // all of `in`
  std::string file;         // this file
  bool json_lines = false;  // `in` has a JSON string a line
  bool ids = false;         // ids alone, "2,9259,1902"; else a line a token, "9259 'Hello'"
  bool no_bos = false;      // nothing that the text does not have (no EOS either)
  bool special = false;     // control tokens written in the text count as such
};

// `blob` is a frozen vocabulary. With json_lines each line of `in` gives one line of `out`: an array of ids, or
// {"error": "..."} for a line that is no JSON string; the command goes on. Returns the exit code (0); throws for
// what it cannot do at all.
int tokenize(std::span<const std::uint8_t> blob, const TokenizeOptions& options, std::istream& in,
             std::ostream& out);

}  // namespace gc::text
