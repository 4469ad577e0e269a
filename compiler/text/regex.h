// Expressions of pre-tokenizers, compiled into tables that the runtime follows one character at a time (words.h).
//
// The expressions are written as the models' makers wrote them, for engines that backtrack: alternatives count in
// their order, repetitions take all they can. Here an expression becomes a deterministic automaton over classes of
// characters whose states are ordered lists of the positions a backtracking engine would still try, first choice
// first; where an earlier choice has matched, later ones are dropped from the list. So the match is the one that
// backtracking finds, in one pass, and 1 MB of any text takes 1 MB of steps. The only look-ahead that expressions
// need, (?!\S), is answered by the character that comes next: each step is told what follows before it decides that
// the match ended.
//
// The alternative, a regex library in every compiled program, costs a megabyte and is quadratic or worse on some of
// these expressions. The tables of a pre-tokenizer take 20 to 60 kB, nearly all of it the classes of characters.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/text/words.h"

namespace gc::text {

// What the frozen vocabulary stores; the layout is words.h's.
struct WordTables {
  gcrt::WordHeader header{};
  std::vector<gcrt::WordStage> stages;
  std::vector<std::uint16_t> steps;   // of all stages
  std::vector<std::uint16_t> pages;   // [0x1100] block of 256 code points -> block in `classes`
  std::vector<std::uint8_t> classes;  // [blocks * 256]
};

// Each stage cuts what the one before it left. A stage is an expression, or one of
//   ":trailing_spaces"      \s+ at the end of the text
//   ":threes_of_digits"     cuts inside runs of ASCII digits so that groups of three end with the run
//   ":threes_of_numbers"    the same for any \p{N}, also after the run, but not before it
// Expressions have: literals, \r \n \t \s \S \d \x{1F600}, \p{L N M P S Han}, classes with ranges, negation and a
// difference [A--B], groups, (?i:) for ASCII, | ? * + {n} {n,m}, and (?!\S). Anything else is a bug of the table.
WordTables compile_words(std::span<const std::string_view> stages);

}  // namespace gc::text
