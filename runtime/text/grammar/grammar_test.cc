// The engine and GBNF: small grammars by what they accept, what is refused and by which words, what must terminate.
#include "runtime/text/grammar.h"

#include <gtest/gtest.h>

#include <ctime>
#include <string>

namespace gcrt {
namespace {

Str to_str(const std::string& s) { return {s.data(), s.size()}; }

std::string repeat(const std::string& s, int n) {
  std::string out;
  while (n-- > 0) out += s;
  return out;
}

// 'y': a sentence, 'p': the beginning of one, 'n': neither.
char verdict(const Grammar& g, const std::string& text) {
  GrammarState state;
  EXPECT_EQ(state.init(&g, nullptr), kOk);
  const Status s = state.accept_bytes(to_str(text));
  EXPECT_TRUE(s == kOk || s == kErrInput) << s;
  EXPECT_EQ(state.is_dead(), s != kOk);
  return s != kOk ? 'n' : state.can_end() ? 'y' : 'p';
}

char verdict(const std::string& grammar, const std::string& text) {
  Grammar g;
  char message[256] = {};
  EXPECT_EQ(g.compile_gbnf(to_str(grammar), message), kOk) << grammar << ": " << message;
  return g.compiled() ? verdict(g, text) : '?';
}

std::string fault(const std::string& grammar) {
  Grammar g;
  char message[256] = {};
  const std::clock_t begin = std::clock();
  EXPECT_NE(g.compile_gbnf(to_str(grammar), message), kOk) << grammar;
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 5);
  return message;
}

struct Case {
  const char* grammar;
  const char* text;
  char expected;
};

TEST(Gbnf, Elements) {
  const Case cases[] = {
      {"root ::= \"yes\" | \"no\"", "yes", 'y'},
      {"root ::= \"yes\" | \"no\"", "n", 'p'},
      {"root ::= \"yes\" | \"no\"", "nope", 'n'},
      {"# c\nroot ::= a b # d\na ::= \"x\" |\n  \"y\"\nb ::= (\"z\"\n)", "yz", 'y'},
      {"root ::= [a-c] [^a-c] .", "adé", 'y'},
      {"root ::= [a-c] [^a-c]", "aa", 'n'},
      {"root ::= [^a]", "é", 'y'},
      {"root ::= [^a]", "éé", 'n'},
      {"root ::= [-a] [a-] [\\]\\[] [\\x41\\u00e9\\U0001F600]", "a-]\xF0\x9F\x98\x80", 'y'},
      {"root ::= \"\\x41\\t\\\"\\\\\\n\"", "A\t\"\\\n", 'y'},
      {"root ::= [\xF0\x9F\x98\x80-\xF0\x9F\x99\x8F]+ \".\"", "\xF0\x9F\x98\x80\xF0\x9F\x99\x8F.", 'y'},
      {"root ::= [\xF0\x9F\x98\x80-\xF0\x9F\x99\x8F]+ \".\"", "\xF0\x9F\x99\x90", 'n'},
      {"root ::= [\xF0\x9F\x98\x80-\xF0\x9F\x99\x8F]+ \".\"", "\xF0\x9F", 'p'},
      {"root ::= .", "\xED\xA0\x80", 'n'},  // half a surrogate pair
      {"root ::= .", "\xFF", 'n'},
      {"root ::= .", "\xC0\x80", 'n'},  // overlong
      {"root ::= \"a\"* \"b\"+ \"c\"?", "bb", 'y'},
      {"root ::= \"a\"{2} \"b\"{1,} \"c\"{0,2}", "aabbbcc", 'y'},
      {"root ::= \"a\"{2} \"b\"{1,} \"c\"{0,2}", "aabbbccc", 'n'},
      {"root ::= \"a\"{ 2 , 3 }", "aaaa", 'n'},
      {"root ::= \"a\"{0}", "", 'y'},
      {"root ::= (\"a\" | \"b\" \"c\"){2}", "abc", 'y'},
  };
  for (const Case& c : cases)
    EXPECT_EQ(verdict(c.grammar, c.text), c.expected) << c.grammar << " | " << c.text;
}

TEST(Gbnf, EmptyAlternatives) {
  const Case cases[] = {
      {"root ::= \"\"", "", 'y'},
      {"root ::= \"\"", "a", 'n'},
      {"root ::=", "", 'y'},
      {"root ::= \"a\" |", "", 'y'},
      {"root ::= \"a\" |", "a", 'y'},
      {"root ::= (\"a\"*)*", "aaa", 'y'},
      {"root ::= (\"a\"*)*", "", 'y'},
      {"root ::= (\"\" | \"x\")* \"y\"", "xxxy", 'y'},
      {"root ::= (\"\" | \"x\")* \"y\"", "xxx", 'p'},
      {"root ::= (\"\" | \"x\"){3} \"y\"", "xy", 'y'},
      {"root ::= (\"\" | \"x\"){3} \"y\"", "xxxxy", 'n'},
      {"root ::= (\"\" | [a-z]+){3,100} \"1\"", "abc1", 'y'},
      {"root ::= a a\na ::= b | \"x\"\nb ::= c?\nc ::= \"\"", "xx", 'y'},
  };
  for (const Case& c : cases)
    EXPECT_EQ(verdict(c.grammar, c.text), c.expected) << c.grammar << " | " << c.text;
}

TEST(Gbnf, Recursion) {
  const char* const nested = "root ::= \"(\" root \")\" root | \"\"";
  EXPECT_EQ(verdict(nested, repeat("(", 3000) + repeat(")", 3000)), 'y');
  EXPECT_EQ(verdict(nested, repeat("(", 3000) + repeat(")", 3001)), 'n');
  EXPECT_EQ(verdict(nested, repeat("()", 30000)), 'y');
  // Ambiguous in exponentially many ways.
  const char* const ambiguous = "root ::= s\ns ::= s s s | s s | \"b\"";
  EXPECT_EQ(verdict(ambiguous, repeat("b", 200)), 'y');
  const char* const palindromes = "root ::= \"a\" root \"a\" | \"b\" root \"b\" | \"a\" | \"b\" | \"\"";
  EXPECT_EQ(verdict(palindromes, repeat("ab", 40) + repeat("ba", 40)), 'y');
}

TEST(Gbnf, LeftRecursion) {
  const Case cases[] = {
      {"root ::= root \"a\" | \"b\"", "baaa", 'y'},
      {"root ::= root \"a\" | \"b\"", "bab", 'n'},
      {"root ::= root \"a\" | \"b\"", "a", 'n'},
      {"root ::= e\ne ::= (i | e \"+\" e)\ni ::= [0-9]+", "12+3+4", 'y'},
      {"root ::= e\ne ::= (i | e \"+\" e)\ni ::= [0-9]+", "12+", 'p'},
      {"root ::= a\na ::= b \"x\" | \"1\"\nb ::= a \"y\" | \"2\"", "2xyx", 'y'},
      {"root ::= a\na ::= b \"x\" | \"1\"\nb ::= a \"y\" | \"2\"", "1yxyx", 'y'},
      {"root ::= a\na ::= b \"x\" | \"1\"\nb ::= a \"y\" | \"2\"", "1yy", 'n'},
      // Hidden behind what may be empty.
      {"root ::= a \"z\"\na ::= b a \"x\" | \"1\"\nb ::= \"q\" | \"\"", "qq1xxxz", 'y'},
      {"root ::= a \"z\"\na ::= b a \"x\" | \"1\"\nb ::= \"q\" | \"\"", "qq1xz", 'n'},
      {"root ::= a\na ::= a a | \"b\" | \"\"", "bbb", 'y'},
      {"root ::= a | a\na ::= a", "", '?'},
  };
  for (const Case& c : cases)
    if (c.expected != '?') EXPECT_EQ(verdict(c.grammar, c.text), c.expected) << c.grammar << " | " << c.text;
  EXPECT_EQ(fault("root ::= a | a\na ::= a"), "rule 'root' can never come to an end");
  EXPECT_EQ(fault("root ::= e{3,90} \"x\"\ne ::= root | \"b\" root e"),
            "rule 'root' can never come to an end");
  EXPECT_EQ(fault("root ::= e{3,90} \"x\" | \"y\"\ne ::= root | \"b\""),
            "rule 'e' is left-recursive through a counted repetition");
}

TEST(Gbnf, HugeRepetitions) {
  EXPECT_EQ(verdict("root ::= \"a\"{2000000000,2147483647}", repeat("a", 5000)), 'p');
  EXPECT_EQ(verdict("root ::= ((\"a\"{1000}){1000}){1000}", repeat("a", 5000)), 'p');
  const char* const letters = "root ::= [a-z]{2000}";
  EXPECT_EQ(verdict(letters, repeat("a", 1999)), 'p');
  EXPECT_EQ(verdict(letters, repeat("a", 2000)), 'y');
  EXPECT_EQ(verdict(letters, repeat("a", 2001)), 'n');
  EXPECT_EQ(verdict("root ::= [a-z]{3,10000}", repeat("a", 10000)), 'y');
  EXPECT_EQ(verdict("root ::= [a-z]{3,10000}", repeat("a", 10001)), 'n');
  // Who counts is ambiguous.
  const char* const groups = "root ::= ([a-z]{1,5}){100,1000}";
  EXPECT_EQ(verdict(groups, repeat("a", 99)), 'p');
  EXPECT_EQ(verdict(groups, repeat("a", 100)), 'y');
  EXPECT_EQ(verdict(groups, repeat("a", 5000)), 'y');
  EXPECT_EQ(verdict(groups, repeat("a", 5001)), 'n');
  EXPECT_EQ(verdict("root ::= \"x\" (\"a\"{100,} \"b\"){100,}", "x" + repeat(repeat("a", 150) + "b", 120)),
            'y');
}

TEST(Gbnf, LargeGrammars) {
  std::string chain = "root ::= r0\n";
  for (int i = 0; i < 5000; ++i) chain += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + "\n";
  EXPECT_EQ(verdict(chain + "r5000 ::= \"x\"", "x"), 'y');
  EXPECT_EQ(verdict("root ::= " + repeat("(", 60000) + "\"a\"" + repeat(")", 60000), "a"), 'y');
  // Its deterministic automaton would have 2^20 states.
  EXPECT_EQ(verdict("root ::= [ab]* \"a\" " + repeat("[ab] ", 20), "ab" + repeat("b", 19)), 'y');
}

TEST(Gbnf, Faults) {
  const struct {
    std::string grammar, message;
  } cases[] = {
      {"", "there is no rule 'root'"},
      {"a ::= \"b\"", "there is no rule 'root'"},
      {"root ::= \"a\"\nroot ::= \"b\"", "line 2: rule 'root' is defined twice"},
      {"root ::= x", "rule 'x' is not defined"},
      {"root = \"a\"", "line 1: expected ::= after 'root'"},
      {"root ::= \"a", "line 1: a text has no closing '\"'"},
      {"\nroot ::= [a", "line 2: a class has no closing ']'"},
      {"root ::= [z-a]", "line 1: a range of a class goes backwards"},
      {"root ::= []", "line 1: a class without characters"},
      {"root ::= (\"a\"", "line 1: '(' is never closed"},
      {"root ::= \"a\")", "line 1: ')' without '('"},
      {"root ::= *", "line 1: '*' follows nothing that it could repeat"},
      {"root ::= \"a\"{5,0}", "line 1: a repetition of at least 5 and at most 0"},
      {"root ::= \"a\"{99999999999999999999}", "line 1: a number of repetitions is too large"},
      {"root ::= \"a\"{x}", "line 1: expected a number"},
      {"root ::= \"\\q\"", "line 1: unknown escape '\\q'"},
      {"root ::= \"\\xZZ\"", "line 1: expected 2 hexadecimal digits"},
      {"root ::= \"\\uD800\"", "line 1: there is no such character"},
      {"root ::= \"\\U00110000\"", "line 1: there is no such character"},
      {"root ::= \"\xFF\"", "line 1: the text is not UTF-8"},
      {"root ::= <[12]>", "line 1: a token (<...>) needs a model's vocabulary"},
      {"root ::= !<x", "line 1: a token has no closing '>'"},
      {"root ::= \"a\" root", "rule 'root' can never come to an end"},
  };
  for (const auto& c : cases) EXPECT_EQ(fault(c.grammar), c.message) << c.grammar;
}

// A state that was put away and one that is asked again and again stay right while the machine forgets.
TEST(GrammarState, MarksAndLongTexts) {
  Grammar g;
  char message[256] = {};
  ASSERT_EQ(g.compile_gbnf("root ::= \"[\" (root (\",\" root)*)? \"]\" | [0-9]{1,9}", message), kOk)
      << message;
  GrammarState state;
  ASSERT_EQ(state.init(&g, nullptr), kOk);
  ASSERT_EQ(state.accept_bytes("[1,2"), kOk);
  const GrammarState::Mark mark = state.mark();
  EXPECT_EQ(state.accept_bytes("}"), kErrInput);
  EXPECT_TRUE(state.is_dead());
  ASSERT_TRUE(state.rewind(mark));
  for (int i = 0; i < 60000; ++i) ASSERT_EQ(state.accept_bytes(",[12"), kOk);
  EXPECT_FALSE(state.rewind(mark));
  for (int i = 0; i < 60000; ++i) ASSERT_EQ(state.accept_bytes("]"), kOk);
  EXPECT_FALSE(state.can_end());
  ASSERT_EQ(state.accept_bytes("]"), kOk);
  EXPECT_TRUE(state.can_end());
  EXPECT_EQ(state.accept_bytes("]"), kErrInput);
}

}  // namespace
}  // namespace gcrt
