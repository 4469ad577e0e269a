#pragma once
// Grammars that a generated text must follow: GBNF or a JSON schema, compiled to one program (grammar/program.h), run
// byte by byte (grammar/machine.h), with the tokens that may come next as a bit mask (grammar/masks.h).
//
// Fail-closed: what cannot be enforced is refused by name when the grammar is compiled, and a state that allows nothing
// allows nothing. What is allowed always has a way to an end.
//
//   Grammar g;              g.compile_gbnf(text, message)  or  g.compile_json_schema(text, message)
//   GrammarVocab vocab;     vocab.init(tokenizer)           once for a vocabulary; any number of threads read it
//   GrammarState state;     state.init(&g, &vocab)          one a sequence
//   each token:             state.fill_mask(mask), choose, state.accept_token(id)
#include <stdint.h>

#include "runtime/base/allocator.h"
#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/text/grammar/machine.h"
#include "runtime/text/grammar/masks.h"
#include "runtime/text/grammar/program.h"
#include "runtime/text/grammar/vocab_trie.h"

namespace gcrt {

// Immutable once compiled; any number of states share it.
class Grammar {
 public:
  explicit Grammar(Allocator a = libc_allocator()) : allocator_(a), program_(a) {}

  // kErrInput: one line in `message`, "line 3: ..." or "rule 'x' ...". kErrFull: too large. kErrMemory.
  // References to tokens need a vocabulary.
  Status compile_gbnf(Str text, Span<char> message, const Tokenizer* vocabulary = nullptr);
  // Draft 2020-12; grammar/schema.h has the rules. kErrInput: the text is no JSON or no schema; kErrUnsupported: a keyword
  // that cannot be enforced, "#/properties/a: uniqueItems is not supported".
  Status compile_json_schema(Str text, Span<char> message);

  bool compiled() const { return compiled_; }
  // Some schemas allow no text at all (false, contradictions); compiling them is no error, generating by them is.
  bool allows_nothing() const {
    return program_.rules[program_.root].start == grammar::kNone && !program_.root_may_be_empty;
  }
  const grammar::Program& program() const { return program_; }

 private:
  Status finish(grammar::Network& network, uint32_t root, Span<char> message);

  Allocator allocator_;
  grammar::Program program_;
  bool compiled_ = false;
};

// A vocabulary's tokens as text, sorted into a trie.
using GrammarVocab = grammar::VocabTrie;

// Where a text is in a grammar. Not for two threads at once.
class GrammarState {
 public:
  explicit GrammarState(Allocator a = libc_allocator()) : allocator_(a), numbers_(a) {}
  GrammarState(const GrammarState&) = delete;
  GrammarState& operator=(const GrammarState&) = delete;
  ~GrammarState() { close(); }

  // Both outlive the state. Without a vocabulary it takes bytes only.
  Status init(const Grammar* grammar, const GrammarVocab* vocab);
  // Finds out beforehand what masks need, so that no token waits for it. Not needed.
  Status prepare() { return masks_ ? masks_->prepare() : kErrUnsupported; }
  // Back to the beginning.
  void reset() { at_ = machine_->start(); }

  // kErrInput: the text isn't allowed; the state is dead then. kErrFull: the grammar is ambiguous beyond reason.
  Status accept_bytes(Str bytes);
  // A token that ends a generation is allowed where the text may end, and changes nothing. Others without text (control
  // tokens) are where the grammar names them.
  Status accept_token(int32_t id);
  // May the text end here?
  bool can_end() const { return machine_->flags(at_) & grammar::Machine::kEnds; }
  // Nothing may follow, not even the end.
  bool is_dead() const { return at_ == grammar::kDead; }
  // Sets bit id % 64 of mask[id / 64] for each token that may come next (those that end a generation when can_end())
  // and clears the others. `mask` has (n_vocab + 63) / 64 words, and may have more.
  Status fill_mask(Span<uint64_t> mask);

  // A place to come back to, for trying tokens ahead.
  struct Mark {
    grammar::Situation at;
    uint64_t collections;
  };
  Mark mark() const { return {at_, collections_}; }
  // False: too much has been accepted since.
  bool rewind(Mark m) {
    if (m.collections != collections_) return false;
    at_ = m.at;
    return true;
  }
  const grammar::Masks* masks() const { return masks_; }
  const grammar::Machine* machine() const { return machine_; }

 private:
  static constexpr size_t kMostBytes = 64 << 20;  // of a machine, before it forgets
  void close();
  grammar::Situation after_text(Str bytes) const;
  grammar::Situation after_number(int32_t id) const;
  Status arrive(grammar::Situation s);
  Status add_numbers(Span<uint64_t> mask);

  Allocator allocator_;
  const GrammarVocab* vocab_ = nullptr;
  grammar::Machine* machine_ = nullptr;
  grammar::Masks* masks_ = nullptr;
  grammar::Situation at_ = grammar::kDead;
  uint64_t collections_ = 0;
  bool names_tokens_ = false;
  // Tokens allowed by their numbers, of the last situation that allowed some.
  grammar::Situation numbers_of_ = grammar::kNone;
  Vec<uint64_t> numbers_;
};

}  // namespace gcrt
