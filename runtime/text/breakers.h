#pragma once
// What sampling has to know of the vocabulary. The tokens of DRY's breakers: text that breaks a repetition may be a token, stand inside one, or begin in one and
// go on in the next. A pass over the vocabulary, so only for chains that use DRY.
#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/text/dry.h"
#include "runtime/text/sampler.h"
#include "runtime/text/tokenizer.h"

namespace gcrt {

// llama.cpp's: a line end, a colon, a quote, an asterisk.
constexpr Str kDryBreakers[] = {"\n", ":", "\"", "*"};

// Adds what `texts` become. Of a text the first 40 bytes count, of its tokens after the head 20.
Status add_breakers(const Tokenizer& tokenizer, Span<const Str> texts, Allocator allocator, DryBreakers& out);

// What the infill stage asks of tokens. The tokenizer outlives it.
TokenTexts token_texts(const Tokenizer& tokenizer);

}  // namespace gcrt
