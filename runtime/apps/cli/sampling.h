#pragma once
// From flags and the model's own defaults to a generator: what complete and chat share.
#include "runtime/apps/cli/app.h"
#include "runtime/generate/generator.h"
#include "runtime/generate/grammar_constraint.h"

namespace gcrt {

constexpr uint32_t kMostChosen = 256;  // candidates that the head may choose; beyond, all logits are stored

// What flags say, else the file, else llama.cpp.
SamplerOptions sampler_options(const Options& options, const gc_model& model);

// Of --grammar, --json-schema and their files; not active when there are none. False after a failure that has been
// reported.
bool start_grammar(App& app, const Options& options, const Tokenizer& tokenizer, GrammarConstraint* grammar);

struct GeneratorNeeds {
  int64_t keep;  // tokens that stay when the context is shifted
  bool show_special;
  TokenConstraint constraint;
};
// False after a failure that has been reported.
bool start_generator(App& app, const Options& options, Session* session, const Tokenizer& tokenizer,
                     const GeneratorNeeds& needs, Generator* generator);

}  // namespace gcrt
