// What a model file says about its tokenizer, as plain data: filled by frontends/gguf/vocab, frozen into the
// executable by compiler/text, which knows nothing of GGUF. Views point into the mapped file, which outlives
// this.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace gc::text {

enum class TokenType : std::uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

struct NamedTemplate {
  std::string_view name;
  std::string_view text;
};

struct Vocab {
  std::string_view
      model;             // "llama" (SentencePiece), "gpt2" (BPE), "bert", "t5", ...; empty: the file has none
  std::string_view pre;  // name of the pre-tokenizer, empty when the file has none

  // Index = token id.
  std::vector<std::string_view> tokens;  // [n_vocab] any bytes, duplicates possible
  std::vector<float> scores;             // [n_vocab] finite, or empty
  std::vector<TokenType> types;          // [n_vocab], or empty (all normal)
  std::vector<std::string_view> merges;  // "left right" by falling priority

  // Special ids, each within [0, n_vocab) or -1.
  std::int32_t bos = -1;
  std::int32_t eos = -1;
  std::int32_t eot = -1;
  std::int32_t eom = -1;
  std::int32_t unk = -1;
  std::int32_t sep = -1;
  std::int32_t pad = -1;
  std::int32_t cls = -1;
  std::int32_t mask = -1;
  std::int32_t fim_pre = -1;
  std::int32_t fim_suf = -1;
  std::int32_t fim_mid = -1;
  std::int32_t fim_pad = -1;
  std::int32_t fim_rep = -1;
  std::int32_t fim_sep = -1;

  // Absent: the tokenizer's kind decides.
  std::optional<bool> add_bos;
  std::optional<bool> add_eos;
  std::optional<bool> add_sep;
  std::optional<bool> add_space_prefix;
  std::optional<bool> remove_extra_whitespaces;
  std::optional<bool> lowercase;      // normalisation of "bert"
  std::optional<bool> strip_accents;  // the same

  std::vector<std::int32_t> suppress;  // ids never to be sampled, each within [0, n_vocab)

  std::span<const std::uint8_t> precompiled_charsmap;  // SentencePiece's normalisation, empty when absent

  std::string_view chat_template;  // the default one, empty when absent
  std::vector<NamedTemplate> named_templates;

  bool has_tokenizer() const { return !tokens.empty(); }
  std::int64_t n_vocab() const { return static_cast<std::int64_t>(tokens.size()); }
};

}  // namespace gc::text
