// Reads what a file says about its tokenizer (tokenizer.*) into gc::text::Vocab: types, lengths and ids checked, so
// that whoever freezes it can index without looking back. Which tokenizers exist is not known here.
#pragma once

#include <string>
#include <vector>

#include "compiler/base/vocab.h"
#include "frontends/gguf/reader.h"

namespace gc::gguf {

// Throws UserError ("FILE: key 'K': ...") for what contradicts itself. What can be ignored (an id outside the
// vocabulary) is, and adds a line to `warnings`. A file without a tokenizer, or whose tokenizer is "none",
// "no_vocab" or "test", may lack tokens; then has_tokenizer() is false. Call it not at all for --no-tokenizer: a
// broken vocabulary must not be in the way then.
text::Vocab read_vocab(const File& file, std::vector<std::string>* warnings);

}  // namespace gc::gguf
