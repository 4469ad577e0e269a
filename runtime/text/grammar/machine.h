#pragma once
// Runs a program over bytes. Where it is in a grammar is a *situation*: a set of items {state, frame}, where a frame is
// a stack of what to return to. Frames and situations are interned (interner.h), and the step from a situation by a
// byte is computed once: what is asked for again is a table's entry, whatever the grammar's ambiguity.
//
// A frame is a set of returns {state, frame}, not one: all who call a rule at a place share one frame for it, so the
// number of items grows with the rules and not with the ways to read the text (a graph-structured stack; GLL parsing
// with structure in place of positions). A call in last place passes on its caller's returns, so right recursion and
// lists need no stack. Who returns into a rule and would, at its end, return to the end of the same rule
// (ProgramRule::again: what may follow `s` in `s ::= s s | "a"`), returns to what that returns to: more at the inner end is
// more at the outer one, so however deep a text is read into such a rule, one frame is all. The frame of a counted
// repetition has a count; of two counts that both may end, only the smaller is kept, since it allows all that the other
// does.
//
// The bottom of a stack returns to kTextEnd. One that begins at kHole stands for any stack: what a rule allows by
// itself is found out over it (masks.h). A repetition's frame over a hole may be of no certain count (kAnyCount): it
// goes on and ends at will, and `turn` tells that a time round ended.
#include <stdint.h>

#include "runtime/base/status.h"
#include "runtime/base/vec.h"
#include "runtime/text/grammar/interner.h"
#include "runtime/text/grammar/program.h"

namespace gcrt {
namespace grammar {

using Situation = uint32_t;  // an id of a machine
constexpr Situation kDead = 0;

class Machine {
 public:
  static constexpr uint32_t kAnyCount = 0xFFFFFFFF;
  struct Item {
    uint32_t state, frame;
  };
  enum Flag : uint32_t {
    kEnds = 1,       // the text may end here
    kReturns = 2,    // the rule over the hole may end here
    kTurn = 4,       // a time round of the repetition of no certain count ended here
    kUncertain = 8,  // ... or maybe not: another reading is still within it
  };

  Machine(const Program& program, Allocator a);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // Makes ready; to be called once. kErrMemory.
  Status init();
  Situation start() const { return start_; }
  // kDead when the byte isn't allowed, and when the machine broke: status() is not kOk then (kErrMemory, kErrFull: the
  // grammar is ambiguous beyond reason).
  Situation step(Situation s, uint8_t byte) {
    const uint32_t to = table(s)[byte];
    return to != kNone ? to : compute(s, byte);
  }
  uint32_t flags(Situation s) const { return situations_[s][0]; }
  // Valid until the next step that is new.
  Span<const uint32_t> items(Situation s) const { return situations_[s].sub(1); }
  size_t n_items(Situation s) const { return (situations_[s].size() - 1) / 2; }
  Item item(Situation s, size_t i) const {
    const Span<const uint32_t> w = situations_[s];
    return {w[1 + 2 * i], w[2 + 2 * i]};
  }

  // Both.
  Situation join(Situation a, Situation b);
  // The situation of one item.
  Situation situation_of(Item item);
  // The bytes that it has steps by, as bits.
  void first_bytes(Situation s, uint64_t (&out)[4]) const;
  // What a frame returns to, as a situation.
  Situation returned(uint32_t frame);
  // Frames over the hole: a plain one, one for the body of a repetition (its loop state) of no certain count, and that
  // of a call.
  uint32_t hole() const { return hole_; }
  uint32_t uncounted(uint32_t loop);
  uint32_t frame_over_hole(uint32_t state);  // returns to that state
  // Where a body's turn returns to: its repetition's loop state, how many turns there were, and the frame below.
  struct Turn {
    uint32_t loop, count, below;
  };
  uint32_t n_returns(uint32_t frame) const { return static_cast<uint32_t>(frames_[frame].size() / 2); }
  // Does a frame return to turns of one repetition and nowhere else?
  bool turns_of_one(uint32_t frame) const;
  Turn turn(uint32_t frame, uint32_t i) const {
    const uint32_t loop = frames_[frame][1 + 2 * i];
    const Span<const uint32_t> c = frames_[frames_[frame][2 + 2 * i]];
    return {loop, c[2], c[3]};
  }

  // Drops all that was found out but what `keep` needs; other situations are void. Returns what `keep` is now.
  Situation collect(Situation keep);
  size_t bytes() const { return situations_.words() * 4 + frames_.words() * 4 + pages_.size() * kPageBytes; }
  Status status() const { return status_; }
  uint64_t work() const { return work_; }  // places that new steps came to
  const Program& program() const { return program_; }

 private:
  struct Return {
    uint32_t state, frame;
  };
  struct Pending {
    uint32_t rank, rule;
    Return to;
  };
  static constexpr size_t kPage = 64;  // situations
  static constexpr size_t kPageBytes = kPage * 256 * sizeof(uint32_t);
  static constexpr size_t kMostItems = 1u << 15;

  uint32_t* table(Situation s) { return pages_[s / kPage] + (s % kPage) * 256; }
  Situation compute(Situation s, uint8_t byte);
  Situation finish();
  Situation intern();
  void begin();
  void arrive(uint32_t state, uint32_t frame);
  void settle();
  void enter_calls();
  void take_calls(uint32_t state, uint32_t frame);
  void call(uint32_t rule, uint32_t to, uint32_t frame);
  void enter(uint32_t rule, uint32_t frame);
  void loop_arrival(uint32_t rule, uint32_t frame);
  void add_item(uint32_t state, uint32_t frame);
  uint32_t plain_frame(Vec<Return>& returns);
  uint32_t count_frame(uint32_t rule, uint32_t count, uint32_t below);
  void drop_dominated(Vec<Return>& returns);
  uint32_t without_turns(const ProgramRule& rule, uint32_t frame);
  bool seen(uint32_t state, uint32_t frame);
  void broke(Status s) {
    if (status_ == kOk) status_ = s;
  }

  const Program& program_;
  Allocator allocator_;
  Interner frames_;  // plain: 0, then state and frame of each return; counted: 1, rule, count, frame below
  Interner situations_;   // flags, then state and frame of each item
  Vec<uint32_t*> pages_;  // [situation / kPage][situation % kPage][byte] -> situation, kNone: not known yet
  Vec<Situation> returned_;  // [frame]
  uint32_t bottom_ = 0, hole_ = 0;
  Situation start_ = kDead;
  Status status_ = kOk;
  // Of the situation that is being made.
  Vec<Return> arrivals_;
  Vec<Pending> pending_;
  Vec<Return> returns_, flat_;
  Vec<Item> items_;
  Vec<uint32_t> words_;
  Vec<uint64_t> seen_keys_;
  Vec<uint32_t> seen_when_;
  uint32_t now_ = 0;
  size_t n_seen_ = 0;
  uint64_t work_ = 0;
  uint32_t flags_ = 0;
  bool turned_ = false, within_ = false;
};

}  // namespace grammar
}  // namespace gcrt
