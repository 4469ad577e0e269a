// The text form of graphs; parse.h reads it back to the same graph. Grammar: parse.h.
#pragma once

#include <string>

#include "compiler/ir/ir.h"

namespace gc::ir {

std::string print(const Graph& g);
// One op without its type comment: "%y = add(%a, %b)".
std::string print(const Graph& g, const Op& op);

// A string literal of the text form: quotes, and \n \t \" \\ \xNN for what isn't printable ASCII.
std::string string_literal(std::string_view text);

}  // namespace gc::ir
