#pragma once
// Cuts text into the words that BPE merges within, by tables that the compiler made from the expressions of a
// pre-tokenizer (compiler/text/regex.h). Stages cut one after the other, each within what the one before it left;
// what an expression does not match, between two matches, is a word too.
//
// An expression is an automaton over classes of characters: a step reads a class, gives the next state, and says
// whether a match ends before that character, the last one said being the match. A byte that is not UTF-8 is of the
// class of U+FFFD.
//
// Linear for any text: a match reads on only where more may belong to it, and where it did so in vain (white space
// that might end with a line end), the run and the state it was read in are remembered for the next match.
#include <stdint.h>

#include "runtime/base/span.h"

namespace gcrt {

constexpr uint32_t kMaxWordStages = 8;
constexpr uint32_t kMaxWordClasses = 64;
constexpr uint32_t kCharPages = 0x1100;  // blocks of 256 code points

enum class WordStageKind : uint32_t {
  kExpression = 0,
  kTrailing = 1,       // the members at the end of the text are a word
  kThreesBetween = 2,  // runs of members: a cut wherever three, six, ... of them are left
  kThreesAfter = 3,    // the same, but not before the run's first one, and after its last
};

struct WordHeader {
  uint32_t n_classes;  // a row of steps has one more, for the end of the text
  uint32_t n_stages;
  uint32_t bad_class;
  uint32_t reserved;
};
static_assert(sizeof(WordHeader) == 16);

struct WordStage {
  WordStageKind kind;
  uint32_t n_states;    // rows, of n_classes + 1 steps
  uint32_t first_step;  // where they begin
  uint32_t reserved;
  uint64_t members;  // bit: class
};
static_assert(sizeof(WordStage) == 24);

// Views of the tables. State 0 is the end, 1 the start; a step is next state << 1 | "a match ends here".
struct WordRules {
  WordHeader header{};
  Span<const WordStage> stages;
  Span<const uint16_t> steps;
  Span<const uint16_t> pages;   // [kCharPages] or empty
  Span<const uint8_t> classes;  // [blocks * 256]

  // Do the sizes agree? What the entries say is checked where they are used.
  bool valid() const;
};

class WordSplitter {
 public:
  WordSplitter(const WordRules& rules, Str text);
  // False at the end. The words, joined, are the text.
  bool next(Str* word);

 private:
  struct Part {
    size_t at = 0, end = 0;
    size_t match = 0;  // a match found while looking for the end of what is before it ends here; 0 none
    size_t left = 0;   // members left in a run
    // No match ends after what is read in this state within [dead_from, dead_to): a long run was read in vain.
    uint32_t dead_state = 0;
    size_t dead_from = 0, dead_to = 0;
  };
  struct Char {
    uint32_t kind;  // class
    uint32_t bytes;
  };
  Char read(size_t at, size_t end) const;
  size_t cut(const WordStage& stage, Part& part) const;
  size_t match(const WordStage& stage, size_t at, Part& part) const;
  size_t expression(const WordStage& stage, Part& part) const;
  size_t trailing(const WordStage& stage, Part& part) const;
  size_t threes(const WordStage& stage, Part& part) const;
  static bool member(const WordStage& s, Char c) { return s.members >> c.kind & 1; }

  const WordRules& rules_;
  Str text_;
  Part parts_[kMaxWordStages];  // what each stage has still to cut
};

}  // namespace gcrt
