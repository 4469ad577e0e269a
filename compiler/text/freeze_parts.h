// What the freezers of all kinds share: the container of frozen.h and the sections about pieces.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "compiler/base/vocab.h"
#include "compiler/text/eog.h"
#include "compiler/text/freeze.h"
#include "runtime/text/frozen.h"

namespace gc::text {

namespace fz = gcrt::frozen;

class BlobWriter {
 public:
  template <class T>
  void add(std::uint32_t tag, const std::vector<T>& data) {
    add(tag, data.data(), data.size() * sizeof(T));
  }
  void add(std::uint32_t tag, const void* data, std::size_t bytes) {
    const auto* p = static_cast<const std::uint8_t*>(data);
    sections_.push_back({tag, std::vector<std::uint8_t>(p, p + bytes)});
  }

  std::vector<std::uint8_t> finish(fz::Kind kind, std::uint32_t n_vocab) const {
    std::uint64_t at = align(sizeof(fz::Header) + sections_.size() * sizeof(fz::Section));
    std::vector<fz::Section> table;
    for (const auto& [tag, data] : sections_) {
      table.push_back({tag, 0, at, data.size()});
      at = align(at + data.size());
    }
    fz::Header h{};
    h.magic = fz::kMagic, h.version = fz::kVersion, h.bytes = at, h.kind = kind, h.n_vocab = n_vocab;
    h.n_sections = static_cast<std::uint32_t>(table.size());
    std::vector<std::uint8_t> blob(at);
    std::memcpy(blob.data(), &h, sizeof h);
    if (!table.empty()) std::memcpy(blob.data() + sizeof h, table.data(), table.size() * sizeof(fz::Section));
    for (std::size_t i = 0; i < table.size(); ++i)
      if (table[i].bytes)
        std::memcpy(blob.data() + table[i].offset, sections_[i].data.data(), table[i].bytes);
    return blob;
  }

 private:
  static std::uint64_t align(std::uint64_t x) { return (x + fz::kAlign - 1) / fz::kAlign * fz::kAlign; }
  struct Entry {
    std::uint32_t tag;
    std::vector<std::uint8_t> data;
  };
  std::vector<Entry> sections_;
};

// A character map's two levels: pages[c >> 8] is the block of `entries` that has c.
template <class T>
struct Paged {
  std::vector<std::uint16_t> pages;
  std::vector<T> entries;
};

// A trie of pieces, breadth first, so that the children of a node lie together, ascending by byte.
struct TrieShape {
  struct Node {
    std::uint32_t first_child, n_children;
    std::uint32_t first_id, n_ids;  // of `ids`: the pieces that end here, lowest id first
    std::uint32_t depth;
    std::uint8_t byte;  // on the edge that leads here
  };
  std::vector<Node> nodes;  // 0: the root
  std::vector<std::int32_t> ids;
};
TrieShape trie_shape(const std::vector<std::string_view>& pieces, std::vector<std::int32_t> ids);

// <0xNN>, or the piece that is the byte itself; -1 where the vocabulary has neither.
std::array<std::int32_t, 256> byte_tokens(const std::vector<std::string_view>& pieces);
std::vector<std::int32_t> ascending_ids(std::size_t n);
std::vector<std::uint64_t> build_pairs(const std::vector<std::string_view>& pieces);
fz::Meta meta_of(const Resolved& r);
// What every kind stores about its pieces. Of pieces with equal bytes the first in `order` (all ids) is found.
void add_pieces(const std::vector<std::string_view>& pieces, const std::vector<std::int32_t>& order,
                const Resolved& r, fz::Meta& meta, BlobWriter& blob, FrozenVocab& out);
std::uint32_t flags_of(const Vocab& v, std::uint32_t defaults, const Resolved& r, FrozenVocab& out);
void finish(BlobWriter& blob, const fz::Meta& meta, fz::Kind kind, const Vocab& v, FrozenVocab& out);

// The kinds that walk a trie of pieces.
void freeze_wpm(const Vocab& v, const FreezeOptions& options, FrozenVocab& out);
void freeze_ugm(const Vocab& v, const FreezeOptions& options, FrozenVocab& out);
void freeze_rwkv(const Vocab& v, const FreezeOptions& options, FrozenVocab& out);
void freeze_plamo2(const Vocab& v, const FreezeOptions& options, FrozenVocab& out);
// NORM of a vocabulary whose words are parted by white space.
Paged<std::uint32_t> build_normal(bool lowercase, bool strip_accents, bool wordpiece);

}  // namespace gc::text
