#include "compiler/text/freeze.h"

#include <cstring>
#include <limits>
#include <string>

#include "compiler/base/error.h"
#include "compiler/text/eog.h"
#include "compiler/text/freeze_bpe.h"
#include "compiler/text/freeze_parts.h"
#include "compiler/text/regex.h"

namespace gc::text {
namespace {

void freeze_spm(const Vocab& v, const FreezeOptions& options, FrozenVocab& out) {
  Resolved r = resolve_special(v, options);
  std::array<std::int32_t, 256> bytes = byte_tokens(v.tokens);
  if (r.unk < 0)
    for (int b = 0; b < 256; ++b)
      if (bytes[static_cast<std::size_t>(b)] < 0)
        throw_user("tokenizer.ggml.tokens: no token for byte ", b,
                   " and no unknown token (tokenizer.ggml.unknown_token_id)");
  fz::Meta meta = meta_of(r);
  meta.newline = bytes['\n'];
  meta.flags = flags_of(v, fz::kAddBos | fz::kAddSpacePrefix | fz::kEscapeSpaces, r, out);
  std::vector<float> scores = v.scores;
  scores.resize(v.tokens.size(), 0.0f);
  BlobWriter blob;
  add_pieces(v.tokens, ascending_ids(v.tokens.size()), r, meta, blob, out);
  blob.add(fz::kScores, scores);
  blob.add(fz::kPairs, build_pairs(v.tokens));
  blob.add(fz::kBytes, bytes.data(), sizeof bytes);
  finish(blob, meta, fz::Kind::kSpm, v, out);
}

void add_words(const Pretokenizer& pre, BlobWriter& blob) {
  WordTables t = compile_words(pre.stages);
  std::vector<std::uint8_t> rules(sizeof t.header + t.stages.size() * sizeof t.stages[0]);
  std::memcpy(rules.data(), &t.header, sizeof t.header);
  std::memcpy(rules.data() + sizeof t.header, t.stages.data(), t.stages.size() * sizeof t.stages[0]);
  blob.add(fz::kWords, rules);
  blob.add(fz::kWordSteps, t.steps);
  blob.add(fz::kWordPages, t.pages);
  blob.add(fz::kWordClasses, t.classes);
}

// `model` "whitespace" drops white space before anything else, and lowers letters unless the file says otherwise.
void freeze_bpe(const Vocab& v, const FreezeOptions& options, FrozenVocab& out) {
  bool drop_spaces = v.model == "whitespace";
  std::string_view name = v.model == "gemma4" ? "gemma4" : v.pre;
  if (name.empty()) {
    name = "default";
    out.warnings.push_back(
        "tokenizer: the file names no pre-tokenizer (tokenizer.ggml.pre); words are cut by the "
        "default one, which may not be the model's");
  }
  Pretokenizer pre = find_pretokenizer(name);
  bool text = pre.has('T');
  Resolved r = resolve_special(v, options);
  BpeParts parts = build_bpe(v, r.attrs, text);
  if (text) parts.byte_ids = byte_tokens(v.tokens);
  int missing = 0;
  for (std::size_t b = 0; b < 256; ++b) {
    bool in_utf8 = b < 0xC0 || (b >= 0xC2 && b < 0xF5);
    missing += in_utf8 && parts.byte_ids[b] < 0;
  }
  if (missing)
    out.warnings.push_back(
        cat("tokenizer: ", missing, " bytes of UTF-8 have no token; rare characters lose them"));
  fz::Meta meta = meta_of(r);
  meta.newline = parts.byte_ids['\n'];
  auto flag = [&pre](char letter, std::uint32_t bit) { return pre.has(letter) ? bit : 0u; };
  std::uint32_t defaults = flag('B', fz::kAddBos) | flag('S', fz::kAddSep) | flag('M', fz::kIgnoreMerges) |
                           flag('T', fz::kCharSymbols) | flag('E', fz::kEscapeSpaces) |
                           flag('N', fz::kWholeNewlines) | (drop_spaces ? fz::kDropSpaces : 0u) |
                           (v.model == "hybriddna" ? fz::kDna : 0u);
  Vocab with_bos = v;
  if (pre.has('A')) with_bos.add_bos = true;
  meta.flags = flags_of(with_bos, defaults, r, out) & ~static_cast<std::uint32_t>(fz::kAddSpacePrefix);
  BlobWriter blob;
  add_pieces(parts.pieces, parts.order, r, meta, blob, out);
  blob.add(fz::kMerges, parts.merges);
  blob.add(fz::kBytes, parts.byte_ids.data(), sizeof parts.byte_ids);
  add_words(pre, blob);
  if (text && parts.pieces_cover_merges) blob.add(fz::kPairs, build_pairs(parts.pieces));
  if (drop_spaces) {
    Paged<std::uint32_t> normal = build_normal(v.lowercase.value_or(v.pre != "whitespace"), false, false);
    blob.add(fz::kNormal32, normal.entries);
    blob.add(fz::kNormalPages, normal.pages);
  }
  finish(blob, meta, fz::Kind::kBpe, v, out);
}

void freeze_none(std::int64_t n_vocab, FrozenVocab& out) {
  out.blob = BlobWriter().finish(fz::Kind::kNone, static_cast<std::uint32_t>(n_vocab));
}

struct KindRow {
  std::string_view model;  // tokenizer.ggml.model
  void (*freeze)(const Vocab&, const FreezeOptions&, FrozenVocab&);
};
constexpr KindRow kKinds[] = {
    {"llama", freeze_spm},      {"gpt2", freeze_bpe},      {"gemma4", freeze_bpe},
    {"whitespace", freeze_bpe}, {"hybriddna", freeze_bpe}, {"bert", freeze_wpm},
    {"t5", freeze_ugm},         {"rwkv", freeze_rwkv},     {"plamo2", freeze_plamo2},
};

std::string kind_names() {
  std::vector<std::string_view> names;
  for (const KindRow& row : kKinds) names.push_back(row.model);
  return join(names, ", ");
}

}  // namespace

FrozenVocab freeze(const Vocab& vocab, const FreezeOptions& options) {
  FrozenVocab out;
  std::int64_t rows = options.n_vocab ? options.n_vocab : vocab.n_vocab();
  if (rows < 0 || rows >= std::numeric_limits<std::int32_t>::max())
    throw_user("a vocabulary of ", rows, " tokens: expected fewer than 2^31 - 1");
  if (options.no_tokenizer) {
    freeze_none(rows, out);
    return out;
  }
  const std::string_view model = vocab.model;
  if (model.empty() || model == "none" || model == "no_vocab" || model == "test") {
    out.warnings.push_back(
        cat(model.empty() ? "the file has no tokenizer" : cat("the file's tokenizer is '", model, "'"),
            ": the program runs by token ids"));
    freeze_none(rows, out);
    return out;
  }
  if (vocab.tokens.empty())
    throw_user("tokenizer.ggml.model is ", quote(model), " but tokenizer.ggml.tokens is missing");
  if (rows != vocab.n_vocab())
    throw_user("tokenizer.ggml.tokens: ", vocab.n_vocab(), " tokens, but the model's embedding has ", rows,
               " rows");
  if (!vocab.scores.empty() && vocab.scores.size() != vocab.tokens.size())
    throw_user("tokenizer.ggml.scores: ", vocab.scores.size(), " scores for ", vocab.tokens.size(),
               " tokens");
  if (!vocab.types.empty() && vocab.types.size() != vocab.tokens.size())
    throw_user("tokenizer.ggml.token_type: ", vocab.types.size(), " types for ", vocab.tokens.size(),
               " tokens");
  for (const KindRow& row : kKinds) {
    if (row.model != model) continue;
    row.freeze(vocab, options, out);
    return out;
  }
  throw_unsupported("tokenizer ", quote(model), " (tokenizer.ggml.model): what can be built in are ",
                    kind_names(), "; with --no-tokenizer the program runs by token ids");
}

}  // namespace gc::text
