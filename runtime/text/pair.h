#pragma once
// A query and a document as one text, for models that rank documents: [BOS] query [EOS] [SEP] document [EOS], of what the
// vocabulary adds to texts; BERT's ends in its separator.
#include <stdint.h>

#include "runtime/base/status.h"
#include "runtime/base/vec.h"
#include "runtime/text/tokenizer.h"

namespace gcrt {

// Appends to `out`. As Tokenizer::encode.
Status encode_pair(const Tokenizer& tokenizer, Str query, Str document, Vec<int32_t>& out);

}  // namespace gcrt
