// Ambiguous and recursive grammars: random ones against a recognizer that fills a table of all parts of a text, and how
// much the machine keeps of texts that can be read in exponentially many ways.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "runtime/text/grammar.h"

namespace gcrt {
namespace {

// Symbols: letters, and rules as capitals.
struct Rules {
  std::vector<std::vector<std::string>> of;  // [rule] alternatives

  std::string gbnf() const {
    std::string out = "root ::= A\n";
    for (size_t r = 0; r < of.size(); ++r) {
      out += std::string(1, static_cast<char>('A' + r)) + " ::= ";
      for (size_t a = 0; a < of[r].size(); ++a) {
        if (a) out += " | ";
        if (of[r][a].empty()) out += "\"\"";
        for (char c : of[r][a]) out += c >= 'a' ? std::string(" \"") + c + '"' : std::string(" ") + c;
      }
      out += "\n";
    }
    return out;
  }

  // Which parts of the text are of which rule, until nothing is new.
  bool match(const std::string& text) const {
    const size_t n = text.size() + 1;
    std::vector<std::vector<char>> is(of.size(), std::vector<char>(n * n));
    for (bool fresh = true; fresh;) {
      fresh = false;
      for (size_t r = 0; r < of.size(); ++r)
        for (size_t begin = 0; begin < n; ++begin)
          for (const std::string& alternative : of[r])
            for (size_t end : ends(is, alternative, text, begin)) {
              char& known = is[r][begin * n + end];
              fresh |= !known;
              known = 1;
            }
    }
    return is[0][n - 1];
  }

 private:
  static std::vector<size_t> ends(const std::vector<std::vector<char>>& is, const std::string& symbols,
                                  const std::string& text, size_t begin) {
    const size_t n = text.size() + 1;
    std::vector<char> at(n), next;
    at[begin] = 1;
    for (char c : symbols) {
      next.assign(n, 0);
      for (size_t i = 0; i < n; ++i) {
        if (!at[i]) continue;
        if (c >= 'a') {
          if (i + 1 < n && text[i] == c) next[i + 1] = 1;
        } else {
          for (size_t end = i; end < n; ++end) next[end] |= is[static_cast<size_t>(c - 'A')][i * n + end];
        }
      }
      at.swap(next);
    }
    std::vector<size_t> out;
    for (size_t i = 0; i < n; ++i)
      if (at[i]) out.push_back(i);
    return out;
  }
};

void expect_same(const Rules& rules, size_t most) {
  const std::string source = rules.gbnf();
  Grammar g;
  char message[256] = {};
  const bool compiled = g.compile_gbnf({source.data(), source.size()}, message) == kOk;
  GrammarState state;
  if (compiled) ASSERT_EQ(state.init(&g, nullptr), kOk) << source;
  for (size_t size = 0; size <= most; ++size)
    for (uint32_t bits = 0; bits < 1u << size; ++bits) {
      std::string text;
      for (size_t i = 0; i < size; ++i) text += static_cast<char>('a' + (bits >> i & 1));
      bool accepted = false;
      if (compiled) {
        state.reset();
        accepted = state.accept_bytes({text.data(), text.size()}) == kOk && state.can_end();
      }
      ASSERT_EQ(accepted, rules.match(text)) << source << "'" << text << "' " << message;
    }
}

TEST(Ambiguity, RandomGrammarsAcceptWhatTheTableSays) {
  std::mt19937 random(5);
  for (int round = 0; round < 600; ++round) {
    Rules rules;
    rules.of.resize(1 + random() % 3);
    for (auto& alternatives : rules.of)
      for (unsigned a = 0, n = 1 + random() % 4; a < n; ++a) {
        std::string symbols;
        for (unsigned i = 0, size = random() % 4; i < size; ++i)
          symbols += static_cast<char>(random() % 2 ? 'a' + random() % 2 : 'A' + random() % rules.of.size());
        alternatives.push_back(symbols);
      }
    expect_same(rules, 6);
    if (HasFatalFailure()) return;
  }
}

TEST(Ambiguity, OneRuleThatRepeatsItself) {
  for (const std::vector<std::string>& alternatives : std::vector<std::vector<std::string>>{
           {"AA", "a"},
           {"AA", "AbA", "a"},
           {"AAA", "a", "b"},
           {"aA", "Ab", "ab"},
           {"AA", "aAb", "ab"},
           {"AaA", "AbA", "bAa", "a"},
           {"AA", "AAb", "a", "ba"},
           {"AA", "AAA", "aa", "ab", "b"},
       }) {
    expect_same({{alternatives}}, 10);
    if (HasFatalFailure()) return;
  }
}

// However deep a text may be read into such rules, the machine soon knows all situations.
TEST(Ambiguity, ExponentiallyManyReadingsTakeNoMemory) {
  for (const char* source : {
           R"g(root ::= s
              s ::= s s | s "+" s | [a-z]+ | [0-9a-z]+ | " ")g",
           R"g(root ::= e
              e ::= e "+" e | e "*" e | "-" e | "(" e ")" | [a-z]+)g",
           R"g(root ::= line ("\n" line)*
              line ::= word | line " " line | line "+" line
              word ::= [a-z]+ | word [a-z])g",
       }) {
    Grammar g;
    char message[256] = {};
    ASSERT_EQ(g.compile_gbnf(source, message), kOk) << source << message;
    GrammarState state;
    ASSERT_EQ(state.init(&g, nullptr), kOk);
    size_t early = 0;
    for (int i = 0; i < 2000; ++i) {
      ASSERT_EQ(state.accept_bytes("ab+abc+"), kOk) << source << " " << i;
      if (i == 20) early = state.machine()->bytes();
    }
    EXPECT_EQ(state.machine()->bytes(), early) << source;
  }
}

}  // namespace
}  // namespace gcrt
