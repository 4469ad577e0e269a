// The kinds of tokenizers that walk a trie, and BPE over characters: cases by hand, twins that try everything on
// random vocabularies, and damage that never reads outside.
#include <algorithm>
#include <cstring>
#include <ctime>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/base/error.h"
#include "compiler/text/freeze.h"
#include "compiler/text/test_vocab.h"
#include "gtest/gtest.h"
#include "runtime/text/pair.h"
#include "runtime/text/tokenizer.h"

namespace gc::text {
namespace {

using Ids = std::vector<std::int32_t>;

struct Opened {
  explicit Opened(const Vocab& v) : frozen(freeze(v, {})) {
    EXPECT_EQ(tokenizer.open({frozen.blob.data(), frozen.blob.size()}), gcrt::kOk);
    EXPECT_EQ(tokenizer.view().deep_check(), gcrt::kOk);
  }
  Ids encode(std::string_view text, bool add = false, bool parse = false) const {
    gcrt::Vec<std::int32_t> out;
    EXPECT_EQ(tokenizer.encode({text.data(), text.size()}, {add, parse, {}}, out), gcrt::kOk);
    return Ids(out.begin(), out.end());
  }
  std::string decode(const Ids& ids) const {
    gcrt::Vec<char> out;
    EXPECT_EQ(tokenizer.decode({ids.data(), ids.size()}, {true, true}, out), gcrt::kOk);
    return std::string(out.begin(), out.end());
  }
  FrozenVocab frozen;
  gcrt::Tokenizer tokenizer;
};

TestVocab wordpiece() {
  TestVocab t(false);
  t.vocab.model = "bert";
  t.vocab.bos = 1, t.vocab.sep = 2, t.vocab.unk = 0, t.vocab.eos = -1, t.vocab.pad = -1, t.vocab.mask = -1;
  return t;
}

TEST(WordPiece, LongestPiecesOfEachWord) {
  TestVocab t = wordpiece();
  std::int32_t un = t.add("▁un", 0), able = t.add("able", 0), aff = t.add("aff", 0), comma = t.add("▁,", 0),
               una = t.add("▁una", 0), e = t.add("▁e", 0), kan = t.add("▁漢", 0);
  Opened k(t.vocab);
  EXPECT_EQ(k.encode("unaffable"), (Ids{0}));  // "una" is taken, and "ffable" is nothing
  EXPECT_EQ(k.encode("unable"), (Ids{0}));
  EXPECT_EQ(k.encode("UN , una"), (Ids{un, comma, una}));
  EXPECT_EQ(k.encode("un,un"), (Ids{un, comma, un}));
  EXPECT_EQ(k.encode("É e\u0301"), (Ids{e, e}));  // accents and case are gone
  EXPECT_EQ(k.encode("漢漢"), (Ids{kan, kan}));
  EXPECT_EQ(k.encode("unun"), (Ids{0}));
  EXPECT_EQ(k.encode("un", true), (Ids{1, un, 2}));
  EXPECT_EQ(k.encode(" \n\x01\xFF "), Ids());
  (void)able, (void)aff;
  t.vocab.lowercase = false;
  Opened cased(t.vocab);
  EXPECT_EQ(cased.encode("UN un"), (Ids{0, un}));
}

Ids pair(const Opened& k, std::string_view query, std::string_view document) {
  gcrt::Vec<std::int32_t> out;
  EXPECT_EQ(
      gcrt::encode_pair(k.tokenizer, {query.data(), query.size()}, {document.data(), document.size()}, out),
      gcrt::kOk);
  return Ids(out.begin(), out.end());
}

TEST(WordPiece, PairsOfTexts) {
  TestVocab t = wordpiece();
  std::int32_t un = t.add("▁un", 0), e = t.add("▁e", 0);
  Opened k(t.vocab);
  EXPECT_EQ(pair(k, "un", "e un"), (Ids{1, un, 2, e, un, 2}));
  EXPECT_EQ(pair(k, "", "e"), (Ids{1, 2, e, 2}));
}

TestVocab unigram() {
  TestVocab t(false);
  t.vocab.model = "t5";
  t.vocab.unk = 0, t.vocab.bos = -1, t.vocab.eos = 2;
  t.vocab.add_space_prefix = true;
  return t;
}

TEST(Unigram, TheBestSumWins) {
  TestVocab t = unigram();
  std::int32_t sp = t.add("▁", -2), a = t.add("a", -3), b = t.add("b", -3), ab = t.add("ab", -4),
               sab = t.add("▁ab", -8);
  Opened k(t.vocab);
  EXPECT_EQ(k.encode("ab"), (Ids{sp, ab}));  // -6, not -8
  EXPECT_EQ(k.encode("ba", true), (Ids{sp, b, a, 2}));
  EXPECT_EQ(k.encode("aééb"), (Ids{sp, a, 0, b}));  // unknowns are one
  EXPECT_EQ(k.encode(""), Ids());
  EXPECT_EQ(k.decode({sp, ab}), "ab");
  (void)sab;
  t.vocab.remove_extra_whitespaces = true;
  Opened merged(t.vocab);
  EXPECT_EQ(merged.encode("  a   b "), (Ids{sp, a, sp, b}));
}

TEST(Unigram, PairsOfTexts) {
  TestVocab t = unigram();
  t.vocab.bos = 1, t.vocab.sep = 2;
  t.vocab.add_bos = t.vocab.add_sep = true;
  t.add("▁", -2);
  std::int32_t a = t.add("▁a", -1), b = t.add("▁b", -1);
  Opened k(t.vocab);
  EXPECT_EQ(pair(k, "a", "b"), (Ids{1, a, 2, 2, b, 2}));  // as RoBERTa's
}

// A map with one prefix: "x" becomes "ab". Units: root, its child "x" with a value, the value.
std::vector<std::uint8_t> tiny_map() {
  std::vector<std::uint32_t> units(256);
  units[0] = 1u << 10;                        // base 1
  units[1 ^ 'x'] = 'x' | 0x100 | (2u << 10);  // base 2
  units[1 ^ 'x' ^ 2] = 0x80000000u | 1;       // offset 1
  std::vector<std::uint8_t> blob(4 + units.size() * 4);
  std::uint32_t bytes = static_cast<std::uint32_t>(units.size() * 4);
  std::memcpy(blob.data(), &bytes, 4);
  std::memcpy(blob.data() + 4, units.data(), bytes);
  for (char c : {'\0', 'a', 'b', '\0'}) blob.push_back(static_cast<std::uint8_t>(c));
  return blob;
}

TEST(Unigram, TheCharacterMapComesFirst) {
  TestVocab t = unigram();
  t.vocab.add_space_prefix = false;
  std::int32_t a = t.add("a", -3), b = t.add("b", -3), replacement = t.add("\uFFFD", -1);
  std::vector<std::uint8_t> map = tiny_map();
  t.vocab.precompiled_charsmap = map;
  Opened k(t.vocab);
  EXPECT_EQ(k.encode("axb"), (Ids{a, a, b, b}));
  EXPECT_EQ(k.encode("a\xFF"), (Ids{a, replacement}));
}

// All ways to cut, best sum.
double best_sum(const std::map<std::string, double>& scores, const std::string& s, std::size_t at,
                std::map<std::size_t, double>& memo) {
  if (at == s.size()) return 0;
  if (auto it = memo.find(at); it != memo.end()) return it->second;
  double best = -1e300;
  for (std::size_t n = 1; at + n <= s.size(); ++n)
    if (auto it = scores.find(s.substr(at, n)); it != scores.end())
      best = std::max(best, it->second + best_sum(scores, s, at + n, memo));
  return memo[at] = best;
}

TEST(Unigram, AgreesWithTheTwinThatTriesAll) {
  std::mt19937 rng(4);
  for (std::string_view model : {"t5", "plamo2"})
    for (int round = 0; round < 30; ++round) {
      TestVocab t(model == "plamo2");
      t.vocab.model = model;
      std::map<std::string, double> scores;
      auto add = [&](const std::string& s) {
        float score = -static_cast<float>(rng() % 800) / 100;
        if (scores.emplace(s, score).second) t.add(s, score);
      };
      for (const char* s : {"a", "b", "c"}) add(s);
      for (int i = 0; i < 20; ++i) {
        std::string s(2 + rng() % 4, 0);
        for (char& c : s) c = static_cast<char>('a' + rng() % 3);
        add(s);
      }
      Opened k(t.vocab);
      for (int i = 0; i < 40; ++i) {
        std::string text(1 + rng() % 25, 0), joined;
        for (char& c : text) c = static_cast<char>('a' + rng() % 3);
        double sum = 0;
        for (std::int32_t id : k.encode(text)) {
          std::string piece(t.vocab.tokens[static_cast<std::size_t>(id)]);
          joined += piece;
          sum += scores.at(piece);
        }
        std::map<std::size_t, double> memo;
        ASSERT_EQ(joined, text);
        ASSERT_NEAR(sum, best_sum(scores, text, 0, memo), 1e-3) << text;
      }
    }
}

TEST(Plamo2, UnknownCharactersAreBytes) {
  TestVocab t;
  t.vocab.model = "plamo2";
  std::int32_t ab = t.add("ab", -1);
  Opened k(t.vocab);
  EXPECT_EQ(k.encode("\xEF\xBB\xBF"
                     "ab"),
            (Ids{ab}));
  EXPECT_EQ(k.encode("aé\xFF"), (Ids{3 + 'a', 3 + 0xC3, 3 + 0xA9, 3 + 0xFF}));
  EXPECT_EQ(k.decode(k.encode("xaby漢\xE2\x28")), "xaby漢\xE2\x28");
}

TEST(Rwkv, LongestPiecesOfBytes) {
  TestVocab t(false);
  t.vocab.model = "rwkv";
  t.vocab.bos = t.vocab.eos = -1;
  std::int32_t a = t.add("a", 0), ab = t.add("ab", 0), abc = t.add("abcd", 0), nl = t.add("\\n", 0),
               hex = t.add("\\xe6\\xbc", 0), slash = t.add("\\\\", 0);
  Opened k(t.vocab);
  EXPECT_EQ(k.encode("abcabcd"), (Ids{ab, 0, abc}));
  EXPECT_EQ(k.encode("a\n\xE6\xBC\\"), (Ids{a, nl, hex, slash}));
  EXPECT_EQ(k.decode({a, nl, hex, slash}), "a\n\xE6\xBC\\");
  EXPECT_EQ(k.tokenizer.meta().newline, nl);
}

TEST(CharacterBpe, SpacesAndLineEnds) {
  TestVocab t;
  t.vocab.model = "gemma4";
  t.vocab.scores.clear();
  auto add = [&t](const char* s) { return t.add(s, 0); };
  std::int32_t sp = add("▁"), a = add("a"), b = add("b"), sa = add("▁a"), ab = add("ab"), nl = add("\n"),
               nl2 = add("\n\n");
  t.vocab.scores.clear();
  t.vocab.merges = {"▁ a", "a b"};
  Opened k(t.vocab);
  EXPECT_EQ(k.encode(" ab ab"), (Ids{sa, b, sa, b}));
  EXPECT_EQ(k.encode("ab\n\nb  "), (Ids{ab, nl2, b, sp, sp}));
  EXPECT_EQ(k.encode("a\n"), (Ids{a, nl}));
  EXPECT_EQ(k.encode("é", true), (Ids{1, 3 + 0xC3, 3 + 0xA9}));  // always with BOS
  EXPECT_EQ(k.decode(k.encode(" ab\n\né ")), " ab\n\né ");
}

TEST(CharacterBpe, WhiteSpaceDropped) {
  TestVocab t;
  t.vocab.model = "whitespace", t.vocab.pre = "whitespace";
  std::int32_t a = t.add("a", 0), b = t.add("b", 0), ab = t.add("ab", 0), big = t.add("A", 0);
  t.vocab.scores.clear();
  t.vocab.merges = {"a b"};
  EXPECT_EQ(Opened(t.vocab).encode(" ab  A b\n"), (Ids{ab, big, b}));
  t.vocab.lowercase = true;
  EXPECT_EQ(Opened(t.vocab).encode(" ab  A b\n"), (Ids{ab, a, b}));
}

TEST(Kinds, DamageNeverReadsOutside) {
  TestVocab wpm = wordpiece(), ugm = unigram(), rwkv(false), plamo, bpe;
  std::vector<std::uint8_t> map = tiny_map();
  ugm.vocab.precompiled_charsmap = map;
  rwkv.vocab.model = "rwkv", plamo.vocab.model = "plamo2", bpe.vocab.model = "gpt2", bpe.vocab.pre = "gpt-4o";
  for (TestVocab* t : {&wpm, &ugm, &rwkv, &plamo, &bpe})
    for (const char* s : {"▁a", "a", "b", "ab", "x", "quick", "▁quick", "\n"}) t->add(s, -1);
  bpe.vocab.merges = {"a b"};
  std::mt19937 rng(6);
  for (const TestVocab* t : {&wpm, &ugm, &rwkv, &plamo, &bpe}) {
    FrozenVocab f = freeze(t->vocab, {});
    for (int round = 0; round < 800; ++round) {
      std::vector<std::uint8_t> blob = f.blob;
      for (int i = 0; i < 3; ++i)
        blob[round % 2 ? rng() % 2048 % blob.size() : rng() % blob.size()] = static_cast<std::uint8_t>(rng());
      if (round % 5 == 0) blob.resize(rng() % blob.size());
      blob.shrink_to_fit();
      gcrt::Tokenizer k;
      if (blob.empty() || k.open({blob.data(), blob.size()}) != gcrt::kOk) continue;
      gcrt::Vec<std::int32_t> ids;
      gcrt::Vec<char> out;
      (void)k.encode("a quick x brown \xFF fox 漢字<s>\n\n 123", {true, true, {}}, ids);
      (void)k.decode(ids.span(), {true, true}, out);
    }
  }
}

// Seconds of this thread: neighbours on the machine don't count.
double seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Four times the text takes about four times as long, whatever it is.
TEST(Kinds, AMegabyteOfAnythingIsLinear) {
  TestVocab wpm = wordpiece(), ugm = unigram(), rwkv(false), plamo, bpe, gemma4, spm;
  rwkv.vocab.model = "rwkv", plamo.vocab.model = "plamo2", bpe.vocab.model = "gpt2",
  bpe.vocab.pre = "llama-bpe";
  gemma4.vocab.model = "gemma4";
  std::mt19937 rng(8);
  std::string random, letters;
  for (int i = 0; i < 1 << 20; ++i) {
    random += static_cast<char>(rng() % 256);
    letters += static_cast<char>('a' + rng() % 26);
  }
  for (TestVocab* t : {&wpm, &ugm, &rwkv, &plamo, &bpe, &gemma4, &spm}) {
    std::string run;
    for (int i = 1; i <= 16; ++i) t->add(run += 'a', -1 / static_cast<float>(i));
    for (const char* s : {"▁", " ", "b", "ab", "▁ab", "the", "\n", "é", "漢", "1", "11"}) t->add(s, -1);
  }
  // Two letters in three of random ones merge.
  std::deque<std::string> merges = {"a a", "aa aa", "aaaa aaaa", "a b", "1 1"};
  for (char l = 'c'; l <= 'z'; ++l)
    for (TestVocab* t : {&wpm, &ugm, &rwkv, &plamo, &bpe, &gemma4, &spm}) t->add(std::string(1, l), -1);
  for (int i = 0; i < 450; ++i) {
    std::string pair = {static_cast<char>('c' + rng() % 24), static_cast<char>('c' + rng() % 24)};
    merges.push_back(pair.substr(0, 1) + " " + pair.substr(1));
    for (TestVocab* t : {&wpm, &ugm, &rwkv, &plamo, &bpe, &gemma4, &spm})
      t->add(pair, -2 - static_cast<float>(i) / 1000);
  }
  bpe.vocab.merges.assign(merges.begin(), merges.end());
  gemma4.vocab.merges.assign(merges.begin(), merges.end());
  bpe.vocab.scores.clear(), gemma4.vocab.scores.clear();
  for (const TestVocab* t : {&wpm, &ugm, &rwkv, &plamo, &bpe, &gemma4, &spm}) {
    const Opened k(t->vocab);
    for (const std::string& unit :
         {std::string("a"), std::string("ab"), std::string(" "), std::string("\n"), std::string("1"),
          std::string("the quick ab, "), std::string("漢é"), letters, random}) {
      std::string text;
      while (text.size() < 1 << 20) text += unit;
      double quarter = 1e9, whole = 1e9;
      for (int again = 0; again < 5 && !(whole < 5 * quarter); ++again) {
        const double begin = seconds();
        k.encode(std::string_view(text).substr(0, text.size() / 4));
        const double middle = seconds();
        k.encode(text);
        quarter = std::min(quarter, middle - begin), whole = std::min(whole, seconds() - middle);
      }
      EXPECT_LT(whole, 5 * quarter) << t->vocab.model << " '" << unit.substr(0, 20) << "'";
    }
  }
}

TEST(Kinds, EveryModelNameOrARefusal) {
  TestVocab t;
  t.vocab.model = "nosuch";
  try {
    freeze(t.vocab, {});
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("'nosuch'"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("plamo2"), std::string::npos);
  }
}

}  // namespace
}  // namespace gc::text
