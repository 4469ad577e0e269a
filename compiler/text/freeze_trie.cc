#include <algorithm>
#include <cfloat>
#include <cmath>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "compiler/base/error.h"
#include "compiler/text/freeze_parts.h"
#include "compiler/text/unicode.h"
#include "runtime/text/charmap.h"

namespace gc::text {
namespace {

std::vector<fz::PieceNode> build_trie(const std::vector<std::string_view>& pieces,
                                      std::vector<std::int32_t> ids) {
  const TrieShape shape = trie_shape(pieces, std::move(ids));
  std::vector<fz::PieceNode> nodes;
  nodes.reserve(shape.nodes.size());
  for (const TrieShape::Node& n : shape.nodes)  // an empty piece is none
    nodes.push_back(
        {n.first_child, n.n_children << 8 | n.byte, n.depth && n.n_ids ? shape.ids[n.first_id] : -1});
  return nodes;
}

// Ids whose attributes have one of `wanted` and are no structure: a text's own characters never become that.
std::vector<std::int32_t> ids_with(const std::vector<std::uint8_t>& attrs, std::uint8_t wanted) {
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < attrs.size(); ++i)
    if (attrs[i] & wanted && !(attrs[i] & (fz::kControl | fz::kUnknown)))
      ids.push_back(static_cast<std::int32_t>(i));
  return ids;
}

constexpr std::uint8_t kText = fz::kNormal | fz::kUserDefined | fz::kUnused;

// The ideographs that BERT takes one by one; the last range but two begins where its makers let it begin.
bool is_ideograph(std::uint32_t c) {
  constexpr std::uint32_t kRanges[][2] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF},
                                          {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF},
                                          {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  return std::any_of(std::begin(kRanges), std::end(kRanges), [c](auto& r) { return c >= r[0] && c <= r[1]; });
}

gcrt::CharRule rule_of(std::uint32_t from, bool lowercase, bool strip_accents, bool wordpiece) {
  using Kind = gcrt::CharRuleKind;
  std::uint32_t c = wordpiece && strip_accents ? base_character(from) : from;
  CharClass kind = char_class(c);
  if (kind == CharClass::kSpace) return {Kind::kSpace, from};
  if (!wordpiece) return {Kind::kPart, lowercase ? lower_case(c) : c};
  if (c == 0 || c == 0xFFFD || kind == CharClass::kControl) return {Kind::kDrop, from};
  if (strip_accents && kind == CharClass::kMark) return {Kind::kDrop, from};
  bool single =
      kind == CharClass::kPunctuation || (c < 0x7F && kind == CharClass::kSymbol) || is_ideograph(c);
  return {single ? Kind::kSingle : Kind::kPart, lowercase ? lower_case(c) : c};
}

// RWKV's files escape bytes in pieces: \t \n \r \xHH, a backslash for any other character.
std::string unescape_rwkv(std::string_view piece) {
  auto hex = [](char c) { return c >= 'a' ? c - 'a' + 10 : c >= 'A' ? c - 'A' + 10 : c - '0'; };
  std::string out;
  for (std::size_t i = 0; i < piece.size(); ++i) {
    if (piece[i] != '\\' || i + 1 == piece.size()) {
      out += piece[i];
      continue;
    }
    char c = piece[++i];
    if (c == 'x' && i + 2 < piece.size()) {
      out += static_cast<char>(hex(piece[i + 1]) * 16 + hex(piece[i + 2]));
      i += 2;
    } else {
      out += c == 't' ? '\t' : c == 'n' ? '\n' : c == 'r' ? '\r' : c;
    }
  }
  return out;
}

}  // namespace

Paged<std::uint32_t> build_normal(bool lowercase, bool strip_accents, bool wordpiece) {
  Paged<std::uint32_t> out;
  std::map<std::vector<std::uint32_t>, std::uint16_t> blocks;
  for (std::uint32_t page = 0; page < gcrt::kCharPages; ++page) {
    std::vector<std::uint32_t> block(256);
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t c = page * 256 + i;
      block[i] = gcrt::char_rule_entry(rule_of(c, lowercase, strip_accents, wordpiece), c);
    }
    auto [found, added] = blocks.emplace(block, static_cast<std::uint16_t>(blocks.size()));
    if (added) out.entries.insert(out.entries.end(), block.begin(), block.end());
    out.pages.push_back(found->second);
  }
  return out;
}

void freeze_wpm(const Vocab& v, const FreezeOptions& options, FrozenVocab& out) {
  Resolved r = resolve_special(v, options);
  if (r.unk < 0) throw_user("tokenizer.ggml.unknown_token_id is missing: WordPiece cannot do without");
  fz::Meta meta = meta_of(r);
  meta.newline = r.pad;
  Vocab framed = v;  // the frame of BERT's inputs is not the file's to choose
  framed.add_bos = true, framed.add_sep = true;
  meta.flags = flags_of(framed, fz::kEscapeSpaces | fz::kCleanSpaces, r, out) &
               ~static_cast<std::uint32_t>(fz::kAddSpacePrefix | fz::kAddEos);
  BlobWriter blob;
  add_pieces(v.tokens, ascending_ids(v.tokens.size()), r, meta, blob, out);
  blob.add(fz::kTrie, build_trie(v.tokens, ids_with(r.attrs, kText | fz::kByte)));
  bool lowercase = v.lowercase.value_or(true);
  Paged<std::uint32_t> normal = build_normal(lowercase, v.strip_accents.value_or(lowercase), true);
  blob.add(fz::kNormal32, normal.entries);
  blob.add(fz::kNormalPages, normal.pages);
  finish(blob, meta, fz::Kind::kWpm, v, out);
}

void freeze_ugm(const Vocab& v, const FreezeOptions& options, FrozenVocab& out) {
  Resolved r = resolve_special(v, options);
  if (r.unk < 0)
    throw_user("tokenizer.ggml.unknown_token_id is missing: a unigram vocabulary cannot do without");
  if (v.scores.empty())
    throw_user("tokenizer.ggml.scores is missing: a unigram vocabulary cannot do without");
  fz::Meta meta = meta_of(r);
  meta.flags = flags_of(v, fz::kAddEos | fz::kEscapeSpaces, r, out);
  float lowest = FLT_MAX;
  std::vector<float> scores = v.scores;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (r.attrs[i] & fz::kNormal) lowest = std::min(lowest, scores[i]);
    if (r.attrs[i] & fz::kUserDefined) scores[i] = 0;  // before any normal one, whose scores are negative
  }
  meta.unknown_score = (lowest == FLT_MAX ? 0.0f : lowest) - 10.0f;
  BlobWriter blob;
  add_pieces(v.tokens, ascending_ids(v.tokens.size()), r, meta, blob, out);
  blob.add(fz::kScores, scores);
  blob.add(fz::kTrie, build_trie(v.tokens, ids_with(r.attrs, kText)));
  if (!v.precompiled_charsmap.empty())
    blob.add(fz::kCharMap, v.precompiled_charsmap.data(), v.precompiled_charsmap.size());
  finish(blob, meta, fz::Kind::kUgm, v, out);
}

void freeze_rwkv(const Vocab& v, const FreezeOptions& options, FrozenVocab& out) {
  Resolved r = resolve_special(v, options);
  std::deque<std::string> bytes;
  std::vector<std::string_view> pieces;
  for (std::string_view t : v.tokens) pieces.push_back(bytes.emplace_back(unescape_rwkv(t)));
  fz::Meta meta = meta_of(r);
  meta.flags = flags_of(v, 0, r, out) & ~static_cast<std::uint32_t>(fz::kAddSpacePrefix);
  for (std::size_t i = 0; i < pieces.size(); ++i)
    if (pieces[i] == "\n") meta.newline = static_cast<std::int32_t>(i);
  BlobWriter blob;
  add_pieces(pieces, ascending_ids(pieces.size()), r, meta, blob, out);
  blob.add(fz::kTrie, build_trie(pieces, ids_with(r.attrs, kText | fz::kByte)));
  finish(blob, meta, fz::Kind::kRwkv, v, out);
}

void freeze_plamo2(const Vocab& v, const FreezeOptions& options, FrozenVocab& out) {
  Resolved r = resolve_special(v, options);
  std::array<std::int32_t, 256> bytes = byte_tokens(v.tokens);
  for (std::size_t b = 0; b < 256; ++b)
    if (bytes[b] < 0) throw_user("tokenizer.ggml.tokens: no token for byte ", b);
  if (v.scores.empty())
    throw_user("tokenizer.ggml.scores is missing: a PLaMo 2 vocabulary cannot do without");
  fz::Meta meta = meta_of(r);
  meta.newline = bytes['\n'];
  meta.flags = flags_of(v, 0, r, out) & ~static_cast<std::uint32_t>(fz::kAddSpacePrefix);
  // Sums are made of whole numbers, which a float holds exactly as far as they count.
  std::vector<float> scores = v.scores;
  for (float& s : scores)
    s = std::isfinite(s) ? static_cast<float>(std::round(static_cast<double>(s) * 1e4)) : -FLT_MAX;
  BlobWriter blob;
  add_pieces(v.tokens, ascending_ids(v.tokens.size()), r, meta, blob, out);
  blob.add(fz::kScores, scores);
  blob.add(fz::kBytes, bytes.data(), sizeof bytes);
  blob.add(fz::kTrie, build_trie(v.tokens, ids_with(r.attrs, kText)));
  finish(blob, meta, fz::Kind::kPlamo2, v, out);
}

}  // namespace gc::text
