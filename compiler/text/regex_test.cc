// Words of pre-tokenizers, case by case; the automata against a backtracking twin; that the words of any bytes,
// joined, are the text; and that long runs are not read again and again.
#include "compiler/text/regex.h"

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/text/freeze_bpe.h"
#include "compiler/text/unicode.h"
#include "gtest/gtest.h"

namespace gc::text {
namespace {

using Words = std::vector<std::string>;

Words split_by(std::span<const std::string_view> stages, std::string_view text) {
  WordTables t = compile_words(stages);
  gcrt::WordRules rules;
  rules.header = t.header;
  rules.stages = {t.stages.data(), t.stages.size()};
  rules.steps = {t.steps.data(), t.steps.size()};
  rules.pages = {t.pages.data(), t.pages.size()};
  rules.classes = {t.classes.data(), t.classes.size()};
  EXPECT_TRUE(rules.valid());
  gcrt::WordSplitter s(rules, {text.data(), text.size()});
  Words out;
  for (gcrt::Str w; s.next(&w);) {
    EXPECT_GT(w.size(), 0u);
    out.emplace_back(w.data(), w.size());
  }
  return out;
}
Words split(std::string_view name, std::string_view text) {
  return split_by(find_pretokenizer(name).stages, text);
}
Words match(std::string_view expression, std::string_view text) { return split_by({&expression, 1}, text); }

TEST(Unicode, ClassesOfCharacters) {
  EXPECT_EQ(char_class('a'), CharClass::kLetter);
  EXPECT_EQ(char_class('7'), CharClass::kNumber);
  EXPECT_EQ(char_class(' '), CharClass::kSpace);
  EXPECT_EQ(char_class('!'), CharClass::kPunctuation);
  EXPECT_EQ(char_class('+'), CharClass::kSymbol);
  EXPECT_EQ(char_class(0), CharClass::kControl);
  EXPECT_EQ(char_class(0xA0), CharClass::kSpace);
  EXPECT_EQ(char_class(0x301), CharClass::kMark);
  EXPECT_EQ(char_class(0x6F22), CharClass::kLetter);
  EXPECT_EQ(char_class(0x2EBF0), CharClass::kLetter);  // new in Unicode 15.1
  EXPECT_EQ(char_class(0x1F600), CharClass::kSymbol);
  EXPECT_EQ(char_class(0x378), CharClass::kOther);
  EXPECT_EQ(base_character(0xE9), std::uint32_t{'e'});
  EXPECT_EQ(base_character(0xAC01), 0x1100u);
  EXPECT_EQ(base_character('e'), std::uint32_t{'e'});
  EXPECT_EQ(lower_case(0xC9), 0xE9u);
  EXPECT_EQ(lower_case(0x130), std::uint32_t{'i'});
}

TEST(Regex, TheFirstAlternativeWins) {
  EXPECT_EQ(match("a|ab", "ab"), (Words{"a", "b"}));
  EXPECT_EQ(match("ab|a", "aab"), (Words{"a", "ab"}));
  EXPECT_EQ(match("a*b|a", "aaab"), (Words{"aaab"}));
  EXPECT_EQ(match("a*b|a", "aaa"), (Words{"a", "a", "a"}));
  EXPECT_EQ(match("a{2,3}", "aaaaaaaa"), (Words{"aaa", "aaa", "aa"}));
  EXPECT_EQ(match("(?i:ab)c", "aBcABCabc"), (Words{"aBc", "ABC", "abc"}));
}

TEST(Regex, Classes) {
  EXPECT_EQ(match("[^a-c]+", "abxyzc"), (Words{"ab", "xyz", "c"}));
  EXPECT_EQ(match("[\\p{L}--[a-z]]+", "abÉÀcD"), (Words{"ab", "ÉÀ", "c", "D"}));
  EXPECT_EQ(match("[\\[-`]+", "a[]^b"), (Words{"a", "[]^", "b"}));
  EXPECT_EQ(match("[\\x{4E00}-\\x{9FA5}]+", "a漢字b"), (Words{"a", "漢字", "b"}));
}

TEST(Regex, NextIsNoText) {
  EXPECT_EQ(match("\\s+(?!\\S)|\\s+", "a   b  "), (Words{"a", "  ", " ", "b", "  "}));
  EXPECT_EQ(match("\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s", "     a"), (Words{"    ", " ", "a"}));
}

TEST(Words, Gpt2) {
  EXPECT_EQ(split("gpt-2", "Hello  world!!  12 a"), (Words{"Hello", " ", " world", "!!", " ", " 12", " a"}));
  EXPECT_EQ(split("gpt-2", "I'm don't 'S"), (Words{"I", "'m", " don", "'t", " '", "S"}));
  EXPECT_EQ(split("gpt-2", "a\n\n b  "), (Words{"a", "\n\n", " b", "  "}));
  EXPECT_EQ(split("gpt-2", "x\r\ny"), (Words{"x", "\r", "\n", "y"}));
}

TEST(Words, SingleDigitsCutTheText) {
  EXPECT_EQ(split("smollm", "a 12b"), (Words{"a", " ", "1", "2", "b"}));
  // The white space before a digit ends there: it stays in one piece.
  EXPECT_EQ(split("smollm", "a   1"), (Words{"a", "   ", "1"}));
  EXPECT_EQ(split("gpt-2", "a   1"), (Words{"a", "  ", " 1"}));
  EXPECT_EQ(split("smollm", "\u0661\u0662"), (Words{"\u0661", "\u0662"}));
}

TEST(Words, Llama3) {
  EXPECT_EQ(split("llama-bpe", "12345 (abc) I'M\n\n x"),
            (Words{"123", "45", " (", "abc", ")", " I", "'M", "\n\n", " x"}));
  EXPECT_EQ(split("qwen2", "12 a"), (Words{"1", "2", " a"}));
  EXPECT_EQ(split("llama-bpe", "a,\n\nb"), (Words{"a", ",\n\n", "b"}));
  EXPECT_EQ(split("llama-bpe", "a \n \n  b"), (Words{"a", " \n \n", " ", " b"}));
  EXPECT_EQ(split("llama-bpe", "-abc"), (Words{"-abc"}));
}

TEST(Words, MarksJoinWhereTheFamilySaysSo) {
  EXPECT_EQ(split("qwen2", "xe\u0301y"), (Words{"xe", "\u0301y"}));
  EXPECT_EQ(split("qwen35", "xe\u0301y"), (Words{"xe\u0301y"}));
}

TEST(Words, Families) {
  EXPECT_EQ(split("gpt-4o", "camelCase don't 1234"), (Words{"camel", "Case", " don't", " ", "123", "4"}));
  EXPECT_EQ(split("tekken", "HTTPServer 12"), (Words{"HTTPServer", " ", "1", "2"}));
  EXPECT_EQ(split("deepseek-v3", "x=漢字かな 1234"), (Words{"x", "=", "漢字かな", " ", "123", "4"}));
  EXPECT_EQ(split("deepseek-llm", "ab 12!\n  "), (Words{"ab", " ", "12", "!", "\n", "  "}));
  EXPECT_EQ(split("falcon", "12345 a+b"), (Words{"123", "45", " a", "+", "b"}));
  EXPECT_EQ(split("bloom", "a, b"), (Words{"a", ",", " b"}));
  EXPECT_EQ(split("kimi-k2", "漢字abc"), (Words{"漢字", "abc"}));
  EXPECT_EQ(split("superbpe", "1234567 x"), (Words{"1", "234", "567", " x"}));
  EXPECT_EQ(split("superbpe", "123456"), (Words{"123", "456"}));
  EXPECT_EQ(split("afmoe", "12345x"), (Words{"12", "345", "x"}));
  EXPECT_EQ(split("gemma4", "a b\n\nc"), (Words{"a b", "\n\n", "c"}));
  EXPECT_EQ(split("exaone-moe", "a bc d"), (Words{"a bc d"}));
  EXPECT_EQ(split("jais-2", "       a"), (Words{"    ", "  ", " a"}));
  EXPECT_EQ(split("chameleon", "IMGIMGABZ x"), (Words{"IMGIMGABZ", " x"}));
}

TEST(Words, JoinedTheyAreTheText) {
  std::mt19937 rng(1);
  const char* bits[] = {"a",          "B",    " ",        "\n", "1",  "'s",     "é",     "漢",
                        "\U0001F600", "\xFF", "\xE2\x96", "!",  "\r", "\u0301", "\u3000"};
  for (std::string_view name : {"default", "llama-bpe", "deepseek-llm", "gpt-4o", "chameleon", "afmoe",
                                "superbpe", "viking", "jais-2", "youtu", "whitespace"}) {
    std::vector<std::string_view> stages = find_pretokenizer(name).stages;
    for (int i = 0; i < 30; ++i) {
      std::string text, joined;
      for (std::size_t n = rng() % 60; n; --n) text += bits[rng() % std::size(bits)];
      for (const std::string& w : split_by(stages, text)) joined += w;
      EXPECT_EQ(joined, text) << name;
    }
  }
}

// Seconds where it were quadratic.
TEST(Words, LongRunsAreLinear) {
  for (std::string_view name : {"jais-2", "llama-bpe", "deepseek-llm", "superbpe", "gpt-4o"})
    for (char c : {' ', 'a', 'A', '1', '\n', '!'}) {
      std::string text(1 << 20, c);
      text += 'x';
      EXPECT_FALSE(split(name, text).empty());
    }
}

}  // namespace
}  // namespace gc::text
