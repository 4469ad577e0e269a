// `gguf-compile check-grammar`: is a text a sentence of a grammar? By the very code that holds generation to it.
#pragma once

#include <iosfwd>
#include <string_view>

namespace gc::text {

enum class GrammarKind { kGbnf, kJsonSchema };

// 0: the text is a sentence; 2: it is not, and a line on `out` says where it stops being one. Throws UserError in one
// line for a grammar that is wrong or asks for what is not supported.
int check_grammar(GrammarKind kind, std::string_view grammar, std::string_view text, std::ostream& out);

}  // namespace gc::text
