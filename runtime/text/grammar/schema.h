#pragma once
// JSON schemas (draft 2020-12) as grammars.
//
// Fail-closed: every keyword is enforced or refused by name, never passed over; those that assert nothing (title,
// description, default, examples, $comment, content*, unknown ones) are. What a text that follows the grammar says is
// always valid. Not every valid text follows it:
//   - named properties come in the order of the schema, others after them; a property that must be there although no
//     `properties` names it comes in `required`'s order;
//   - an object that is `"type": "object"` with `properties` and says nothing of others has no others;
//   - white space as llama.cpp's grammars have it: after each token nothing, a blank, or one or two line ends and up to
//     20 blanks;
//   - numbers have at most 20 digits before the point and 16 behind it, and no exponent where something limits them; an
//     integer is written without a fraction;
//   - a character that needs no escape has none where something limits a string;
//   - `format` is enforced.
//
// How (schema_terms.h): a schema is taken apart into alternatives of simple facts about each type of value, whatever
// allOf, anyOf, oneOf, not, if and $ref say, by the rules of logic; each set of schemas that one value must fulfil becomes
// a rule. Strings, keys and numbers are sets with and, or, without (dfa.h).
#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/text/grammar/network.h"

namespace gcrt {
namespace grammar {

// kErrInput: no JSON, or no schema. kErrUnsupported: "#/properties/a: uniqueItems is not supported". kErrFull: too large.
Status compile_schema(Str text, Network& out, uint32_t* root, Span<char> message);

}  // namespace grammar
}  // namespace gcrt
