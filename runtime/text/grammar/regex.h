#pragma once
// ECMA-262 regular expressions, as JSON schemas have them in `pattern`, as sets of the texts in which they match
// somewhere. Literals, . \d \w \s and their opposites, classes, groups, | ? * + {m,n} (lazy ones match the same), ^ and $,
// escapes. What is no regular language or needs tables that are not here (look-around, back references, \b, \p) is refused
// by name.
#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/text/grammar/dfa.h"

namespace gcrt {
namespace grammar {

// kErrInput: no regular expression. kErrUnsupported. kErrFull: too large. `message` says what.
Status compile_regex(Str pattern, Dfa& out, Span<char> message);

}  // namespace grammar
}  // namespace gcrt
