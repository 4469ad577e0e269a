// Words of the pre-tokenizers, case by case; and that any bytes come back when the words are joined.
#include "runtime/text/words.h"

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"

namespace gcrt {
namespace {

constexpr WordRule kPlain{WordShape::kGpt2, 0, 0}, kDigits{WordShape::kGpt2, 1, 0},
    kThree{WordShape::kLlama3, 3, 0}, kOne{WordShape::kLlama3, 1, 0}, kMarks{WordShape::kLlama3, 1, 1};

using Words = std::vector<std::string>;

Words split(WordRule rule, std::string_view text) {
  WordSplitter s(rule, {text.data(), text.size()});
  Words out;
  for (Str w; s.next(&w);) {
    EXPECT_GT(w.size(), 0u);
    out.emplace_back(w.data(), w.size());
  }
  return out;
}

TEST(Words, ClassesOfCharacters) {
  EXPECT_EQ(char_class('a'), CharClass::kLetter);
  EXPECT_EQ(char_class('7'), CharClass::kNumber);
  EXPECT_EQ(char_class(' '), CharClass::kSpace);
  EXPECT_EQ(char_class('!'), CharClass::kPunct);
  EXPECT_EQ(char_class('+'), CharClass::kSymbol);
  EXPECT_EQ(char_class(0), CharClass::kOther);
  EXPECT_EQ(char_class(0xA0), CharClass::kSpace);
  EXPECT_EQ(char_class(0x301), CharClass::kMark);
  EXPECT_EQ(char_class(0x6F22), CharClass::kLetter);
  EXPECT_EQ(char_class(0x2EBF0), CharClass::kLetter);  // new in Unicode 15.1
  EXPECT_EQ(char_class(0x1F600), CharClass::kSymbol);
  EXPECT_EQ(char_class(0x10FFFF), CharClass::kOther);
}

TEST(Words, Gpt2) {
  EXPECT_EQ(split(kPlain, "Hello  world!!  12 a"), (Words{"Hello", " ", " world", "!!", " ", " 12", " a"}));
  EXPECT_EQ(split(kPlain, "I'm don't 'S"), (Words{"I", "'m", " don", "'t", " '", "S"}));
  EXPECT_EQ(split(kPlain, "a\n\n b  "), (Words{"a", "\n\n", " b", "  "}));
  EXPECT_EQ(split(kPlain, "x\r\ny"), (Words{"x", "\r", "\n", "y"}));
}

TEST(Words, SingleDigitsCutTheText) {
  EXPECT_EQ(split(kDigits, "a 12b"), (Words{"a", " ", "1", "2", "b"}));
  // The white space before a digit ends there: it stays in one piece.
  EXPECT_EQ(split(kDigits, "a   1"), (Words{"a", "   ", "1"}));
  EXPECT_EQ(split(kPlain, "a   1"), (Words{"a", "  ", " 1"}));
  EXPECT_EQ(split(kDigits, "\u0661\u0662"), (Words{"\u0661", "\u0662"}));
}

TEST(Words, Llama3) {
  EXPECT_EQ(split(kThree, "12345 (abc) I'M\n\n x"),
            (Words{"123", "45", " (", "abc", ")", " I", "'M", "\n\n", " x"}));
  EXPECT_EQ(split(kOne, "12 a"), (Words{"1", "2", " a"}));
  EXPECT_EQ(split(kThree, "a,\n\nb"), (Words{"a", ",\n\n", "b"}));
  EXPECT_EQ(split(kThree, "a \n \n  b"), (Words{"a", " \n \n", " ", " b"}));
  EXPECT_EQ(split(kThree, "-abc"), (Words{"-abc"}));
}

TEST(Words, MarksJoinWhereTheFamilySaysSo) {
  EXPECT_EQ(split(kOne, "xe\u0301y"), (Words{"xe", "\u0301y"}));
  EXPECT_EQ(split(kMarks, "xe\u0301y"), (Words{"xe\u0301y"}));
}

TEST(Words, JoinedTheyAreTheText) {
  std::mt19937 rng(1);
  const char* bits[] = {"a",          " ",    "\n",       "1", "'s", "\u00e9", "\u6f22",
                        "\U0001F600", "\xFF", "\xE2\x96", "!", "\r", "\u0301"};
  for (WordRule rule : {kPlain, kDigits, kThree, kOne, kMarks})
    for (int i = 0; i < 2000; ++i) {
      std::string text, joined;
      for (std::size_t n = rng() % 30; n; --n) text += bits[rng() % std::size(bits)];
      for (const std::string& w : split(rule, text)) joined += w;
      EXPECT_EQ(joined, text);
    }
}

}  // namespace
}  // namespace gcrt
