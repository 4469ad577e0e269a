// The frozen blob: what is kept, what is refused, and that damage never reads outside it.
#include "compiler/text/freeze.h"

#include <cstring>
#include <random>
#include <string>

#include "compiler/base/error.h"
#include "compiler/text/byte_spelling.h"
#include "compiler/text/test_vocab.h"
#include "gtest/gtest.h"
#include "runtime/text/tokenizer.h"

namespace gc::text {
namespace {

namespace fz = gcrt::frozen;

fz::View open(FrozenVocab&& f) = delete;  // a view needs its bytes
fz::View open(const FrozenVocab& f) {
  fz::View v;
  EXPECT_EQ(v.open({f.blob.data(), f.blob.size()}), gcrt::kOk);
  return v;
}

std::string error_of(const Vocab& v, const FreezeOptions& o = {}) {
  try {
    freeze(v, o);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Freeze, KeepsWhatTheFileSays) {
  TestVocab t;
  t.add("hello", -3);
  FrozenVocab f = freeze(t.vocab, {});
  EXPECT_TRUE(f.has_tokenizer);
  EXPECT_TRUE(f.warnings.empty());
  fz::View v = open(f);
  EXPECT_EQ(v.kind(), fz::Kind::kSpm);
  EXPECT_EQ(v.n_vocab(), 260u);
  EXPECT_TRUE(v.piece(259) == gcrt::Str("hello"));
  EXPECT_EQ(v.score(259), -3);
  EXPECT_EQ(v.find("hello"), 259);
  EXPECT_EQ(v.find("hell"), -1);
  EXPECT_EQ(v.find(""), -1);
  EXPECT_EQ(v.byte_token('A'), TestVocab::kByte0 + 'A');
  EXPECT_EQ(v.meta().bos, 1);
  EXPECT_EQ(v.meta().newline, TestVocab::kByte0 + '\n');
  EXPECT_TRUE(v.has(fz::kAddBos));
  EXPECT_FALSE(v.has(fz::kAddEos));
  EXPECT_TRUE(v.is_eog(2));
  EXPECT_FALSE(v.is_eog(1));
  EXPECT_TRUE(v.piece(260).empty());
  EXPECT_TRUE(v.piece(-1).empty());
}

TEST(Freeze, SameInputSameBytes) {
  TestVocab a, b;
  EXPECT_EQ(freeze(a.vocab, {}).blob, freeze(b.vocab, {}).blob);
}

TEST(Freeze, DuplicatesGoToTheLowestId) {
  TestVocab t;
  std::int32_t first = t.add("a", -1), second = t.add("a", -2);
  FrozenVocab f = freeze(t.vocab, {});
  ASSERT_EQ(f.warnings.size(), 1u);
  EXPECT_NE(f.warnings[0].find("260"), std::string::npos);
  fz::View v = open(f);
  EXPECT_EQ(v.find("a"), first);
  EXPECT_TRUE(v.piece(second) == gcrt::Str("a"));
  EXPECT_EQ(v.meta().n_distinct, 260u);
  EXPECT_EQ(v.deep_check(), gcrt::kOk);
}

// A turn of chat ends with a piece that the file names nowhere.
TEST(Freeze, FindsTheEndsOfGeneration) {
  TestVocab t;
  std::int32_t end = t.add("<end_of_turn>", 0, TokenType::kControl);
  std::int32_t eos = t.add("<eos>", 0, TokenType::kUserDefined);
  std::int32_t html = t.add("<b>", 0, TokenType::kUserDefined);
  FrozenVocab v_blob = freeze(t.vocab, {});
  fz::View v = open(v_blob);
  EXPECT_TRUE(v.is_eog(end));
  EXPECT_TRUE(v.is_eog(eos));
  EXPECT_FALSE(v.is_eog(html));
  EXPECT_EQ(v.meta().eot, end);
  EXPECT_TRUE(v.attr(eos) & fz::kControl);
  EXPECT_FALSE(v.attr(html) & fz::kControl);
}

TEST(Freeze, MessageEndsAreNotAnswerEnds) {
  TestVocab t;
  std::int32_t end = t.add("<|end|>", 0, TokenType::kControl);
  std::int32_t ret = t.add("<|return|>", 0, TokenType::kControl);
  FrozenVocab before_blob = freeze(t.vocab, {});
  fz::View before = open(before_blob);
  EXPECT_TRUE(before.is_eog(end));
  t.add("<|call|>", 0, TokenType::kControl);
  FrozenVocab v_blob = freeze(t.vocab, {});
  fz::View v = open(v_blob);
  EXPECT_FALSE(v.is_eog(end));
  EXPECT_TRUE(v.is_eog(ret));
}

TEST(Freeze, MalformedByteTokensAreText) {
  TestVocab t(false);
  std::int32_t bad = t.add("<0x-1>", 0, TokenType::kByte);
  std::int32_t worse = t.add("<0xZZ>", 0, TokenType::kByte);
  std::int32_t good = t.add("<0x41>", 0, TokenType::kByte);
  FrozenVocab f = freeze(t.vocab, {});
  gcrt::Tokenizer k;
  ASSERT_EQ(k.open({f.blob.data(), f.blob.size()}), gcrt::kOk);
  gcrt::Vec<char> out;
  for (std::int32_t id : {bad, worse, good}) EXPECT_EQ(k.append_piece(id, false, out), gcrt::kOk);
  EXPECT_TRUE(gcrt::str(out) == gcrt::Str("<0x-1><0xZZ>A"));
  EXPECT_EQ(k.view().byte_token('A'), good);
  EXPECT_EQ(k.view().byte_token('B'), -1);
}

TEST(Freeze, FilesWithoutATokenizer) {
  for (std::string_view model : {"", "none", "test", "no_vocab"}) {
    Vocab v;
    v.model = model;
    FreezeOptions o;
    o.n_vocab = 1000;
    FrozenVocab f = freeze(v, o);
    EXPECT_FALSE(f.has_tokenizer);
    EXPECT_EQ(f.warnings.size(), 1u);
    EXPECT_EQ(open(f).n_vocab(), 1000u);
  }
}

TEST(Freeze, RefusesByName) {
  TestVocab t;
  t.vocab.model = "nosuch";
  EXPECT_NE(error_of(t.vocab).find("nosuch"), std::string::npos);
  FreezeOptions without;
  without.no_tokenizer = true;
  EXPECT_EQ(error_of(t.vocab, without), "");
  t.vocab.model = "llama";
  FreezeOptions rows;
  rows.n_vocab = 260;
  EXPECT_NE(error_of(t.vocab, rows).find("259 tokens"), std::string::npos);
  t.vocab.scores.pop_back();
  EXPECT_NE(error_of(t.vocab).find("tokenizer.ggml.scores"), std::string::npos);
  Vocab empty;
  empty.model = "llama";
  EXPECT_NE(error_of(empty).find("tokenizer.ggml.tokens"), std::string::npos);
}

TEST(Freeze, BpeIsStoredAsBytes) {
  EXPECT_EQ(unspell_bytes("\u0120a"), " a");
  EXPECT_EQ(unspell_bytes("\u010A"), "\n");
  EXPECT_EQ(unspell_bytes("\u00e9"), "\xE9");
  EXPECT_EQ(unspell_bytes("\u0143"), "\xAD");
  EXPECT_FALSE(unspell_bytes(" "));
  EXPECT_FALSE(unspell_bytes("\u0144"));
  EXPECT_FALSE(unspell_bytes("\xC3"));
  Vocab v;
  v.model = "gpt2", v.pre = "smollm";
  v.tokens = {"<|x|>", "a", "\u0120", "\u0120a"};
  v.types = {TokenType::kControl, TokenType::kNormal, TokenType::kNormal, TokenType::kNormal};
  v.merges = {"\u0120 a", "q r"};
  FrozenVocab f = freeze(v, {});
  fz::View view = open(f);
  EXPECT_EQ(view.deep_check(), gcrt::kOk);
  EXPECT_EQ(view.find(" a"), 3);
  EXPECT_EQ(view.byte_token(' '), 2);
  EXPECT_EQ(view.byte_token('q'), -1);
  ASSERT_TRUE(view.find_merge(2, 1));
  EXPECT_EQ(view.find_merge(2, 1)->result, 3);
  EXPECT_FALSE(view.find_merge(1, 2));
  EXPECT_FALSE(view.has(fz::kAddBos));
  v.merges = {"broken"};
  EXPECT_NE(error_of(v).find("tokenizer.ggml.merges[0]"), std::string::npos);
  v.merges.clear();
  EXPECT_NE(error_of(v).find("tokenizer.ggml.merges"), std::string::npos);
  v.merges = {"\u0120 a"};
  v.pre = "nosuch";
  EXPECT_NE(error_of(v).find("'nosuch'"), std::string::npos);
}

TEST(Freeze, DamageNeverReadsOutside) {
  TestVocab t;
  for (char c = 'a'; c <= 'z'; ++c) t.add(std::string("\u2581") + c, -1);
  t.add("<x>", 0, TokenType::kUserDefined);
  FrozenVocab f = freeze(t.vocab, {});
  std::mt19937 rng(5);
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::uint8_t> blob = f.blob;
    std::size_t where = round % 2 ? rng() % 512 : rng() % blob.size();
    blob[where] = static_cast<std::uint8_t>(rng());
    if (round % 3 == 0) blob.resize(rng() % blob.size());
    blob.shrink_to_fit();
    gcrt::Tokenizer k;
    if (blob.empty() || k.open({blob.data(), blob.size()}) != gcrt::kOk) continue;
    (void)k.view().deep_check();
    gcrt::Vec<std::int32_t> ids;
    gcrt::Vec<char> out;
    (void)k.encode("a quick <x> brown \xFF fox<s>", {true, true, {}}, ids);
    (void)k.decode(ids.span(), {true, true}, out);
  }
}

}  // namespace
}  // namespace gc::text
