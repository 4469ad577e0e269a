// Byte-pair encoding over vocabularies frozen here: cases by hand, and a naive twin on random merges.
#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/base/vocab.h"
#include "compiler/text/freeze.h"
#include "gtest/gtest.h"
#include "runtime/text/tokenizer.h"

namespace gc::text {
namespace {

using Ids = std::vector<std::int32_t>;

// Tokens "a" to "e", space and newline as single bytes, then whatever merges make.
class Bpe {
 public:
  explicit Bpe(std::string_view pre = "gpt-2") {
    vocab.model = "gpt2";
    vocab.pre = pre;
    for (const char* t : {"a", "b", "c", "d", "e", "\u0120", "\u010A"}) token(t);
  }
  std::int32_t token(std::string text, TokenType type = TokenType::kNormal) {
    texts_.push_back(std::move(text));
    vocab.tokens.push_back(texts_.back());
    vocab.types.push_back(type);
    return static_cast<std::int32_t>(vocab.tokens.size()) - 1;
  }
  // Adds the merge and, if it is new, the token that it makes.
  std::int32_t merge(const std::string& left, const std::string& right) {
    texts_.push_back(left + " " + right);
    vocab.merges.push_back(texts_.back());
    for (std::size_t i = 0; i < vocab.tokens.size(); ++i)
      if (vocab.tokens[i] == left + right) return static_cast<std::int32_t>(i);
    return token(left + right);
  }
  void open() {
    frozen_ = freeze(vocab, {});
    ASSERT_EQ(tokenizer.open({frozen_.blob.data(), frozen_.blob.size()}), gcrt::kOk);
    ASSERT_EQ(tokenizer.view().deep_check(), gcrt::kOk);
  }
  Ids encode(std::string_view text, bool parse = false) const {
    gcrt::Vec<std::int32_t> out;
    EXPECT_EQ(tokenizer.encode({text.data(), text.size()}, {true, parse, {}}, out), gcrt::kOk);
    return Ids(out.begin(), out.end());
  }
  std::string decode(const Ids& ids) const {
    gcrt::Vec<char> out;
    EXPECT_EQ(tokenizer.decode({ids.data(), ids.size()}, {true, true}, out), gcrt::kOk);
    return std::string(out.begin(), out.end());
  }
  Vocab vocab;
  gcrt::Tokenizer tokenizer;

 private:
  std::deque<std::string> texts_;
  FrozenVocab frozen_;
};

TEST(Bpe, MergesByRankThenLeftmost) {
  Bpe b;
  std::int32_t bc = b.merge("b", "c"), ab = b.merge("a", "b"), aa = b.merge("a", "a");
  b.open();
  EXPECT_EQ(b.encode("abc"), (Ids{0, bc}));
  EXPECT_EQ(b.encode("abab"), (Ids{ab, ab}));
  EXPECT_EQ(b.encode("aaa"), (Ids{aa, 0}));
  EXPECT_EQ(b.decode(b.encode("abc\n aab")), "abc\n aab");
}

TEST(Bpe, WordsAreMergedApart) {
  Bpe b;
  b.merge("\u0120", "a");
  std::int32_t across = b.merge("a", "\u0120");
  b.open();
  Ids ids = b.encode("a a");
  EXPECT_EQ(std::count(ids.begin(), ids.end(), across), 0);
}

TEST(Bpe, WholeWordsFirstWhereTheFamilySaysSo) {
  for (std::string_view pre : {"llama-bpe", "qwen2"}) {
    Bpe b(pre);
    std::int32_t abc = b.token("abc");
    b.merge("a", "b");
    b.vocab.bos = 0;
    b.vocab.add_bos = false;
    b.open();
    EXPECT_EQ(b.encode("abc") == Ids{abc}, pre == "llama-bpe");
  }
}

TEST(Bpe, SpecialPiecesAndBytesWithoutTokens) {
  Bpe b;
  b.merge("a", "b");
  std::int32_t end = b.token("<|ab|>", TokenType::kControl);
  b.open();
  EXPECT_EQ(b.encode("a<|ab|>c", true), (Ids{0, end, 2}));
  EXPECT_EQ(b.encode("a<|ab|>c", false), (Ids{0, 7, 2}));  // "<", "|" and ">" have no tokens here
  EXPECT_EQ(b.tokenizer.find("<|ab|>"), end);
}

TEST(Bpe, MergesOfTextsThatAreNoTokens) {
  Bpe b;
  b.vocab.merges = {"a b", "ab c"};  // "ab" and "abc" are no tokens
  b.open();
  EXPECT_EQ(b.encode("abc"), (Ids{0, 1, 2}));
}

// All pairs looked at again for every merge.
Ids naive(const Vocab& v, const std::string& word) {
  std::map<std::pair<std::string, std::string>, std::size_t> ranks;
  for (std::size_t i = 0; i < v.merges.size(); ++i) {
    std::size_t gap = v.merges[i].find(' ', 1);
    ranks.emplace(
        std::pair(std::string(v.merges[i].substr(0, gap)), std::string(v.merges[i].substr(gap + 1))), i);
  }
  std::vector<std::string> parts;
  for (char c : word) parts.emplace_back(1, c);
  for (;;) {
    std::size_t best = SIZE_MAX, where = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      auto it = ranks.find({parts[i], parts[i + 1]});
      if (it != ranks.end() && it->second < best) best = it->second, where = i;
    }
    if (best == SIZE_MAX) break;
    parts[where] += parts[where + 1];
    parts.erase(parts.begin() + static_cast<long>(where) + 1);
  }
  Ids out;
  for (const std::string& p : parts)
    for (std::size_t i = 0; i < v.tokens.size(); ++i)
      if (v.tokens[i] == p) {
        out.push_back(static_cast<std::int32_t>(i));
        break;
      }
  return out;
}

TEST(Bpe, AgreesWithTheNaiveTwin) {
  std::mt19937 rng(2);
  for (int round = 0; round < 60; ++round) {
    Bpe b;
    std::vector<std::string> known = {"a", "b", "c"};
    for (int i = 0; i < 25; ++i) {
      std::string left = known[rng() % known.size()], right = known[rng() % known.size()];
      if (left.size() + right.size() > 6) continue;
      b.merge(left, right);
      known.push_back(left + right);
    }
    b.open();
    for (int i = 0; i < 60; ++i) {
      std::string word(1 + rng() % 30, 0);
      for (char& c : word) c = static_cast<char>('a' + rng() % 3);
      ASSERT_EQ(b.encode(word), naive(b.vocab, word)) << word;
    }
    if (round % 20 != 0) continue;
    // So long that its first pairs are sorted.
    std::string word(1500, 0);
    for (char& c : word) c = static_cast<char>('a' + rng() % 3);
    ASSERT_EQ(b.encode(word), naive(b.vocab, word)) << round;
  }
}

TEST(Bpe, DnaSixLettersAToken) {
  Bpe t("gpt-2");
  t.vocab.model = "hybriddna";
  const std::int32_t ab = t.merge("a", "b"), letters = t.token("CCCCCC"), open = t.token("<dna>"),
                     close = t.token("</dna>"), other = t.token("<oov>"), c6 = t.token("CCCCCC\uE000"),
                     acgt = t.token("ACGTAA\uE000");
  t.open();
  EXPECT_EQ(t.encode("ab<dna>ccCCccACGT</dna>ab"), (Ids{ab, open, c6, acgt, close, ab}));
  EXPECT_EQ(t.encode("<dna>NNNNNNCCCCCC"), (Ids{open, other, c6}));
  EXPECT_EQ(t.encode("<dna></dna>"), (Ids{open, close}));
  EXPECT_EQ(t.encode("<dn"), t.encode("<dn"));
  EXPECT_EQ(t.decode({open, c6, acgt, close, letters}), "<dna>CCCCCCACGTAA</dna>CCCCCC");
}

}  // namespace
}  // namespace gc::text
