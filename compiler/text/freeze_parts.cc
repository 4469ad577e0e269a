#include "compiler/text/freeze_parts.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <numeric>

#include "compiler/base/error.h"

namespace gc::text {
namespace {

struct HashTable {
  std::vector<std::uint32_t> slots;
  std::uint32_t id_bits = 1;
  std::uint32_t n_distinct = 0;
  std::vector<std::int32_t> duplicates;  // ids whose bytes a lower id has
};

// Pieces enter in the order of `order` (all ids): of equal ones the first is found.
HashTable build_hash(const std::vector<std::string_view>& pieces, const std::vector<std::int32_t>& order) {
  HashTable t;
  t.id_bits = static_cast<std::uint32_t>(std::bit_width(pieces.size() + 1));
  t.slots.assign(pieces.size() * 4 / 3 + 2, 0);
  auto n = static_cast<std::uint32_t>(t.slots.size());
  std::uint32_t mask = (1u << t.id_bits) - 1;
  for (std::int32_t id : order) {
    auto i = static_cast<std::size_t>(id);
    std::uint64_t h = fz::hash_bytes(pieces[i].data(), pieces[i].size());
    std::uint32_t fingerprint = fz::hash_fingerprint(h, t.id_bits), at = fz::hash_slot(h, n);
    bool duplicate = false;
    for (; t.slots[at]; at = at + 1 == n ? 0 : at + 1)
      if (t.slots[at] >> t.id_bits == fingerprint && pieces[(t.slots[at] & mask) - 1] == pieces[i]) {
        duplicate = true;
        break;
      }
    if (duplicate) {
      t.duplicates.push_back(static_cast<std::int32_t>(i));
      continue;
    }
    t.slots[at] = fingerprint << t.id_bits | static_cast<std::uint32_t>(i + 1);
    ++t.n_distinct;
  }
  return t;
}

// The trie of special pieces.
struct SpecialTrie {
  std::vector<fz::TrieNode> nodes;
  std::uint32_t max_bytes = 0;
};

SpecialTrie build_special(const std::vector<std::string_view>& pieces,
                          const std::vector<std::uint8_t>& attrs) {
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < pieces.size(); ++i)
    if (attrs[i] & (fz::kControl | fz::kUserDefined | fz::kUnknown) && !pieces[i].empty())
      ids.push_back(static_cast<std::int32_t>(i));
  SpecialTrie t;
  if (ids.empty()) return t;
  const TrieShape shape = trie_shape(pieces, std::move(ids));
  for (const TrieShape::Node& n : shape.nodes) {
    fz::TrieNode made = {n.first_child, static_cast<std::uint16_t>(n.n_children), n.byte, 0, -1, -1};
    if (n.n_ids) made.any_id = shape.ids[n.first_id];
    for (std::uint32_t i = n.first_id; i < n.first_id + n.n_ids && made.user_id < 0; ++i)
      if (!(attrs[static_cast<std::size_t>(shape.ids[i])] & (fz::kControl | fz::kUnknown)))
        made.user_id = shape.ids[i];
    t.max_bytes = std::max(t.max_bytes, n.depth);
    t.nodes.push_back(made);
  }
  return t;
}

// Special pieces are found in their own trie first; it is no fault if an ordinary piece reads like one.
void warn_duplicates(const HashTable& hash, const std::vector<std::string_view>& pieces, const Resolved& r,
                     FrozenVocab& out) {
  std::int32_t first = -1;
  std::size_t count = 0;
  for (std::int32_t id : hash.duplicates) {
    if (r.attrs[static_cast<std::size_t>(id)] & (fz::kControl | fz::kUserDefined | fz::kUnknown)) continue;
    if (count++ == 0) first = id;
  }
  if (!count) return;
  out.warnings.push_back(cat("tokenizer: ", count,
                             " tokens repeat the text of a lower id, which text is turned into ",
                             "(first: ", first, " ", quote(pieces[static_cast<std::size_t>(first)]), ")"));
}

}  // namespace

TrieShape trie_shape(const std::vector<std::string_view>& pieces, std::vector<std::int32_t> ids) {
  auto text = [&pieces](std::int32_t id) { return pieces[static_cast<std::size_t>(id)]; };
  std::sort(ids.begin(), ids.end(), [&](std::int32_t a, std::int32_t b) {
    int order = text(a).compare(text(b));
    return order ? order < 0 : a < b;
  });
  // A node stands for the run of sorted pieces that share its prefix; `end` is where that run ends.
  std::vector<std::uint32_t> end{static_cast<std::uint32_t>(ids.size())};
  TrieShape t;
  t.nodes.push_back({});
  for (std::size_t k = 0; k < t.nodes.size(); ++k) {
    TrieShape::Node n = t.nodes[k];
    std::uint32_t i = n.first_id;
    // The pieces that end here come first, by ascending id.
    while (i < end[k] && text(ids[i]).size() == n.depth) ++i;
    n.n_ids = i - n.first_id;
    n.first_child = static_cast<std::uint32_t>(t.nodes.size());
    while (i < end[k]) {
      const char byte = text(ids[i])[n.depth];
      const std::uint32_t first = i;
      while (i < end[k] && text(ids[i])[n.depth] == byte) ++i;
      t.nodes.push_back({0, 0, first, 0, n.depth + 1, static_cast<std::uint8_t>(byte)});
      end.push_back(i);
      ++n.n_children;
    }
    t.nodes[k] = n;
  }
  t.ids = std::move(ids);
  return t;
}

// Built at full size and then folded: a filter of half as many bits takes the same hashes modulo its size.
std::vector<std::uint64_t> build_pairs(const std::vector<std::string_view>& pieces) {
  constexpr std::uint32_t kMaxBits = 1u << 21, kMinBits = 1024;
  std::vector<std::uint64_t> bits(kMaxBits / 64);
  for (std::string_view p : pieces) {
    std::uint32_t before = 0;
    for (std::size_t at = 0; at < p.size();) {
      std::size_t bytes = fz::char_bytes(p.data() + at, p.size() - at);
      std::uint32_t code = fz::char_code(p.data() + at, bytes);
      if (at) {
        std::uint32_t bit = fz::pair_bit(before, code, kMaxBits);
        bits[bit / 64] |= std::uint64_t{1} << (bit % 64);
      }
      before = code;
      at += bytes;
    }
  }
  std::size_t n_pairs = 0;
  for (std::uint64_t word : bits) n_pairs += static_cast<std::size_t>(std::popcount(word));
  // At least 16 bits a pair.
  std::size_t want = std::clamp<std::size_t>(std::bit_ceil(n_pairs * 16), kMinBits, kMaxBits);
  while (bits.size() * 64 > want) {
    std::size_t half = bits.size() / 2;
    for (std::size_t i = 0; i < half; ++i) bits[i] |= bits[half + i];
    bits.resize(half);
  }
  return bits;
}

std::array<std::int32_t, 256> byte_tokens(const std::vector<std::string_view>& pieces) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::map<std::string, int, std::less<>> wanted;
  for (int b = 0; b < 256; ++b) wanted[std::string("<0x") + kHex[b >> 4] + kHex[b & 15] + '>'] = b;
  std::array<std::int32_t, 256> by_name, by_text;
  by_name.fill(-1);
  by_text.fill(-1);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    std::string_view p = pieces[i];
    if (p.size() == 1) {
      std::int32_t& id = by_text[static_cast<unsigned char>(p[0])];
      if (id < 0) id = static_cast<std::int32_t>(i);
    } else if (p.size() == 6 && p.substr(0, 3) == "<0x") {
      auto it = wanted.find(p);
      if (it != wanted.end() && by_name[static_cast<std::size_t>(it->second)] < 0)
        by_name[static_cast<std::size_t>(it->second)] = static_cast<std::int32_t>(i);
    }
  }
  for (std::size_t b = 0; b < 256; ++b)
    if (by_name[b] < 0) by_name[b] = by_text[b];
  return by_name;
}

std::vector<std::int32_t> ascending_ids(std::size_t n) {
  std::vector<std::int32_t> ids(n);
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

fz::Meta meta_of(const Resolved& r) {
  fz::Meta m{};
  m.bos = r.bos, m.eos = r.eos, m.eot = r.eot, m.eom = r.eom, m.unk = r.unk, m.sep = r.sep, m.pad = r.pad;
  m.cls = r.cls, m.mask = r.mask, m.newline = -1;
  m.fim_pre = r.fim_pre, m.fim_suf = r.fim_suf, m.fim_mid = r.fim_mid;
  m.fim_pad = r.fim_pad, m.fim_rep = r.fim_rep, m.fim_sep = r.fim_sep;
  return m;
}

void add_pieces(const std::vector<std::string_view>& pieces, const std::vector<std::int32_t>& order,
                const Resolved& r, fz::Meta& meta, BlobWriter& blob, FrozenVocab& out) {
  std::vector<char> text;
  std::vector<std::uint32_t> offsets{0};
  offsets.reserve(pieces.size() + 1);
  std::uint64_t total = 0;
  for (std::string_view p : pieces) total += p.size();
  if (total > std::numeric_limits<std::uint32_t>::max())
    throw_user("tokenizer.ggml.tokens: over 4 GiB of text");
  text.reserve(total);
  for (std::string_view p : pieces) {
    text.insert(text.end(), p.begin(), p.end());
    offsets.push_back(static_cast<std::uint32_t>(text.size()));
    meta.max_piece_bytes = std::max(meta.max_piece_bytes, static_cast<std::uint32_t>(p.size()));
  }
  HashTable hash = build_hash(pieces, order);
  meta.id_bits = hash.id_bits;
  meta.n_distinct = hash.n_distinct;
  warn_duplicates(hash, pieces, r, out);
  SpecialTrie special = build_special(pieces, r.attrs);
  meta.max_special_bytes = special.max_bytes;
  blob.add(fz::kText, text);
  blob.add(fz::kOffsets, offsets);
  blob.add(fz::kAttrs, r.attrs);
  blob.add(fz::kHash, hash.slots);
  blob.add(fz::kSpecial, special.nodes);
  blob.add(fz::kEog, r.eog);
}

std::uint32_t flags_of(const Vocab& v, std::uint32_t defaults, const Resolved& r, FrozenVocab& out) {
  std::uint32_t flags = defaults;
  auto set = [&flags](std::optional<bool> value, std::uint32_t flag) {
    if (value) flags = *value ? flags | flag : flags & ~flag;
  };
  set(v.add_bos, fz::kAddBos);
  set(v.add_eos, fz::kAddEos);
  set(v.add_sep, fz::kAddSep);
  set(v.add_space_prefix, fz::kAddSpacePrefix);
  set(v.remove_extra_whitespaces, fz::kRemoveExtraSpaces);
  auto need = [&](std::uint32_t flag, std::int32_t id, const char* name) {
    if (!(flags & flag) || id >= 0) return;
    flags &= ~flag;
    out.warnings.push_back(
        cat("tokenizer: the file asks for a ", name, " token and has none; it is left out"));
  };
  need(fz::kAddBos, r.bos, "BOS");
  need(fz::kAddEos, r.eos, "EOS");
  return flags;
}

void finish(BlobWriter& blob, const fz::Meta& meta, fz::Kind kind, const Vocab& v, FrozenVocab& out) {
  if (!v.suppress.empty()) blob.add(fz::kSuppress, v.suppress);
  blob.add(fz::kMeta, &meta, sizeof meta);
  out.blob = blob.finish(kind, static_cast<std::uint32_t>(v.tokens.size()));
  out.has_tokenizer = true;
}

}  // namespace gc::text
