// What a vocabulary says only through the spelling of its pieces: which control pieces end a turn, which are markers
// of fill-in-the-middle, which keep their text. Model files often name just one EOS id, and a chat model that ends
// its turns with another piece would talk on forever.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "compiler/base/vocab.h"
#include "compiler/text/freeze.h"

namespace gc::text {

// Special ids and attributes after all rules; the input of the freezer.
struct Resolved {
  std::vector<std::uint8_t> attrs;  // [n_vocab] gcrt::frozen::Attr bits
  std::vector<std::int32_t> eog;    // ascending
  std::int32_t bos = -1, eos = -1, eot = -1, eom = -1, unk = -1, sep = -1, pad = -1, cls = -1, mask = -1;
  std::int32_t fim_pre = -1, fim_suf = -1, fim_mid = -1, fim_pad = -1, fim_rep = -1, fim_sep = -1;
};

// Names of the file and its architecture select per-model stripping rules.
Resolved resolve_special(const Vocab& vocab, const FreezeOptions& options);

}  // namespace gc::text
