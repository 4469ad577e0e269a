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
  std::vector<std::string_view> stages;  // for compile_words()
  std::string_view flags;                // letters, see pretokenizers.def
  bool has(char flag) const { return flags.find(flag) != std::string_view::npos; }
};
// Throws UnsupportedError for a name that is not in pretokenizers.def.
Pretokenizer find_pretokenizer(std::string_view name);

struct BpeParts {
  std::vector<std::string_view>
      pieces;                       // as bytes (unless they are text); views into `bytes` or the vocabulary
  std::vector<std::int32_t> order;  // text finds ordinary pieces before special ones with equal bytes
  std::array<std::int32_t, 256> byte_ids;   // of bytes spelled as pieces; all -1 where pieces are text
  std::vector<gcrt::frozen::Merge> merges;  // open addressing
  std::deque<std::string> bytes;
  bool pieces_cover_merges;  // every merge makes a piece
};
// `attrs`: gcrt::frozen::Attr of each token. `text`: pieces are text, not bytes spelled as text.
BpeParts build_bpe(const Vocab& vocab, const std::vector<std::uint8_t>& attrs, bool text);

}  // namespace gc::text
