#include "runtime/text/grammar/vocab_trie.h"

#include "runtime/base/sort.h"
#include "runtime/text/grammar/token_refs.h"
#include "runtime/text/utf8.h"

namespace gcrt {
namespace grammar {
namespace {

// Characters of a plain text, 0 for others.
uint16_t plain_characters(Str s) {
  uint16_t n = 0;
  while (!s.empty()) {
    const uint8_t c = static_cast<uint8_t>(s[0]);
    if (c < 0x20 || c == '"' || c == '\\' || c == 0x7F) return 0;
    const int bytes = utf8_next(s);
    if (bytes <= 0) return 0;
    s = s.sub(static_cast<size_t>(bytes));
    ++n;
  }
  return n;
}

// By their bytes, then by id. Many are sorted by the digits of their keys first: texts come in runs that are sorted
// already, which quicksort takes badly, and comparing keys is most of the work.
Status sort_entries(Vec<TrieEntry>& entries, const char* base) {
  auto less = [base](const TrieEntry& a, const TrieEntry& b) {
    if (a.key != b.key) return a.key < b.key;
    const int c = compare(Str(base + a.begin, a.bytes), Str(base + b.begin, b.bytes));
    return c != 0 ? c < 0 : a.id < b.id;
  };
  const size_t n = entries.size();
  size_t run = n;  // entries that the digits leave to be compared
  if (n > 1000) {
    Vec<TrieEntry> sorted(entries.allocator());
    if (!sorted.resize(n)) return kErrMemory;
    for (int shift = 0; shift < 64; shift += 8) {
      size_t at[257] = {};
      for (const TrieEntry& e : entries) ++at[(e.key >> shift & 0xFF) + 1];
      for (int digit = 0; digit < 256; ++digit) at[digit + 1] += at[digit];
      for (const TrieEntry& e : entries) sorted[at[e.key >> shift & 0xFF]++] = e;
      swap_values(entries, sorted);
    }
    run = 1;
  }
  for (size_t begin = 0; begin < n; begin += run) {
    if (n > 1000)
      for (run = 1; begin + run < n && entries[begin + run].key == entries[begin].key;) ++run;
    if (run > 1) sort(entries.data() + begin, run, less);
  }
  return kOk;
}

}  // namespace

void set_key(TrieEntry& e, Span<const char> text) {
  e.key = 0;
  for (uint32_t i = 0; i < 8; ++i)
    e.key = e.key << 8 | (i < e.bytes ? static_cast<uint8_t>(text[e.begin + i]) : 0u);
}

Status Trie::build(Vec<TrieEntry>& entries, Span<const char> text) {
  const char* base = text.data();
  if (const Status s = sort_entries(entries, base); s != kOk) return s;
  nodes_.clear(), ids_.clear(), begins_.clear(), characters_.clear();
  const size_t n = entries.size();
  if (!ids_.reserve(n) || !begins_.reserve(n) || !characters_.reserve(n)) return kErrMemory;
  uint32_t open[kMostBytes + 1];  // [depth - 1] the node there
  uint32_t depth = 0;
  Str last;
  auto close = [&](uint32_t to) {
    for (; depth > to; --depth) nodes_[open[depth - 1]].skip = static_cast<uint32_t>(nodes_.size());
  };
  for (const TrieEntry& e : entries) {
    const Str s(base + e.begin, e.bytes);
    uint32_t common = 0;
    while (common < last.size() && common < s.size() && last[common] == s[common]) ++common;
    close(common);
    for (; depth < s.size(); ++depth) {
      open[depth] = static_cast<uint32_t>(nodes_.size());
      const Node n = {0, static_cast<uint32_t>(ids_.size()), static_cast<uint8_t>(s[depth]),
                      static_cast<uint8_t>(depth + 1), true};
      if (!nodes_.push(n)) return kErrMemory;
    }
    if (e.characters == 0)
      for (uint32_t d = 0; d < depth; ++d) nodes_[open[d]].all_plain = false;
    if (!ids_.push(e.id) || !begins_.push(e.begin) || !characters_.push(e.characters)) return kErrMemory;
    last = s;
  }
  close(0);
  const uint32_t end = static_cast<uint32_t>(nodes_.size());
  return nodes_.push({end, static_cast<uint32_t>(ids_.size()), 0, 0, false}) ? kOk : kErrMemory;
}

Status VocabTrie::init(const Tokenizer& tokenizer) {
  if (!tokenizer.available()) return kErrUnsupported;
  n_vocab_ = tokenizer.n_vocab();
  Vec<TrieEntry> entries(text_.allocator());
  if (!entries.reserve(static_cast<size_t>(n_vocab_)) || !begin_.reserve(static_cast<size_t>(n_vocab_) + 1))
    return kErrMemory;
  if (!eog_.copy(tokenizer.view().eog())) return kErrMemory;
  for (int32_t id = 0; id < n_vocab_; ++id) {
    const uint32_t begin = static_cast<uint32_t>(text_.size());
    if (!begin_.push(begin)) return kErrMemory;
    // What ends a generation is no text, whatever it is spelled.
    if (is_eog(id)) continue;
    if (const Status s = tokenizer.append_piece(id, false, text_); s != kOk) return s;
    // That byte is in no text that a grammar allows, and means something else there (token_refs.h).
    for (size_t i = begin; i < text_.size(); ++i)
      if (static_cast<uint8_t>(text_[i]) == kTokenMark) text_.truncate(begin);
    const uint32_t bytes = static_cast<uint32_t>(text_.size()) - begin;
    if (bytes == 0 || bytes > Trie::kMostBytes) continue;
    TrieEntry e = {0, begin, bytes, id, plain_characters(Str(text_.data() + begin, bytes))};
    set_key(e, text_);
    longest_plain_ = max_of(longest_plain_, static_cast<uint32_t>(e.characters));
    if (!entries.push(e)) return kErrMemory;
  }
  if (!begin_.push(static_cast<uint32_t>(text_.size()))) return kErrMemory;
  const Status s = trie_.build(entries, text_);
  if (s != kOk) return s;
  const size_t words = mask_words();
  if (!plain_.resize((kMostCharacters + 1) * words)) return kErrMemory;
  for (const TrieEntry& e : entries)
    if (e.characters) {
      const size_t id = static_cast<size_t>(e.id), c = min_of<uint32_t>(e.characters, kMostCharacters);
      plain_[c * words + id / 64] |= uint64_t{1} << (id % 64);
    }
  for (size_t i = words; i < plain_.size(); ++i) plain_[i] |= plain_[i - words];
  return kOk;
}

bool VocabTrie::is_eog(int32_t id) const {
  for (int32_t e : eog_)
    if (e == id) return true;
  return false;
}

}  // namespace grammar
}  // namespace gcrt
