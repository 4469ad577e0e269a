#include "compiler/text/freeze_bpe.h"

#include <bit>
#include <optional>

#include "compiler/base/error.h"
#include "compiler/text/byte_spelling.h"
#include "runtime/text/words.h"

namespace gc::text {
namespace {

namespace fz = gcrt::frozen;

#define EXPRESSION(name, text) constexpr std::string_view name = text;
#define PRETOKENIZER(name, flags, ...)
#include "compiler/text/pretokenizers.def"
#undef EXPRESSION
#undef PRETOKENIZER

struct Row {
  std::string_view name;
  std::string_view flags;
  std::array<std::string_view, gcrt::kMaxWordStages> stages;  // empty ones at the end are none
};
constexpr Row kRows[] = {
#define EXPRESSION(name, text)
#define PRETOKENIZER(name, flags, ...) {name, flags, {__VA_ARGS__}},
#include "compiler/text/pretokenizers.def"
#undef EXPRESSION
#undef PRETOKENIZER
};

// Ids of spelled texts. Texts that only merges know get ids from n_vocab on. Open addressing: of 128,000 pieces and
// 280,000 merges a std::unordered_map made three quarters of a vocabulary's time.
class Ids {
 public:
  explicit Ids(const Vocab& v) : n_vocab_(static_cast<std::int32_t>(v.tokens.size())) {
    texts_.reserve(v.tokens.size());
    resize(v.tokens.size() * 2 + 16);
    for (std::string_view t : v.tokens) {
      texts_.push_back(t);
      Slot& s = slot(t);
      if (s.id < 0) fill(s, t, static_cast<std::int32_t>(texts_.size()) - 1);
    }
  }
  std::int32_t of(std::string_view text) {
    if (used_ * 2 > slots_.size()) resize(slots_.size() * 2);
    Slot& s = slot(text);
    if (s.id >= 0) return s.id;
    own_.emplace_back(text);
    texts_.push_back(own_.back());
    fill(s, text, static_cast<std::int32_t>(texts_.size()) - 1);
    return s.id;
  }
  std::int32_t token(std::string_view text) { return slot(text).id; }
  bool all_are_tokens() const { return own_.empty(); }
  bool is_token(std::int32_t id) const { return id < n_vocab_; }

 private:
  struct Slot {
    std::uint32_t hash = 0;
    std::int32_t id = -1;
  };
  static std::uint64_t hash(std::string_view t) { return fz::hash_bytes(t.data(), t.size()); }
  void fill(Slot& s, std::string_view t, std::int32_t id) {
    s = {static_cast<std::uint32_t>(hash(t)), id};
    ++used_;
  }
  Slot& slot(std::string_view text) {
    std::uint64_t h = hash(text);
    for (std::size_t at = h >> 32 & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
      Slot& s = slots_[at];
      if (s.id < 0) return s;
      if (s.hash == static_cast<std::uint32_t>(h) && texts_[static_cast<std::size_t>(s.id)] == text) return s;
    }
  }
  void resize(std::size_t want) {
    std::vector<Slot> old = std::move(slots_);
    slots_.assign(std::bit_ceil(want), Slot());
    for (const Slot& s : old)
      if (s.id >= 0) slot(texts_[static_cast<std::size_t>(s.id)]) = s;
  }

  std::int32_t n_vocab_;
  std::vector<std::string_view> texts_;  // by id
  std::deque<std::string> own_;
  std::vector<Slot> slots_;  // a power of two, at most half of them used
  std::size_t used_ = 0;
};

std::array<std::int32_t, 256> byte_ids(Ids& ids) {
  std::array<std::int32_t, 256> out;
  out.fill(-1);
  for (unsigned code = 0x21; code < 0x144; ++code) {
    std::string spelled;
    if (code < 0x80) {
      spelled += static_cast<char>(code);
    } else {
      spelled += static_cast<char>(0xC0 | code >> 6);
      spelled += static_cast<char>(0x80 | (code & 0x3F));
    }
    std::optional<std::string> byte = unspell_bytes(spelled);
    if (byte && byte->size() == 1) out[static_cast<unsigned char>((*byte)[0])] = ids.token(spelled);
  }
  return out;
}

std::vector<fz::Merge> build_merges(const Vocab& v, Ids& ids) {
  std::vector<fz::Merge> slots(v.merges.size() * 2 + 2, {-1, -1, 0, -1});
  auto n = static_cast<std::uint32_t>(slots.size());
  std::string joined;
  for (std::size_t rank = 0; rank < v.merges.size(); ++rank) {
    std::string_view m = v.merges[rank];
    // A part may begin with the space that parts it only if that is its first byte.
    std::size_t gap = m.find(' ', 1);
    if (gap == std::string_view::npos || gap + 1 == m.size())
      throw_user("tokenizer.ggml.merges[", rank, "]: expected 'LEFT RIGHT', found ", quote(m));
    std::string_view left = m.substr(0, gap), right = m.substr(gap + 1);
    joined.assign(left).append(right);
    std::int32_t l = ids.of(left), r = ids.of(right), result = ids.of(joined);
    std::uint32_t at = fz::merge_slot(l, r, n);
    while (slots[at].left >= 0 && !(slots[at].left == l && slots[at].right == r))
      at = at + 1 == n ? 0 : at + 1;
    if (slots[at].left < 0)
      slots[at] = {l, r, static_cast<std::uint32_t>(rank), result};  // the first one counts
  }
  return slots;
}

}  // namespace

Pretokenizer find_pretokenizer(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name != name) continue;
    Pretokenizer p;
    p.flags = row.flags;
    for (std::string_view stage : row.stages)
      if (!stage.empty()) p.stages.push_back(stage);
    return p;
  }
  throw_unsupported("pre-tokenizer ", quote(name),
                    " (tokenizer.ggml.pre); with --no-tokenizer the program runs by ", "token ids");
}

BpeParts build_bpe(const Vocab& v, const std::vector<std::uint8_t>& attrs, bool text) {
  // Kimi K2's files may come without merges: its words are pieces.
  if (v.merges.empty() && v.pre != "kimi-k2")
    throw_user("tokenizer.ggml.merges is missing: a BPE tokenizer cannot do without");
  BpeParts parts;
  std::vector<std::int32_t> special;
  parts.pieces.reserve(v.tokens.size());
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    std::int32_t id = static_cast<std::int32_t>(i);
    std::optional<std::string> bytes;
    bool ordinary = attrs[i] & (fz::kNormal | fz::kUnused) && !(attrs[i] & (fz::kControl | fz::kUnknown));
    if (ordinary && !text) bytes = unspell_bytes(v.tokens[i]);
    if (bytes) {
      parts.bytes.push_back(std::move(*bytes));
      parts.pieces.push_back(parts.bytes.back());
    } else {
      parts.pieces.push_back(v.tokens[i]);  // not spelled: stands for itself
    }
    (ordinary ? parts.order : special).push_back(id);
  }
  parts.order.insert(parts.order.end(), special.begin(), special.end());
  Ids ids(v);
  parts.byte_ids.fill(-1);
  if (!text) parts.byte_ids = byte_ids(ids);
  parts.merges = build_merges(v, ids);
  parts.pieces_cover_merges = ids.all_are_tokens();
  return parts;
}

}  // namespace gc::text
