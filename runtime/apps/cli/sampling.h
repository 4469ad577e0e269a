#pragma once
// From flags and the model's own defaults to a generator: what complete and chat share.
#include "runtime/apps/cli/app.h"
#include "runtime/generate/generator.h"

namespace gcrt {

constexpr uint32_t kMostChosen = 256;  // candidates that the head may choose; beyond, all logits are stored

// `keep`: tokens that stay when the context is shifted. False after a failure that has been reported.
bool start_generator(App& app, const Options& options, Session* session, const Tokenizer& tokenizer,
                     int64_t keep, Generator* generator);

}  // namespace gcrt
