#include "frontends/gguf/vocab.h"

#include <gtest/gtest.h>

#include <cmath>

#include "frontends/gguf/test_files.h"

namespace gc::gguf {
namespace {

using text::TokenType;
using text::Vocab;

GgufWriter base() {
  GgufWriter w("llama");
  w.str("tokenizer.ggml.model", "llama").str("tokenizer.ggml.pre", "default");
  w.array<std::string>("tokenizer.ggml.tokens", GgufWriter::kString,
                       {"<unk>", "<s>", "</s>", "<0x0A>", "a", "a"});
  w.array<float>("tokenizer.ggml.scores", GgufWriter::kF32, {0, 0, 0, 0, -1, -2});
  w.array<int>("tokenizer.ggml.token_type", GgufWriter::kI32, {2, 3, 3, 6, 1, 0});
  w.u32("tokenizer.ggml.bos_token_id", 1).u32("tokenizer.ggml.eos_token_id", 2);
  return w;
}

class VocabTest : public ::testing::Test {
 protected:
  const Vocab& read(const GgufWriter& w) {
    file_.emplace(File::open(folder_.write("m.gguf", w.bytes())));
    warnings_.clear();
    vocab_ = read_vocab(*file_, &warnings_);
    return vocab_;
  }
  std::string error(const GgufWriter& w) {
    return error_of([&] { read(w); });
  }

  Folder folder_;
  std::optional<File> file_;  // the views of vocab_ point into it
  std::vector<std::string> warnings_;
  Vocab vocab_;
};

TEST_F(VocabTest, ReadsEverything) {
  GgufWriter w = base();
  w.array<std::string>("tokenizer.ggml.merges", GgufWriter::kString, {"a a", " b c"});
  w.boolean("tokenizer.ggml.add_bos_token", true).boolean("tokenizer.ggml.add_space_prefix", false);
  w.i32("tokenizer.ggml.padding_token_id", -1).u32("tokenizer.ggml.unknown_token_id", 0xffffffff);
  w.u32("tokenizer.ggml.prefix_token_id", 4).u32("tokenizer.ggml.suffix_token_id", 4);
  w.u32("tokenizer.ggml.fim_suf_token_id", 5);
  w.str("tokenizer.chat_template", "{{ x }}").str("tokenizer.chat_template.tool_use", "{{ y }}");
  w.array<std::string>("tokenizer.chat_templates", GgufWriter::kString, {"tool_use"});
  w.array<int>("tokenizer.ggml.suppress_tokens", GgufWriter::kI32, {4, 99, -1});
  const Vocab& v = read(w);
  EXPECT_TRUE(v.has_tokenizer());
  EXPECT_EQ(v.model, "llama");
  EXPECT_EQ(v.pre, "default");
  EXPECT_EQ(v.n_vocab(), 6);
  EXPECT_EQ(v.tokens[3], "<0x0A>");
  EXPECT_EQ(v.scores[5], -2.0f);
  EXPECT_EQ(v.types, (std::vector<TokenType>{TokenType::kUnknown, TokenType::kControl, TokenType::kControl,
                                             TokenType::kByte, TokenType::kNormal, TokenType::kUnused}));
  EXPECT_EQ(v.merges.size(), 2u);
  EXPECT_EQ(v.bos, 1);
  EXPECT_EQ(v.eos, 2);
  EXPECT_EQ(v.pad, -1);
  EXPECT_EQ(v.unk, -1);
  EXPECT_EQ(v.fim_pre, 4);
  EXPECT_EQ(v.fim_suf, 5);
  EXPECT_EQ(v.add_bos, true);
  EXPECT_EQ(v.add_space_prefix, false);
  EXPECT_EQ(v.add_eos, std::nullopt);
  EXPECT_EQ(v.chat_template, "{{ x }}");
  ASSERT_EQ(v.named_templates.size(), 1u);
  EXPECT_EQ(v.named_templates[0].text, "{{ y }}");
  EXPECT_EQ(v.suppress, (std::vector<std::int32_t>{4}));
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(VocabTest, NoTokenizerIsNoFault) {
  EXPECT_FALSE(read(GgufWriter("llama")).has_tokenizer());
  for (const char* none : {"none", "no_vocab", "test"}) {
    GgufWriter w("llama");
    w.str("tokenizer.ggml.model", none).u32("tokenizer.ggml.bos_token_id", 7);
    EXPECT_FALSE(read(w).has_tokenizer());
  }
}

TEST_F(VocabTest, TokensAreNeeded) {
  EXPECT_TRUE(has(error(base().erase("tokenizer.ggml.tokens")),
                  "m.gguf: key 'tokenizer.ggml.tokens': is missing; the tokenizer 'llama' needs it"));
  GgufWriter w("llama");
  w.str("tokenizer.ggml.model", "llama").array<std::string>("tokenizer.ggml.tokens", GgufWriter::kString, {});
  EXPECT_TRUE(has(error(w), "'tokenizer.ggml.tokens': is empty"));
  EXPECT_TRUE(has(error(base().array<int>("tokenizer.ggml.tokens", GgufWriter::kI32, {1})),
                  "expected an array of strings, found array of 1 i32"));
}

TEST_F(VocabTest, OneScoreAndTypeForEachToken) {
  EXPECT_TRUE(has(error(base().array<float>("tokenizer.ggml.scores", GgufWriter::kF32, {1})),
                  "key 'tokenizer.ggml.scores': has 1 values; expected 6, one for each token"));
  EXPECT_TRUE(has(error(base().array<float>("tokenizer.ggml.scores", GgufWriter::kF32, {0, 0, 0, 0, 0, NAN})),
                  "key 'tokenizer.ggml.scores': expected a finite number, found f32 nan at index 5"));
  EXPECT_TRUE(has(error(base().array<int>("tokenizer.ggml.token_type", GgufWriter::kI32, {1, 1})),
                  "key 'tokenizer.ggml.token_type': has 2 values"));
  EXPECT_TRUE(has(error(base().array<int>("tokenizer.ggml.token_type", GgufWriter::kI32, {1, 1, 1, 1, 1, 7})),
                  "key 'tokenizer.ggml.token_type': 7 at index 5; expected 0 to 6"));
}

TEST_F(VocabTest, ByteTokensHaveTwoHexDigits) {
  for (const char* bad : {"<0x-1>", "<0xZZ>", "<0x0g>", "<0x1>", "<0x100>", "<0X0A>", "0x0A", ""}) {
    GgufWriter w = base();
    w.array<std::string>("tokenizer.ggml.tokens", GgufWriter::kString,
                         {"<unk>", "<s>", "</s>", bad, "a", "b"});
    EXPECT_TRUE(has(error(w), cat("token 3 has the type of a byte and is ", quote(bad))));
  }
}

TEST_F(VocabTest, MergesHaveTwoParts) {
  for (const char* bad : {"ab", "", " ", "a ", " a"}) {
    EXPECT_TRUE(
        has(error(base().array<std::string>("tokenizer.ggml.merges", GgufWriter::kString, {"a b", bad})),
            cat("key 'tokenizer.ggml.merges': ", quote(bad), " at index 1; expected two parts")));
  }
}

TEST_F(VocabTest, IdsOutsideAreIgnoredWithAWarning) {
  EXPECT_EQ(read(base().u32("tokenizer.ggml.padding_token_id", 6)).pad, -1);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_TRUE(has(warnings_[0],
                  "key 'tokenizer.ggml.padding_token_id': token 6 is outside the vocabulary of 6; ignored"));
  EXPECT_TRUE(
      has(error(base().str("tokenizer.ggml.bos_token_id", "x")), "expected a token id, found string 'x'"));
}

TEST_F(VocabTest, NamedTemplatesThatAreMissing) {
  read(base().array<std::string>("tokenizer.chat_templates", GgufWriter::kString, {"rag"}));
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_TRUE(has(warnings_[0], "names 'rag'"));
}

// ---- Character maps

constexpr std::uint32_t kLeaf = 1 << 8, kValue = 1u << 31;
std::uint32_t unit(std::uint32_t label, std::uint32_t offset, bool leaf) {
  return label | offset << 10 | (leaf ? kLeaf : 0);
}

// A trie that replaces "a" by "b": the root's children are counted from unit 0.
std::vector<std::uint32_t> trie_a() {
  std::vector<std::uint32_t> units(256);
  units[0] = unit(0, 0, false);
  units['a'] = unit('a', 'a' ^ 5, true);  // its value in unit 5
  units[5] = kValue | 0;
  return units;
}

FileBytes map_of(const std::vector<std::uint32_t>& units, std::string_view replacements) {
  const auto length = static_cast<std::uint32_t>(units.size() * 4);
  FileBytes out(4 + length);
  std::memcpy(out.data(), &length, 4);
  std::memcpy(out.data() + 4, units.data(), length);
  out.insert(out.end(), replacements.begin(), replacements.end());
  return out;
}

class CharsmapTest : public VocabTest {
 protected:
  std::string map_error(const FileBytes& map) {
    GgufWriter w = base();
    w.array<std::uint8_t>("tokenizer.ggml.precompiled_charsmap", GgufWriter::kU8, map);
    return error(w);
  }
};

constexpr std::string_view kB("b\0", 2);

TEST_F(CharsmapTest, AGoodMapIsKept) {
  const FileBytes map = map_of(trie_a(), kB);
  EXPECT_EQ(map_error(map), "no error");
  EXPECT_EQ(vocab_.precompiled_charsmap.size(), map.size());
  EXPECT_EQ(map_error({}), "no error");
}

TEST_F(CharsmapTest, LengthsAreChecked) {
  EXPECT_TRUE(
      has(map_error({1, 2}), "'tokenizer.ggml.precompiled_charsmap': has 2 bytes; expected at least 4"));
  EXPECT_TRUE(
      has(map_error({0xfc, 0xff, 0xff, 0xff, 0, 0, 0, 0}), "says that its trie has 4294967292 bytes"));
  EXPECT_TRUE(has(map_error({3, 0, 0, 0, 0, 0, 0, 0}), "says that its trie has 3 bytes"));
  EXPECT_TRUE(has(map_error({4, 0, 0, 0, 0, 0, 0, 0}), "says that its trie has 4 bytes"));
  EXPECT_TRUE(has(map_error({0, 0, 0, 0, 0}), "the trie is empty"));
  EXPECT_TRUE(has(map_error(map_of(trie_a(), "b")), "its last replacement does not end"));
}

TEST_F(CharsmapTest, EveryStepStaysInside) {
  std::vector<std::uint32_t> units = trie_a();
  units[0] = unit(0, 512, false);
  EXPECT_TRUE(has(map_error(map_of(units, kB)), "unit 0 of the trie leads to 512, past its 256 units"));
  units = trie_a();
  units['a'] = unit('a', 300, false);
  EXPECT_TRUE(has(map_error(map_of(units, kB)), "unit 97 of the trie leads to"));
  units = trie_a();
  units[5] = kValue | 2;
  EXPECT_TRUE(has(map_error(map_of(units, kB)), "the replacement at byte 2 is past the 2 bytes"));
  // A loop ends the check, not the program.
  units = trie_a();
  units['c'] = unit('c', 'c', false);
  EXPECT_EQ(map_error(map_of(units, kB)), "no error");
}

TEST_F(CharsmapTest, OnlyBytes) {
  EXPECT_TRUE(has(error(base().array<int>("tokenizer.ggml.precompiled_charsmap", GgufWriter::kI32, {1})),
                  "expected an array of bytes, found array of 1 i32"));
}

}  // namespace
}  // namespace gc::gguf
