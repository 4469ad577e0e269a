#include "runtime/text/frozen.h"

namespace gcrt {
namespace frozen {
namespace {

constexpr uint32_t kMaxSections = 64;
// What a blob without a META section answers.
constexpr Meta kNoMeta = {.bos = -1,
                          .eos = -1,
                          .eot = -1,
                          .eom = -1,
                          .unk = -1,
                          .sep = -1,
                          .pad = -1,
                          .cls = -1,
                          .mask = -1,
                          .newline = -1,
                          .fim_pre = -1,
                          .fim_suf = -1,
                          .fim_mid = -1,
                          .fim_pad = -1,
                          .fim_rep = -1,
                          .fim_sep = -1};

bool power_of_two(uint64_t x) { return x && !(x & (x - 1)); }

}  // namespace

const Section* View::section(uint32_t tag) const {
  const Section* table = reinterpret_cast<const Section*>(base_ + sizeof(Header));
  for (uint32_t i = 0; i < header_->n_sections; ++i)
    if (table[i].tag == tag) return &table[i];
  return nullptr;
}

template <class T>
bool View::take(uint32_t tag, uint64_t count, Span<const T>* out) const {
  const Section* s = section(tag);
  *out = {};
  if (!s) return true;
  if (s->bytes % sizeof(T) || (count != UINT64_MAX && s->bytes != count * sizeof(T))) return false;
  *out = {reinterpret_cast<const T*>(base_ + s->offset), static_cast<size_t>(s->bytes / sizeof(T))};
  return true;
}

bool View::take_words() {
  const Section* s = section(kWords);
  if (!s) return true;
  if (s->bytes < sizeof(WordHeader) || (s->bytes - sizeof(WordHeader)) % sizeof(WordStage)) return false;
  words_.header = *reinterpret_cast<const WordHeader*>(base_ + s->offset);
  words_.stages = {reinterpret_cast<const WordStage*>(base_ + s->offset + sizeof(WordHeader)),
                   static_cast<size_t>((s->bytes - sizeof(WordHeader)) / sizeof(WordStage))};
  return take(kWordSteps, UINT64_MAX, &words_.steps) && take(kWordPages, UINT64_MAX, &words_.pages) &&
         take(kWordClasses, UINT64_MAX, &words_.classes) && words_.valid();
}

Status View::open(Span<const uint8_t> data) {
  *this = View();
  meta_ = &kNoMeta;
  if (data.size() < sizeof(Header) || reinterpret_cast<uintptr_t>(data.data()) % 8) return kErrImage;
  const Header* h = reinterpret_cast<const Header*>(data.data());
  if (h->magic != kMagic || h->version != kVersion || h->bytes > data.size()) return kErrImage;
  if (h->n_sections > kMaxSections || h->n_vocab > INT32_MAX - 1) return kErrImage;
  if (!in_bounds(sizeof(Header), h->n_sections, sizeof(Section), h->bytes)) return kErrImage;
  const Section* table = reinterpret_cast<const Section*>(data.data() + sizeof(Header));
  for (uint32_t i = 0; i < h->n_sections; ++i)
    if (table[i].offset % kAlign || !in_bounds(table[i].offset, table[i].bytes, 1, h->bytes))
      return kErrImage;

  View v;
  v.base_ = data.data();
  v.header_ = h;
  v.meta_ = &kNoMeta;
  uint64_t n = h->n_vocab;
  Span<const Meta> meta;
  if (!v.take(kMeta, 1, &meta)) return kErrImage;
  if (!meta.empty()) v.meta_ = meta.data();
  if (!v.take(kText, UINT64_MAX, &v.text_) || !v.take(kOffsets, UINT64_MAX, &v.offsets_) ||
      !v.take(kScores, n, &v.scores_) || !v.take(kAttrs, n, &v.attrs_) ||
      !v.take(kHash, UINT64_MAX, &v.slots_) || !v.take(kPairs, UINT64_MAX, &v.pairs_) ||
      !v.take(kBytes, 256, &v.bytes_) || !v.take(kSpecial, UINT64_MAX, &v.special_) ||
      !v.take(kEog, UINT64_MAX, &v.eog_) || !v.take(kMerges, UINT64_MAX, &v.merges_) || !v.take_words() ||
      !v.take(kTrie, UINT64_MAX, &v.trie_) || !v.take(kNormal32, UINT64_MAX, &v.normal_) ||
      !v.take(kNormalPages, UINT64_MAX, &v.normal_pages_) || !v.take(kCharMap, UINT64_MAX, &v.char_map_) ||
      !v.take(kSuppress, UINT64_MAX, &v.suppressed_))
    return kErrImage;
  if (!v.normal_pages_.empty() && v.normal_pages_.size() != kCharPages) return kErrImage;
  if (!v.offsets_.empty() && v.offsets_.size() != n + 1) return kErrImage;
  v.n_pieces_ = v.offsets_.empty() ? 0 : h->n_vocab;
  if (!v.slots_.empty() && (v.meta_->id_bits < 1 || v.meta_->id_bits > 31 || v.slots_.size() > UINT32_MAX))
    return kErrImage;
  if (!v.pairs_.empty()) {
    uint64_t bits = v.pairs_.size() * 64;
    if (!power_of_two(bits) || bits > (uint64_t{1} << 24)) return kErrImage;
    v.pair_bits_ = static_cast<uint32_t>(bits);
  }
  // What the kinds cannot work without.
  if (h->kind > Kind::kPlamo2) return kErrImage;
  if (h->kind != Kind::kNone && (meta.empty() || v.offsets_.empty() || v.attrs_.empty() || v.slots_.empty()))
    return kErrImage;
  if (h->kind == Kind::kSpm && (v.scores_.empty() || v.bytes_.empty())) return kErrImage;
  if (h->kind == Kind::kBpe && (v.bytes_.empty() || v.merges_.empty() || v.merges_.size() > UINT32_MAX))
    return kErrImage;
  bool needs_trie =
      h->kind == Kind::kWpm || h->kind == Kind::kUgm || h->kind == Kind::kRwkv || h->kind == Kind::kPlamo2;
  if (needs_trie && v.trie_.empty()) return kErrImage;
  if (h->kind == Kind::kWpm && v.normal_pages_.empty()) return kErrImage;
  if ((h->kind == Kind::kUgm || h->kind == Kind::kPlamo2) && v.scores_.empty()) return kErrImage;
  if (h->kind == Kind::kPlamo2 && v.bytes_.empty()) return kErrImage;
  *this = v;
  return kOk;
}

bool View::is_eog(int32_t id) const {
  size_t lo = 0, hi = eog_.size();
  while (lo < hi) {
    size_t mid = (lo + hi) / 2;
    if (eog_[mid] < id)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo < eog_.size() && eog_[lo] == id;
}

int32_t View::find(Str s) const {
  if (slots_.empty() || s.size() > meta_->max_piece_bytes) return -1;
  uint64_t h = hash_bytes(s.data(), s.size());
  uint32_t n = static_cast<uint32_t>(slots_.size()), bits = meta_->id_bits;
  uint32_t fingerprint = hash_fingerprint(h, bits), mask = (1u << bits) - 1;
  uint32_t at = hash_slot(h, n);
  // At most one turn around, even when a damaged table has no empty slot.
  for (uint32_t tries = 0; tries < n; ++tries) {
    uint32_t slot = slots_[at];
    if (!slot) return -1;
    if (slot >> bits == fingerprint) {
      int32_t id = static_cast<int32_t>(slot & mask) - 1;
      if (piece(id) == s) return id;
    }
    if (++at == n) at = 0;
  }
  return -1;
}

const Merge* View::find_merge(int32_t left, int32_t right) const {
  if (left < 0 || right < 0 || merges_.empty()) return nullptr;
  uint32_t n = static_cast<uint32_t>(merges_.size()), at = merge_slot(left, right, n);
  for (uint32_t tries = 0; tries < n; ++tries) {
    const Merge& m = merges_[at];
    if (m.left == left && m.right == right) return &m;
    if (m.left < 0) return nullptr;
    if (++at == n) at = 0;
  }
  return nullptr;
}

namespace {

template <class Node>
uint32_t byte_of(const Node& n) {
  if constexpr (sizeof(Node) == sizeof(TrieNode))
    return n.byte;
  else
    return n.byte();
}

// Among the nodes [lo, lo + count), ascending by byte, the one of `byte`; 0 when there is none.
template <class Node>
uint32_t find_child(Span<const Node> nodes, uint64_t lo, uint64_t count, uint8_t byte) {
  uint64_t end = lo + count, hi = end;
  if (end > nodes.size()) return 0;
  while (lo < hi) {
    uint64_t mid = (lo + hi) / 2;
    if (byte_of(nodes[mid]) < byte)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo < end && byte_of(nodes[lo]) == byte ? static_cast<uint32_t>(lo) : 0;
}

}  // namespace

uint32_t View::special_child(uint32_t node, uint8_t byte) const {
  return find_child(special_, special_[node].first_child, special_[node].n_children, byte);
}

uint32_t View::piece_child(uint32_t node, uint8_t byte) const {
  return find_child(trie_, trie_[node].first_child, trie_[node].count(), byte);
}

uint64_t View::section_bytes(uint32_t tag) const {
  const Section* s = header_ ? section(tag) : nullptr;
  return s ? s->bytes : 0;
}

Status View::deep_check() const {
  if (!header_) return kErrImage;
  int64_t n = header_->n_vocab;
  auto id_or_none = [n](int32_t id) { return id >= -1 && id < n; };
  for (uint32_t i = 0; i < n_pieces_; ++i)
    if (offsets_[i] > offsets_[i + 1] || offsets_[i + 1] - offsets_[i] > meta_->max_piece_bytes)
      return kErrImage;
  if (n_pieces_ && (offsets_[0] != 0 || offsets_[n_pieces_] != text_.size())) return kErrImage;
  for (int32_t id : bytes_)
    if (!id_or_none(id)) return kErrImage;
  const Meta& m = *meta_;
  const int32_t ids[] = {m.bos,  m.eos,     m.eot,     m.eom,     m.unk,     m.sep,     m.pad,     m.cls,
                         m.mask, m.newline, m.fim_pre, m.fim_suf, m.fim_mid, m.fim_pad, m.fim_rep, m.fim_sep};
  for (int32_t id : ids)
    if (!id_or_none(id)) return kErrImage;
  for (size_t i = 0; i < eog_.size(); ++i)
    if (eog_[i] < 0 || eog_[i] >= n || (i && eog_[i] <= eog_[i - 1])) return kErrImage;
  for (const TrieNode& t : special_)
    if (t.first_child + uint64_t{t.n_children} > special_.size() || !id_or_none(t.any_id) ||
        !id_or_none(t.user_id))
      return kErrImage;
  for (int32_t id : suppressed_)
    if (id < 0 || id >= n) return kErrImage;
  for (const PieceNode& t : trie_)
    if (t.first_child + uint64_t{t.count()} > trie_.size() || !id_or_none(t.id)) return kErrImage;
  for (uint16_t step : words_.steps)
    if (words_.stages.empty() || step >> 1 >= UINT16_MAX / 2) return kErrImage;
  // Every piece is found, if by another id with the same bytes.
  if (!slots_.empty())
    for (int32_t i = 0; i < static_cast<int32_t>(n_pieces_); ++i) {
      Str bytes = piece(i);
      if (find(bytes) < 0) return kErrImage;
    }
  return kOk;
}

}  // namespace frozen
}  // namespace gcrt
