#include "compiler/text/freeze_bpe.h"

#include <optional>
#include <unordered_map>

#include "compiler/base/error.h"
#include "compiler/text/byte_spelling.h"
#include "runtime/text/words.h"

namespace gc::text {
namespace {

namespace fz = gcrt::frozen;

struct Row {
  std::string_view name;
  gcrt::WordShape shape;
  std::uint32_t max_digits, marks_join;
  std::string_view flags;
};
constexpr Row kRows[] = {
#define PRETOKENIZER(name, shape, max_digits, marks_join, flags) \
  {name, gcrt::WordShape::shape, max_digits, marks_join, flags},
#include "compiler/text/pretokenizers.def"
#undef PRETOKENIZER
};

// Ids of spelled texts. Texts that only merges know get ids from n_vocab on.
class Ids {
 public:
  explicit Ids(const Vocab& v) : next_(static_cast<std::int32_t>(v.tokens.size())) {
    ids_.reserve(v.tokens.size() * 2);
    for (std::size_t i = 0; i < v.tokens.size(); ++i) ids_.emplace(v.tokens[i], static_cast<std::int32_t>(i));
  }
  std::int32_t of(std::string_view text) {
    auto it = ids_.find(text);
    if (it != ids_.end()) return it->second;
    texts_.emplace_back(text);
    ids_.emplace(texts_.back(), next_);
    return next_++;
  }
  std::int32_t token(std::string_view text) const {
    auto it = ids_.find(text);
    return it == ids_.end() ? -1 : it->second;
  }

 private:
  std::unordered_map<std::string_view, std::int32_t> ids_;
  std::deque<std::string> texts_;
  std::int32_t next_;
};

std::array<std::int32_t, 256> byte_ids(const Ids& ids) {
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
  for (const Row& row : kRows)
    if (row.name == name)
      return {static_cast<std::uint32_t>(row.shape), row.max_digits, row.marks_join,
              row.flags.find('B') != std::string_view::npos, row.flags.find('M') != std::string_view::npos};
  throw_unsupported("pre-tokenizer ", quote(name),
                    " (tokenizer.ggml.pre); with --no-tokenizer the program runs by ", "token ids");
}

BpeParts build_bpe(const Vocab& v, const std::vector<std::uint8_t>& attrs) {
  if (v.merges.empty()) throw_user("tokenizer.ggml.merges is missing: a BPE tokenizer cannot do without");
  BpeParts parts;
  std::vector<std::int32_t> special;
  parts.pieces.reserve(v.tokens.size());
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    std::int32_t id = static_cast<std::int32_t>(i);
    std::optional<std::string> bytes;
    bool ordinary = attrs[i] & (fz::kNormal | fz::kUnused) && !(attrs[i] & (fz::kControl | fz::kUnknown));
    if (ordinary) bytes = unspell_bytes(v.tokens[i]);
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
  parts.byte_ids = byte_ids(ids);
  parts.merges = build_merges(v, ids);
  return parts;
}

}  // namespace gc::text
