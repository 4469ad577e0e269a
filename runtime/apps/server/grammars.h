#pragma once
// Grammars of requests. Compiling one and finding out its masks takes milliseconds, sorting a vocabulary tens of them: the
// vocabulary is sorted once, and the last grammars are kept, since clients send the same one again and again.
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/generate/generator.h"
#include "runtime/text/grammar.h"
#include "runtime/text/tokenizer.h"

namespace gcrt::serve {

// One sequence's place in a grammar.
class Constraint {
 public:
  // Throws ApiError (an ambiguous grammar), std::bad_alloc.
  Constraint(std::shared_ptr<const Grammar> grammar, const GrammarVocab& vocab);
  TokenConstraint hooks();
  // While true anything may come and the grammar doesn't see it.
  void suspend(bool on) { suspended_ = on; }

 private:
  std::shared_ptr<const Grammar> grammar_;
  GrammarState state_;
  std::vector<std::uint64_t> mask_;
  bool suspended_ = false;
};

class Grammars {
 public:
  enum class Kind { kGbnf, kJsonSchema };

  explicit Grammars(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  // From any thread. Throws ApiError with `param` for a grammar that is wrong or cannot be enforced.
  std::unique_ptr<Constraint> make(Kind kind, const std::string& text, const std::string& param);

 private:
  static constexpr std::size_t kKept = 32;
  struct Entry {
    Kind kind;
    std::string text;
    std::shared_ptr<const Grammar> grammar;
  };

  const Tokenizer& tokenizer_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // the last used first
  GrammarVocab vocab_;
  bool has_vocab_ = false;
};

}  // namespace gcrt::serve
