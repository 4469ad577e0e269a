#pragma once
// A grammar ready to run: each rule an automaton over bytes and calls of rules, deterministic where that stays small.
//
// How a Network becomes one (program.cc):
//  1. rules without calls that are small are put where they are called;
//  2. rules that can never end are cut off: each state of what remains has a way to the end of a text, so no mask is
//     ever empty;
//  3. left recursion goes: `r ::= r c | b` is b c*, on automata: the edge that calls r at once becomes a way from r's
//     end to where the edge led. Rules that call one another so are first put into each other (Paull's algorithm). Rules
//     then form an order in which "begins with a call of" only goes forward, which the machine (machine.h) builds on;
//  4. sets of nodes become states (the subset construction, with a call as one more letter). Where that would be
//     large the nodes themselves are the states.
//
// No rule matches the empty text here: a call of one that may be empty has a way around it, and the machine looks at
// `final` only after a byte.
#include <stdint.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/base/vec.h"
#include "runtime/text/grammar/network.h"

namespace gcrt {
namespace grammar {

// States that are no places in a rule: the ends of the stack (machine.h).
constexpr uint32_t kTextEnd = 0, kHole = 1;
constexpr uint32_t kFirstState = 2;

struct ByteEdge {
  uint8_t lo, hi;
  uint32_t to;
};
struct CallEdge {
  uint32_t rule, to;
};
struct State {
  uint32_t first_byte, n_bytes;  // ascending by lo; disjoint in deterministic rules
  uint32_t first_call, n_calls;
  bool final;
  bool tail;                // final, and nothing else: who returns here returns further
  uint32_t repeat = kNone;  // the counted repetition that goes round here
};
struct ProgramRule {
  uint32_t start = kNone;  // kNone: a counted repetition, or a rule that allows nothing
  // Of a repetition: `body` min to max times; `loop` is where each time ends.
  uint32_t body = kNone, min = 0, max = 0, loop = kNone;
  uint32_t n_states = 0;  // from start on
  // The state of the rule's end, where more may follow: what may follow it may follow any way through the rule, so coming
  // there once more, in a rule within the rule, adds nothing. kNone: the rule is over at its end.
  uint32_t again = kNone;
  uint32_t rank = 0;  // rules that begin with a call of others stand before them
};

struct Program {
  explicit Program(Allocator a) : states(a), bytes(a), calls(a), rules(a) {}
  Vec<State> states;
  Vec<ByteEdge> bytes;
  Vec<CallEdge> calls;
  Vec<ProgramRule> rules;
  uint32_t root = 0;
  bool root_may_be_empty = false;
};

// kErrInput: `message` says what is wrong with which rule. kErrFull: too large. Changes the network.
Status make_program(Network& network, uint32_t root, Program& out, Span<char> message);

}  // namespace grammar
}  // namespace gcrt
