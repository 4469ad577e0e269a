// Reads the text form of graphs.
//
//   graph  := ("graph" | "encoder") "@" name "(" "rows" ":" "row" "[" "T" "]" {"," state} ")"
//             "->" output {"," output} "{" body "}"
//   state  := name ":" kind "[" field int {"," field int} "]"         fields: window heads dim | k_dim v_dim
//   output := name ":" type
//   body   := {weight | op} {"layer" int "(" value ")" "{" {op} "}"} ["head" "(" value ")" "{" {op} "}"]
//   op     := value {"," value} "=" kind "(" [arg {"," arg}] ")" ["{" attr "=" x {"," attr "=" x} "}"]
//   arg    := value | "rows" | "rows." column | state's name | slot "=" use | slot "=" "[" use {"," use} "]"
//   use    := "none" | weight ["rows" "[" int ":" [int] "]"]
//   weight := "weight" string [":" format "[" int {"," int} "]" ["=" ("rope_fine" | "rope_coarse") "(" ... ")"]]
//
// A weight states its type at its first mention. Comments run from // or ; to the end of the line; the types of
// values that the printer writes there are computed anew. Names may be string literals: %"odd name".
#pragma once

#include <string_view>

#include "compiler/ir/ir.h"

namespace gc::ir {

// Throws a UserError "FILE:LINE:COLUMN: what". What parses keeps its shape rules; verify() checks the rest.
Graph parse(std::string_view text, std::string_view file = "<text>");

}  // namespace gc::ir
