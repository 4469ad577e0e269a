#pragma once
// Texts with ids in a trie that is one array, in the order of a walk: a node's children follow it, and `skip` is the
// node after all of them. Walking it is going through the array, with a jump where nothing below matters.
//
// Of a vocabulary (VocabTrie) it is known which tokens are *plain*: whole characters, none of them a control character,
// a quote or a backslash. A state that takes any such character and remains what it is (within a string, say) allows all
// of them at once, and a walk then looks at the others only, a few percent.
//
// Gemma 3 (262,144 tokens): 0.6 million nodes, 7 MB, made in about 60 ms.
#include <stdint.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/base/vec.h"
#include "runtime/text/tokenizer.h"

namespace gcrt {
namespace grammar {

struct TrieEntry {
  uint64_t key;  // the first eight bytes, the first one on top
  uint32_t begin;
  uint32_t bytes;
  int32_t id;
  uint16_t characters;  // 0: not plain
};

class Trie {
 public:
  static constexpr uint32_t kMostBytes = 255;
  struct Node {
    uint32_t skip;  // the next node that is not below this one
    uint32_t
        first;  // its own ids are ids[first] up to the next node's first, those below as far as the node `skip`'s
    uint8_t byte;
    uint8_t depth;  // bytes so far, from 1
    bool all_plain;
  };

  explicit Trie(Allocator a) : nodes_(a), ids_(a), begins_(a), characters_(a) {}

  // Sorts the entries. They are of `text`, none is empty or longer than kMostBytes.
  Status build(Vec<TrieEntry>& entries, Span<const char> text);
  // Node i < n_nodes(). There is one more, an end for `skip` and `first`.
  const Node& operator[](uint32_t i) const { return nodes_[i]; }
  uint32_t n_nodes() const { return nodes_.empty() ? 0 : static_cast<uint32_t>(nodes_.size() - 1); }
  Span<const int32_t> own(uint32_t i) const {
    return ids_.span().sub(nodes_[i].first, nodes_[i + 1].first - nodes_[i].first);
  }
  int32_t id(uint32_t entry) const { return ids_[entry]; }
  // Where its bytes begin in the text that the trie was built of.
  uint32_t begin(uint32_t entry) const { return begins_[entry]; }
  uint16_t characters(uint32_t entry) const { return characters_[entry]; }

 private:
  Vec<Node> nodes_;
  Vec<int32_t> ids_;
  Vec<uint32_t> begins_;
  Vec<uint16_t> characters_;
};

void set_key(TrieEntry& e, Span<const char> text);

class VocabTrie {
 public:
  // Plain tokens of more characters count as of that many.
  static constexpr uint32_t kMostCharacters = 64;

  explicit VocabTrie(Allocator a = libc_allocator()) : trie_(a), text_(a), begin_(a), plain_(a), eog_(a) {}

  // kErrUnsupported: there is no vocabulary. kErrMemory.
  Status init(const Tokenizer& tokenizer);

  const Trie& trie() const { return trie_; }
  int32_t n_vocab() const { return n_vocab_; }
  size_t mask_words() const { return (static_cast<size_t>(n_vocab_) + 63) / 64; }
  // The token's text; empty for those that have none (control tokens).
  Str text(int32_t id) const {
    const size_t i = static_cast<size_t>(id);
    return {text_.data() + begin_[i], begin_[i + 1] - begin_[i]};
  }
  bool is_eog(int32_t id) const;
  Span<const int32_t> eog() const { return eog_; }
  // Plain tokens of at most `characters` characters, as a mask.
  Span<const uint64_t> plain(uint32_t characters) const {
    const uint32_t c =
        characters >= longest_plain_ ? kMostCharacters : min_of(characters, kMostCharacters - 1);
    return plain_.span().sub(c * mask_words(), mask_words());
  }
  uint32_t longest_plain() const { return longest_plain_; }  // in characters
  // Where a token's text begins in all texts, and that of the one before ends (id <= n_vocab()), for tries of parts.
  uint32_t text_begin(int32_t id) const { return begin_[static_cast<size_t>(id)]; }
  Span<const char> all_text() const { return text_; }

 private:
  Status make_plain();

  Trie trie_;
  Vec<char> text_;
  Vec<uint32_t> begin_;  // [n_vocab + 1]
  Vec<uint64_t> plain_;  // [kMostCharacters + 1][mask_words]
  Vec<int32_t> eog_;
  int32_t n_vocab_ = 0;
  uint32_t longest_plain_ = 0;
};

}  // namespace grammar
}  // namespace gcrt
