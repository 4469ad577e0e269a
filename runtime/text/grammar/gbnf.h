#pragma once
// GBNF, llama.cpp's language for grammars: `root ::= "yes" | [0-9]{1,3} (", " word)*`.
//
// Rules are `name ::= alternatives`, on one line but within parentheses and after `|`. Elements: "text", [class] with
// ranges and ^, . for any character, (group), names; after them * + ? {m} {m,} {m,n}. Escapes \n \r \t \\ \" \[ \] and \xHH \uHHHH
// \UHHHHHHHH, which are code points. Comments from # to the end of the line. The grammar is rule `root`.
//
// Ours: a rule that is there twice, an empty class and a surrogate are errors; repetitions have no limit but 2^32 - 2.
//
// Tokens: <[id]>, or <text> where that is one token of the vocabulary, and ! before either for any other token (but those that
// end a generation). Without a vocabulary they are refused.
#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/text/grammar/network.h"
#include "runtime/text/tokenizer.h"

namespace gcrt {
namespace grammar {

// kErrInput: `message` is "line N: what is wrong". kErrFull, kErrMemory.
// `vocabulary` may be null.
Status parse_gbnf(Str text, const Tokenizer* vocabulary, Network& out, uint32_t* root, Span<char> message);

}  // namespace grammar
}  // namespace gcrt
