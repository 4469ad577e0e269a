#pragma once
// What a state of a rule allows by itself, whatever the stack below: found out once by a walk over the vocabulary with a
// hole for a stack.
//
// Of each token it is known then whether it ends within the rule (`taken`), and if not where it leaves the rule: its rest
// must fit what the stack returns to (masks.h). Rests are much alike (`,` `":` `}]`), so those that leave after as many
// turns are a trie of their own, which a walk with the true stack goes through. Where rests are many (white space may be
// followed by a hundred thousand words) they are another vocabulary: states that the stack returns to are found out
// over it just as over the first one. Many rests that have one beginning need no trie of their own, they are part of the one
// that they come from. Parts are interned: states with the same rests share them.
//
// Rests are kept only if they begin with a byte that may follow the rule anywhere in the grammar (`follow`).
//
// Where a rule may end after each byte (a name, a number) tokens could leave it anywhere. A token that is taken needs
// no other reading. Of the others two kinds of places are kept apart: those where the next byte cannot go on within the rule
// (`leaving`), and those where it could (`early`). The latter matter only if what the stack returns to begins with
// such a byte (`shared`); the text is ambiguous there. They are found out when that happens.
//
// Within a counted repetition the same is found out for the turns of the repetition together with how many turns a token
// takes: one walk serves all counts. A token that takes more turns than are left may yet have left before a byte that
// the turns take too; such places are found out for all tokens, of those bytes alone (`late`).
#include <stdint.h>

#include "runtime/base/status.h"
#include "runtime/base/vec.h"
#include "runtime/text/grammar/machine.h"
#include "runtime/text/grammar/vocab_trie.h"

namespace gcrt {
namespace grammar {

class RuleMasks {
 public:
  // Rests of tokens: nodes of a trie, whose first `base` bytes are behind them. The vocabulary is one, all its bytes ahead.
  struct Part {
    const Trie* trie;
    uint32_t begin, end;
    uint32_t base;
  };
  static constexpr uint32_t kVocabulary = 0;  // parts are known by number

  struct Bytes {
    uint64_t bits[4];
    bool has(uint8_t b) const { return bits[b / 64] >> (b % 64) & 1; }
    void add(uint8_t b) { bits[b / 64] |= uint64_t{1} << (b % 64); }
    bool add(const Bytes& more);  // true: some are new
    Bytes operator&(const Bytes& b) const {
      return {{bits[0] & b.bits[0], bits[1] & b.bits[1], bits[2] & b.bits[2], bits[3] & b.bits[3]}};
    }
    bool any() const { return (bits[0] | bits[1] | bits[2] | bits[3]) != 0; }
  };
  struct Taken {
    int32_t id;
    uint32_t turns;
  };
  // Tokens that leave the rule after so many turns.
  struct Leaving {
    explicit Leaving(Allocator a) : ends(a), rests(a) {}
    uint32_t turns = 0;
    Vec<int32_t> ends;    // exactly where the rule may end
    Vec<uint32_t> rests;  // parts
  };
  struct Local {
    explicit Local(Allocator a) : taken(a), mask(a), upto(a), leaving(a), early(a) {}
    uint32_t state = 0, loop = 0, part = kVocabulary;
    bool whole =
        false;  // too much leaves the rule, or turns are uncertain: the situation itself must be walked
    bool plain = false;  // all plain tokens stay within
    Bytes shared = {};   // that go on within the rule at places where it may also end
    Bytes follow = {};   // that rests may begin with
    Vec<Taken> taken;    // others that do; by turns
    Vec<uint64_t> mask;  // the same as a mask, when they are many and turns don't count
    uint32_t most_turns = 0;
    Vec<Vec<uint64_t>> upto;  // [turns] mask of those with at most so many, made when wanted
    Vec<Leaving> leaving;
    bool early_known = false, early_whole = false;
    Vec<Leaving> early;
    Bytes late_of = {};
    bool late_whole = false;
    Vec<Leaving> late;
  };

  RuleMasks(Machine& machine, const VocabTrie& vocab, Allocator a);
  ~RuleMasks();
  RuleMasks(const RuleMasks&) = delete;
  RuleMasks& operator=(const RuleMasks&) = delete;

  // Of a state over a part; `loop`: as the body of that repetition, over any count, 0: not so. Null: memory is out, or the
  // machine broke.
  Local* local(uint32_t state, uint32_t loop, uint32_t part);
  // Find out l.early, and l.late of these bytes at least. False as null is above.
  bool find_early(Local& l);
  bool find_late(Local& l, const Bytes& bytes);
  Part part(uint32_t number) const {
    return number == kVocabulary ? Part{&vocab_.trie(), 0, vocab_.trie().n_nodes(), 0} : parts_[number - 1];
  }
  // Do all plain characters lead to one situation, and from there back to it (with counts: each by one turn)?
  bool absorbs(Situation s, bool counted);

  uint64_t nodes() const { return nodes_; }  // of tries, that walks looked at
  uint64_t walks() const { return walks_; }

 private:
  struct Leave {
    uint32_t turns, begin;
    int32_t id;  // ~n: part n
  };
  static constexpr size_t kMostRests = 400'000;  // of a state
  static constexpr size_t kMostLate = 50'000;
  static constexpr size_t kMostListed = 4000;        // taken tokens, rather than as a mask
  static constexpr size_t kLarge = 2000;             // rests that are a part of the trie that they come from
  static constexpr uint64_t kMostNodes = 8'000'000;  // of all tries of rests: about 100 MB

  Status find_follow();
  Bytes first_of(uint32_t state) const;
  Status find(Local& l);
  Status walk(Local& l, Situation start);
  Status walk_early(Local& l, Situation start);
  Status walk_late(Local& l, Situation start);
  bool add_own(const Part& part, uint32_t node, uint32_t turns);
  bool add_nodes(const Part& part, uint32_t begin, uint32_t end, uint32_t depth, uint32_t turns);
  Status leave(Local& l, uint32_t node, Situation s, bool within, uint32_t turns);
  Status take_rests(Vec<Leaving>& out, bool* too_many);
  uint32_t number_of(Span<const uint32_t> key);
  Status intern_rests(size_t begin, size_t end, Leaving& group, bool* too_many);
  Situation start_of(const Local& l);
  bool absorbs_from(Situation s, Situation to, bool counted);
  bool tail_leads(Situation s, int more, uint8_t lo, uint8_t hi, Situation to, bool counted);

  Machine& machine_;
  const VocabTrie& vocab_;
  Allocator allocator_;
  Vec<Bytes> first_, follow_;  // [rule] bytes that begin it, that may come after it
  Vec<uint32_t> rule_of_;      // [state]
  Interner keys_;              // state, loop, part -> [] of locals_
  Vec<Local*> locals_;         // null: not found out
  Interner part_keys_;         // kNone and a Part's trie and nodes, or where each rest begins -> [] of parts_
  Vec<Part> parts_;
  Vec<Trie*> tries_;
  uint64_t trie_nodes_ = 0;
  Vec<Leave> leaves_;
  uint64_t nodes_ = 0, walks_ = 0;
};

}  // namespace grammar
}  // namespace gcrt
