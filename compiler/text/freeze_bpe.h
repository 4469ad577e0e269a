// What byte-level BPE needs beyond its pieces: the rule that cuts words, pieces spelled as bytes, merges by ids.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/base/vocab.h"
#include "runtime/text/frozen.h"

namespace gc::text {

struct Pretokenizer {
  std::uint32_t shape, max_digits, marks_join;  // gcrt::WordRule
  bool add_bos, ignore_merges;
};
// Throws UnsupportedError for a name that is not in pretokenizers.def.
Pretokenizer find_pretokenizer(std::string_view name);

struct BpeParts {
  std::vector<std::string_view> pieces;  // as bytes; views into `bytes` or the vocabulary
  std::vector<std::int32_t> order;       // text finds ordinary pieces before special ones with equal bytes
  std::array<std::int32_t, 256> byte_ids;
  std::vector<gcrt::frozen::Merge> merges;  // open addressing
  std::deque<std::string> bytes;
};
// `attrs`: gcrt::frozen::Attr of each token.
BpeParts build_bpe(const Vocab& vocab, const std::vector<std::uint8_t>& attrs);

}  // namespace gc::text
