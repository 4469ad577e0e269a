#pragma once
// Which tokens may come next, for all 262,144 of a vocabulary within microseconds.
//
// A token's bytes are mostly read within the rule on top of the stack, and what a rule's state allows by itself does not
// depend on the stack. So of each state it is found out once, by a walk over the vocabulary's trie with a hole for a stack,
// (a) which tokens end within the rule and (b) which leave it, and where: the rest of such a token must fit what the stack
// returns to, which is looked up then. Rests are few and much alike (`,` `":` `}]`), so they are a small trie of their
// own, and the walk over it with the true stack ends at its first letters. (XGrammar's adaptive masks are the same
// idea with the rests checked one by one, over a sorted list.)
//
// Where a rule may end after each byte (a name, a number), tokens could leave it anywhere. Kept are only the places where
// the next byte cannot go on within the rule; if what the stack returns to begins with a byte that can, the text
// is ambiguous there and the situation is walked as a whole.
//
// Within a counted repetition the same is found out for the turns of the repetition together with how many turns a token
// takes: one walk serves all counts.
//
// Masks of whole situations are kept too, the last few: within a string the situation is the same after each token.
#include <stdint.h>

#include "runtime/base/int_map.h"
#include "runtime/base/status.h"
#include "runtime/base/vec.h"
#include "runtime/text/grammar/machine.h"
#include "runtime/text/grammar/vocab_trie.h"

namespace gcrt {
namespace grammar {

class Masks {
 public:
  Masks(Machine& machine, const VocabTrie& vocab, Allocator a);
  ~Masks();
  Masks(const Masks&) = delete;
  Masks& operator=(const Masks&) = delete;

  // Sets the bit of each token that may follow, and no other; ends of the generation are the caller's.
  // mask: [vocab.mask_words()].
  Status fill(Situation s, Span<uint64_t> mask);
  // Finds out states' own tokens beforehand, so that no token waits for it: of all states, as long as that takes a
  // fraction of a second.
  Status prepare();
  // To be called after Machine::collect().
  void forget_situations();

  struct Counts {
    uint64_t nodes = 0;            // of tries, that walks looked at
    uint64_t walks = 0;            // over the vocabulary
    uint64_t fills = 0, kept = 0;  // masks asked for, and of these already there
  };
  const Counts& counts() const { return counts_; }

 private:
  struct Taken {
    int32_t id;
    uint32_t turns;
  };
  // Tokens that leave the rule after so many turns.
  struct Leaving {
    explicit Leaving(Allocator a) : ends(a), rests(a) {}
    uint32_t turns = 0;
    Vec<int32_t> ends;  // exactly where the rule may end
    Trie rests;
  };
  struct Local {
    explicit Local(Allocator a) : taken(a), mask(a), upto(a), leaving(a) {}
    bool whole =
        false;  // too much leaves the rule, or turns are uncertain: the situation itself must be walked
    uint64_t shared[4] = {};  // bytes that go on within the rule at places where it may also end
    bool plain = false;       // all plain tokens stay within
    Vec<Taken> taken;         // others that do; by turns
    Vec<uint64_t> mask;       // the same as a mask, when they are many and turns don't count
    uint32_t most_turns = 0;
    Vec<Vec<uint64_t>> upto;  // [turns] mask of those with at most so many, made when wanted
    Vec<Leaving> leaving;
  };
  struct Kept {
    explicit Kept(Allocator a) : mask(a) {}
    Situation situation = kNone;
    Vec<uint64_t> mask;
  };
  struct Leave {
    uint32_t turns, begin, bytes;
    int32_t id;
  };
  static constexpr uint32_t kKept = 64;
  static constexpr size_t kMostRests = 30'000;
  static constexpr uint64_t kMostPrepared = 20'000'000;  // nodes

  Local* local(uint32_t state, uint32_t loop);
  Status find(Local& l, uint32_t state, uint32_t loop);
  Status walk(Local& l, Situation start, bool counted);
  Status leave(Local& l, uint32_t node, Situation s, bool within, uint32_t turns);
  Status take_rests(Local& l);
  bool absorbs(Situation s, bool counted);
  bool absorbs_from(Situation s, Situation to, bool counted);
  bool tail_leads(Situation s, int more, uint8_t lo, uint8_t hi, Situation to, bool counted);
  Status add_item(Machine::Item item, Span<uint64_t> mask, bool* whole);
  Status add_taken(Local& l, uint32_t most, bool counted, Span<uint64_t> mask);
  void add_rests(const Trie& rests, Situation from, Span<uint64_t> mask);
  void walk_whole(Situation s, Span<uint64_t> mask);

  Machine& machine_;
  const VocabTrie& vocab_;
  Allocator allocator_;
  IntMap<Local*> locals_;  // state << 32 | loop
  Vec<Kept> kept_;
  Vec<Leave> leaves_;
  Counts counts_;
};

}  // namespace grammar
}  // namespace gcrt
