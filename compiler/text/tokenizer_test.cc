// The runtime's tokenizer over vocabularies frozen here: exact rules on hand-made cases, and agreement with a naive
// twin (all pairs rescanned for every merge, every special piece tried everywhere) on random vocabularies and texts.
#include "runtime/text/tokenizer.h"

#include <algorithm>
#include <ctime>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/text/freeze.h"
#include "compiler/text/test_vocab.h"
#include "gtest/gtest.h"

namespace gc::text {
namespace {

using Ids = std::vector<std::int32_t>;
constexpr std::uint8_t kSpecialBits =
    gcrt::frozen::kControl | gcrt::frozen::kUnknown | gcrt::frozen::kUserDefined;

class Frozen {
 public:
  explicit Frozen(const Vocab& v, std::string_view name = {}) {
    FreezeOptions o;
    o.general_name = name;
    frozen_ = freeze(v, o);
    EXPECT_EQ(tokenizer.open({frozen_.blob.data(), frozen_.blob.size()}), gcrt::kOk);
    EXPECT_EQ(tokenizer.view().deep_check(), gcrt::kOk);
  }
  Ids encode(std::string_view text, bool special = false, bool parse = false,
             std::vector<gcrt::TextRange> literal = {}) const {
    gcrt::Vec<std::int32_t> out;
    gcrt::EncodeOptions o{special, parse, {literal.data(), literal.size()}};
    EXPECT_EQ(tokenizer.encode({text.data(), text.size()}, o, out), gcrt::kOk);
    return Ids(out.begin(), out.end());
  }
  std::string decode(const Ids& ids, bool special = false) const {
    gcrt::Vec<char> out;
    gcrt::DecodeOptions o;
    o.special = special;
    EXPECT_EQ(tokenizer.decode({ids.data(), ids.size()}, o, out), gcrt::kOk);
    return std::string(out.begin(), out.end());
  }

  gcrt::Tokenizer tokenizer;

 private:
  FrozenVocab frozen_;
};

Ids bytes_of(std::string_view s) {
  Ids out;
  for (char c : s) out.push_back(TestVocab::kByte0 + static_cast<unsigned char>(c));
  return out;
}

TEST(Tokenizer, MergesByScoreThenLeftmost) {
  TestVocab t;
  t.vocab.add_space_prefix = false;
  std::int32_t a = t.add("a", -1), b = t.add("b", -2), ab = t.add("ab", -5), aa = t.add("aa", -5),
               aab = t.add("aab", -3);
  Frozen f(t.vocab);
  EXPECT_EQ(f.encode("a"), Ids{a});
  EXPECT_EQ(f.encode("ab"), Ids{ab});
  EXPECT_EQ(f.encode("ba"), (Ids{b, a}));
  // "aa" and "ab" have one score: the left pair goes first, then "aab" is a piece.
  EXPECT_EQ(f.encode("aab"), Ids{aab});
  EXPECT_EQ(f.encode("aaab"), (Ids{aa, ab}));
  EXPECT_EQ(f.encode(""), Ids{});
}

TEST(Tokenizer, SpacesPrefixAndBytes) {
  TestVocab t;
  std::int32_t sp = t.add("\u2581", -1), x = t.add("x", -2), spx = t.add("\u2581x", -1.5f);
  Frozen f(t.vocab);
  EXPECT_EQ(f.encode("x"), Ids{spx});
  EXPECT_EQ(f.encode(" x"), (Ids{sp, spx}));
  EXPECT_EQ(f.encode("x", true), (Ids{1, spx}));
  EXPECT_EQ(f.encode("", true), Ids{1});
  // U+1F999 is no piece: its four bytes.
  Ids llama{sp};
  for (std::int32_t id : bytes_of("\U0001F999")) llama.push_back(id);
  EXPECT_EQ(f.encode("\U0001F999"), llama);
  EXPECT_EQ(f.decode(llama), "\U0001F999");
  EXPECT_EQ(f.decode({1, spx}), "x");
  EXPECT_EQ(f.decode({1, spx}, true), "<s>x");
  t.vocab.add_space_prefix = false;
  t.vocab.add_bos = false;
  t.vocab.add_eos = true;
  Frozen g(t.vocab);
  EXPECT_EQ(g.encode("x", true), (Ids{x, 2}));
}

TEST(Tokenizer, SpecialPiecesInText) {
  TestVocab t;
  t.vocab.add_space_prefix = false;
  std::int32_t turn = t.add("<turn>", 0, TokenType::kControl);
  std::int32_t br = t.add("\n\n", 0, TokenType::kUserDefined);
  std::int32_t x = t.add("x", -1);
  Frozen f(t.vocab);
  EXPECT_EQ(f.encode("x\n\nx"), (Ids{x, br, x}));
  EXPECT_EQ(f.encode("<turn>x", false, true), (Ids{turn, x}));
  EXPECT_EQ(f.encode("<turn>"), bytes_of("<turn>"));
  EXPECT_EQ(f.decode({turn, x}), "x");
  EXPECT_EQ(f.decode({turn, x}, true), "<turn>x");
  // The template's own markup is structure, the same text in the user's message is not.
  Ids want{turn};
  for (std::int32_t id : bytes_of("<turn>")) want.push_back(id);
  want.push_back(br);
  want.push_back(turn);
  EXPECT_EQ(f.encode("<turn><turn>\n\n<turn>", false, true, {{6, 14}}), want);
}

TEST(Tokenizer, OneBosWhoeverWroteIt) {
  TestVocab t;
  t.vocab.add_space_prefix = false;
  std::int32_t x = t.add("x", -1);
  Frozen f(t.vocab);
  EXPECT_EQ(f.encode("<s>x", true, true), (Ids{1, x}));
  EXPECT_EQ(f.encode("<s><s>x", true, true), (Ids{1, 1, x}));  // typed twice: kept
  EXPECT_EQ(f.encode("<s>x", true, false).front(), 1);
  EXPECT_EQ(f.encode("<s>x", true, false).size(), 5u);
}

TEST(Tokenizer, StripsAroundSpecialPieces) {
  TestVocab t;
  t.vocab.add_space_prefix = false;
  std::int32_t end = t.add("<|end|>", 0, TokenType::kControl);
  std::int32_t x = t.add("x", -1);
  t.add("\u2581", -1);
  Frozen phi(t.vocab, "Phi-3 mini");
  EXPECT_EQ(phi.encode("x<|end|> \n x", false, true), (Ids{x, end, x}));
  EXPECT_EQ(phi.encode("<|end|>  <|end|>  ", false, true), (Ids{end, end}));
  Frozen other(t.vocab, "Other");
  EXPECT_EQ(other.encode("x<|end|> x", false, true).size(), 4u);
}

TEST(Tokenizer, TheLongestSpecialPieceWins) {
  TestVocab t;
  t.vocab.add_space_prefix = false;
  std::int32_t shorter = t.add("<a<", 0, TokenType::kUserDefined);
  std::int32_t longer = t.add("<ab>", 0, TokenType::kUserDefined);
  std::int32_t a = t.add("a", -1);
  Frozen f(t.vocab);
  EXPECT_EQ(f.encode("<a<ab>"), (Ids{TestVocab::kByte0 + '<', a, longer}));
  EXPECT_EQ(f.encode("<a<a"), (Ids{shorter, a}));
}

TEST(Tokenizer, TextThatIsNotUtf8ComesBack) {
  TestVocab t;
  t.add("\u2581", -1);
  for (char c = 'a'; c <= 'z'; ++c) t.add(std::string(1, c), -1);
  Frozen f(t.vocab);
  std::mt19937 rng(3);
  for (std::string s :
       {"\xE1 x", "\xF0\x9F", "\xC0\x80", "a\xFF", "\xE2\x96", " \xE2", "\x80\x80 \xED\xA0\x80"})
    EXPECT_EQ(f.decode(f.encode(s)), s);
  for (int i = 0; i < 2000; ++i) {
    std::string s(rng() % 40, 0);
    for (char& c : s) c = static_cast<char>(rng() % 3 ? rng() : " a\xE2\x96\x81"[rng() % 5]);
    if (s.find("\u2581") == std::string::npos) EXPECT_EQ(f.decode(f.encode(s)), s);
  }
}

TEST(Tokenizer, WithoutByteTokensUnknown) {
  TestVocab t(false);
  t.vocab.add_space_prefix = false;
  std::int32_t a = t.add("a", -1);
  Frozen f(t.vocab);
  EXPECT_EQ(f.encode("a\u00e9a"), (Ids{a, 0, a}));
}

// ---- The naive twin ----

std::vector<std::string> characters(const std::string& s) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < s.size();) {
    std::size_t n = gcrt::frozen::char_bytes(s.data() + i, s.size() - i);
    out.push_back(s.substr(i, n));
    i += n;
  }
  return out;
}

std::int32_t id_of(const Vocab& v, std::string_view s) {
  for (std::size_t i = 0; i < v.tokens.size(); ++i)
    if (v.tokens[i] == s) return static_cast<std::int32_t>(i);
  return -1;
}

void naive_merge(const Vocab& v, std::string text, Ids& out) {
  for (std::size_t at; (at = text.find(' ')) != std::string::npos;) text.replace(at, 1, "\u2581");
  std::vector<std::string> parts = characters(text);
  for (;;) {
    std::int32_t best = -1;
    std::size_t where = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      std::int32_t id = id_of(v, parts[i] + parts[i + 1]);
      auto score = [&v](std::int32_t k) { return v.scores[static_cast<std::size_t>(k)]; };
      if (id >= 0 && (best < 0 || score(id) > score(best))) best = id, where = i;
    }
    if (best < 0) break;
    parts[where] += parts[where + 1];
    parts.erase(parts.begin() + static_cast<long>(where) + 1);
  }
  for (const std::string& p : parts) {
    std::int32_t id = id_of(v, p);
    if (id >= 0)
      out.push_back(id);
    else
      for (std::int32_t b : bytes_of(p)) out.push_back(b);
  }
}

// Cuts `text` at the pieces of `order` from `k` on: each in turn, leftmost first, recursively in what is left.
void naive_split(const Vocab& v, const Ids& order, std::size_t k, const std::string& text, Ids& out) {
  if (text.empty()) return;
  if (k == order.size()) return naive_merge(v, text, out);
  std::string piece(v.tokens[static_cast<std::size_t>(order[k])]);
  std::size_t at = text.find(piece);
  if (at == std::string::npos) return naive_split(v, order, k + 1, text, out);
  naive_split(v, order, k + 1, text.substr(0, at), out);
  out.push_back(order[k]);
  naive_split(v, order, k, text.substr(at + piece.size()), out);
}

Ids naive_encode(const Frozen& f, const Vocab& v, const std::string& text, bool parse) {
  Ids order;
  for (std::int32_t i = 0; i < v.n_vocab(); ++i) {
    std::uint8_t attr = f.tokenizer.view().attr(i);
    bool control = attr & (gcrt::frozen::kControl | gcrt::frozen::kUnknown);
    if (attr & kSpecialBits && (parse || !control)) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&v](std::int32_t a, std::int32_t b) {
    std::size_t x = v.tokens[static_cast<std::size_t>(a)].size(),
                y = v.tokens[static_cast<std::size_t>(b)].size();
    return x != y ? x > y : a < b;
  });
  Ids out;
  naive_split(v, order, 0, text, out);
  return out;
}

TEST(Tokenizer, AgreesWithTheNaiveTwin) {
  std::mt19937 rng(4);
  const std::vector<std::string> alphabet = {"a", "b", "c", "\u00e9", "\u6f22", " ", "<", ">"};
  auto random_text = [&](std::size_t most) {
    std::string s;
    for (std::size_t n = rng() % (most + 1); n; --n) s += alphabet[rng() % alphabet.size()];
    return s;
  };
  for (int round = 0; round < 60; ++round) {
    TestVocab t;
    t.vocab.add_space_prefix = false;
    auto fresh = [&t](const std::string& s) { return !s.empty() && id_of(t.vocab, s) < 0; };
    t.add("\u2581", -static_cast<float>(rng() % 8));
    for (const std::string& c : alphabet)
      if (c != " " && rng() % 4) t.add(c, -static_cast<float>(rng() % 8));
    for (int i = 0; i < 40; ++i) {
      std::string s = random_text(4);
      for (std::size_t at; (at = s.find(' ')) != std::string::npos;) s.replace(at, 1, "\u2581");
      if (fresh(s)) t.add(s, -static_cast<float>(rng() % 8));
    }
    for (int i = 0; i < 6; ++i) {
      std::string s = random_text(5);
      if (fresh(s)) t.add(s, 0, rng() % 2 ? TokenType::kUserDefined : TokenType::kControl);
    }
    Frozen f(t.vocab);
    for (int i = 0; i < 40; ++i) {
      std::string s = random_text(50);
      bool parse = rng() % 2;
      ASSERT_EQ(f.encode(s, false, parse), naive_encode(f, t.vocab, s, parse)) << s;
      ASSERT_EQ(f.decode(f.encode(s, false, parse), true), s);
    }
  }
}

// Whatever the text, a megabyte is no quadratic matter. The bound is loose: it tells seconds from hours.
TEST(Tokenizer, AMegabyteOfAnything) {
  TestVocab t;
  t.add("\u2581", -1);
  std::string run;
  for (int i = 1; i <= 16; ++i) t.add(run += 'a', -static_cast<float>(i));
  run.clear();
  for (int i = 1; i <= 30; ++i) t.add(run += '\n', 0, TokenType::kUserDefined);
  t.add("<unused1>", 0, TokenType::kControl);
  Frozen f(t.vocab);
  const std::clock_t start = std::clock();  // CPU time: a busy machine's wall clock says little
  for (std::string unit : {"a", "\n", " ", "ab", "<unused", "\U0001F999"}) {
    std::string s;
    while (s.size() < 1000000) s += unit;
    EXPECT_TRUE(f.decode(f.encode(s, false, true), true) == s) << unit;
  }
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 60);
}

TEST(Tokenizer, RefusesWhatItCannot) {
  TestVocab t;
  FreezeOptions none;
  none.no_tokenizer = true;
  FrozenVocab blob = freeze(t.vocab, none);
  gcrt::Tokenizer k;
  ASSERT_EQ(k.open({blob.blob.data(), blob.blob.size()}), gcrt::kOk);
  EXPECT_FALSE(k.available());
  EXPECT_EQ(k.n_vocab(), 259);
  EXPECT_FALSE(k.is_eog(2));
  gcrt::Vec<std::int32_t> ids;
  gcrt::Vec<char> text;
  EXPECT_EQ(k.encode("x", {}, ids), gcrt::kErrUnsupported);
  EXPECT_EQ(k.append_piece(1, false, text), gcrt::kErrUnsupported);
  Frozen f(t.vocab);
  EXPECT_EQ(f.tokenizer.append_piece(259, false, text), gcrt::kErrArgument);
  EXPECT_EQ(f.tokenizer.append_piece(-1, false, text), gcrt::kErrArgument);
  gcrt::TextRange backwards[] = {{2, 3}, {0, 1}};
  EXPECT_EQ(f.tokenizer.encode("abc", {true, true, backwards}, ids), gcrt::kErrArgument);
}

}  // namespace
}  // namespace gc::text
