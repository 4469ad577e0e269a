#pragma once
// Which tokens may come next, for all 262,144 of a vocabulary within microseconds.
//
// A token's bytes are mostly read within the rule on top of the stack, and what a rule's state allows by itself does not
// depend on the stack: that is found out once (rule_masks.h). A mask is then the union over a situation's items of the
// tokens that end within the rule, and of those that leave it where their rests fit what the stack returns to. Few rests
// are walked with the true stack, many are asked for as the mask of the situation returned to, over the rests in place of
// the vocabulary. (XGrammar's adaptive masks are the same idea with the rests checked one by one, over a sorted list; it
// merges where texts are ambiguous, or walks.)
//
// The whole vocabulary is walked with the true stack only where rests would take too much memory.
//
// Some grammars have ever more situations the longer a text is, since their rules fit into themselves in ways that machine.h
// does not see to be the same (`s ::= s s s | "a"` counts by twos). A mask that would take seconds is given up: kErrFull.
//
// Masks of whole situations are kept too, the last few: within a string the situation is the same after each token.
#include <stdint.h>

#include "runtime/base/status.h"
#include "runtime/base/vec.h"
#include "runtime/text/grammar/machine.h"
#include "runtime/text/grammar/rule_masks.h"
#include "runtime/text/grammar/vocab_trie.h"

namespace gcrt {
namespace grammar {

class Masks {
 public:
  Masks(Machine& machine, const VocabTrie& vocab, Allocator a);
  Masks(const Masks&) = delete;
  Masks& operator=(const Masks&) = delete;

  // Sets the bit of each token that may follow, and no other; ends of the generation are the caller's. kErrFull: the grammar
  // is too ambiguous.
  // mask: [vocab.mask_words()].
  Status fill(Situation s, Span<uint64_t> mask);
  // Finds out states' own tokens beforehand, so that no token waits for it: of all states, and of those that rules
  // return to over the rests that leave them, and along a few texts, as long as that takes a fraction of a second.
  Status prepare();
  // To be called after Machine::collect().
  void forget_situations();

  struct Counts {
    uint64_t nodes = 0;            // of tries, that walks looked at
    uint64_t walks = 0;            // over the vocabulary or large tries of rests
    uint64_t fills = 0, kept = 0;  // masks asked for, and of these already there
  };
  Counts counts() const { return {nodes_ + rules_.nodes(), walks_ + rules_.walks(), fills_, found_}; }

 private:
  using Local = RuleMasks::Local;
  struct Kept {
    explicit Kept(Allocator a) : mask(a) {}
    Situation situation = kNone;
    uint32_t part = 0;
    Vec<uint64_t> mask;
  };
  static constexpr uint32_t kKept = 128;
  static constexpr uint64_t kFew = 64;  // steps that are taken with the true stack rather
  static constexpr uint32_t kMostDepth = 16;
  static constexpr uint64_t kMostPrepared = 20'000'000;  // nodes
  static constexpr uint64_t kMostWork = 100'000'000,
                            kMostPreparedWork = 5'000'000;  // of the machine (its work())

  Status add(Situation s, uint32_t part, uint32_t depth, Span<uint64_t> mask);
  Status add_item(Machine::Item item, uint32_t part, uint32_t depth, Span<uint64_t> mask, bool* whole);
  Status add_rests(Local& l, Situation from, uint32_t least, uint32_t most, uint32_t depth,
                   Span<uint64_t> mask, bool* whole);
  Status add_taken(Local& l, uint32_t most, bool counted, Span<uint64_t> mask);
  bool walk(Situation s, uint32_t part, uint64_t most, Span<uint64_t> mask);
  Status walk_around(Span<uint64_t> mask);
  bool prepared_enough() const {
    return stopped_ || counts().nodes > kMostPrepared || machine_.work() > kMostPreparedWork;
  }
  Status prepare_states();
  Status prepare_returns(Local& l, uint32_t rule, Span<uint64_t> scratch);
  Status broken() const { return machine_.status() != kOk ? machine_.status() : kErrMemory; }

  Machine& machine_;
  const VocabTrie& vocab_;
  Allocator allocator_;
  RuleMasks rules_;
  Vec<Kept> kept_;
  Vec<Vec<uint64_t>> scratch_;  // [depth]
  uint64_t nodes_ = 0, walks_ = 0, fills_ = 0, found_ = 0;
  uint64_t most_work_ = UINT64_MAX;
  bool preparing_ = false;
  bool stopped_ = false;  // at most_work_: masks are not complete
};

}  // namespace grammar
}  // namespace gcrt
