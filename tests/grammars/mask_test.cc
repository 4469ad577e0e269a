// Masks are what trying each token by itself says, along random texts of many grammars, over a small vocabulary with all
// kinds of tokens: single bytes, words, punctuation that crosses rules, pieces of characters.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "compiler/base/mapped_file.h"
#include "compiler/text/freeze.h"
#include "compiler/text/test_vocab.h"
#include "runtime/text/grammar.h"

namespace {

const char* const kSchemas[] = {
    "{}",
    R"({"type":"object","properties":{"a":{"type":"string","maxLength":5},
        "b":{"type":"array","items":{"type":"integer"},"maxItems":3}},"required":["a"]})",
    R"({"type":"array","items":{"type":"string","minLength":2,"maxLength":4},"minItems":1,"maxItems":4})",
    R"({"properties":{"ab":{"enum":["x","yes",1,null]}},"additionalProperties":{"pattern":"^[a-c]{1,3}$"}})",
    R"({"type":"number","minimum":-3,"maximum":12.5})",
};
const char* const kGrammars[] = {
    R"g(root ::= [a-z]{2,7} ("," [a-z]{1,3}){0,3})g",
    R"g(root ::= (word " "){1,4} word
       word ::= [^ \n]+)g",
    R"g(root ::= .{3,9} "end" | [ab]* "b" [ab]{4})g",
    R"g(root ::= item+
       item ::= text | "(" item+ ")"
       text ::= word | word " " text
       word ::= [^ ()]+ | "")g",
    R"g(root ::= statement*
       statement ::= (name "(" name ")" | name) space
       name ::= [a-z] [a-z1]{0,9}
       space ::= [ \n]*)g",
    R"g(root ::= s
       s ::= s s | s "1" s | [a-z]+ | [1a-e]+ | " ")g",
    R"g(root ::= e
       e ::= e "," e | "-" e | e " " | "(" e ("," e)* ")" | [a-z]+)g",
    R"g(root ::= a
       a ::= b a | "1" b
       b ::= "a" "b" | a b "e" | "")g",
    R"g(root ::= (field sep){1,40}
       field ::= [^\n]{0,6}
       sep ::= "\n" | ", ")g",
    // Tokens by their numbers: control tokens, those with a text, others.
    R"g(root ::= <think> [a-z ]* !</think>{0,3} </think> (<[40]> | "x" <[41]> | [a-e]){2})g",
    R"g(root ::= (!<think> "," | <[300]> <[301]>)+)g",
};

std::vector<std::string> pieces() {
  std::vector<std::string> out;
  const std::vector<std::string> parts = {
      "a", "b", "ab", "abc", "yes", "end", " ", "  ", "\"",  ",", ":",  "\n",   "\n\n", "[", "]",  "{",
      "}", "(", ")",  "1",   "12",  "-",   ".", "\\", "\\n", "é", "日", "null", "true", "e", "\t", "x"};
  for (const std::string& p : parts) {
    if (p.size() > 1) out.push_back(p);
    for (const std::string& q : parts) {
      out.push_back(p + q);
      for (const char* r : {"\"", " ", "a", "}", ",", "\xE6\x97"}) out.push_back(p + q + r);
    }
  }
  // So many words after a space that they are a vocabulary of their own.
  const std::string letters = "abex1éy";
  for (int n = 0; n < 8 * 8 * 8 * 8; ++n) {
    std::string word = " ";
    for (int rest = n, i = 0; i < 4; ++i, rest /= 8) word += letters[static_cast<std::size_t>(rest % 8)];
    out.push_back(word);
  }
  return out;
}

class MaskTest : public ::testing::Test {
 protected:
  void SetUp() override {
    gc::text::TestVocab made;
    for (const std::string& p : pieces()) made.add(p, -1);
    for (const char* p : {"<think>", "</think>"}) made.add(p, 0, gc::text::TokenType::kControl);
    frozen_ = gc::text::freeze(made.vocab, {0, "", false, "llama"});
    ASSERT_EQ(tokenizer_.open({frozen_.blob.data(), frozen_.blob.size()}), gcrt::kOk);
    ASSERT_EQ(vocab_.init(tokenizer_), gcrt::kOk);
  }

  void check(const gcrt::Grammar& grammar, bool prepared, const std::string& name) {
    gcrt::GrammarState state;
    ASSERT_EQ(state.init(&grammar, &vocab_), gcrt::kOk);
    if (prepared) ASSERT_EQ(state.prepare(), gcrt::kOk);
    std::vector<std::uint64_t> mask(vocab_.mask_words() + 1);
    std::mt19937 random(7);
    for (int step = 0, ends = 0; step < 80; ++step) {
      ASSERT_EQ(state.fill_mask({mask.data(), mask.size()}), gcrt::kOk);
      std::vector<std::int32_t> allowed;
      const gcrt::GrammarState::Mark mark = state.mark();
      for (std::int32_t id = 0; id < vocab_.n_vocab(); ++id) {
        const bool accepted = state.accept_token(id) == gcrt::kOk;
        ASSERT_TRUE(state.rewind(mark));
        const bool bit = mask[id / 64] >> (id % 64) & 1;
        ASSERT_EQ(bit, accepted) << name << ", step " << step << ", token " << id << " '"
                                 << std::string(vocab_.text(id).data(), vocab_.text(id).size()) << "'";
        if (bit) allowed.push_back(id);
      }
      ASSERT_FALSE(allowed.empty()) << name;
      const std::int32_t id = allowed[random() % allowed.size()];
      ASSERT_EQ(state.accept_token(id), gcrt::kOk);
      if (vocab_.is_eog(id) || ++ends % 40 == 0) state.reset();
    }
  }

  gc::text::FrozenVocab frozen_;
  gcrt::Tokenizer tokenizer_;
  gcrt::GrammarVocab vocab_;
};

TEST_F(MaskTest, AreWhatTryingSays) {
  for (bool prepared : {false, true}) {
    for (const char* source : kSchemas) {
      gcrt::Grammar g;
      char message[256] = {};
      ASSERT_EQ(g.compile_json_schema(source, message), gcrt::kOk) << source << ": " << message;
      check(g, prepared, source);
    }
    for (const char* source : kGrammars) {
      gcrt::Grammar g;
      char message[256] = {};
      ASSERT_EQ(g.compile_gbnf(source, message, &tokenizer_), gcrt::kOk) << source << ": " << message;
      check(g, prepared, source);
    }
    for (const char* name : {"arithmetic", "c", "chess", "list", "japanese", "json"}) {
      const std::string source = gc::read_text_file(std::string("tests/grammars/") + name + ".gbnf");
      gcrt::Grammar g;
      char message[256] = {};
      ASSERT_EQ(g.compile_gbnf({source.data(), source.size()}, message), gcrt::kOk) << message;
      check(g, prepared, name);
    }
  }
}

TEST_F(MaskTest, TokensByNumber) {
  auto fault = [this](const char* source) {
    gcrt::Grammar g;
    char message[256] = {};
    EXPECT_EQ(g.compile_gbnf(source, message, &tokenizer_), gcrt::kErrInput) << source;
    return std::string(message);
  };
  EXPECT_EQ(fault("root ::= <nosuch>"), "line 1: '<nosuch>' is not one token of the vocabulary");
  EXPECT_EQ(fault("root ::= <[99999999999999]>"), "line 1: the vocabulary has no such token");
  EXPECT_EQ(fault("root ::= <[1x]>"), "line 1: expected the number of a token");

  const std::int32_t think = vocab_.n_vocab() - 2, end = think + 1;
  auto accepts = [this](const std::string& source, const std::vector<std::int32_t>& ids) {
    gcrt::Grammar g;
    char message[256] = {};
    EXPECT_EQ(g.compile_gbnf({source.data(), source.size()}, message, &tokenizer_), gcrt::kOk)
        << source << ": " << message;
    gcrt::GrammarState state;
    EXPECT_EQ(state.init(&g, &vocab_), gcrt::kOk);
    for (std::int32_t id : ids)
      if (state.accept_token(id) != gcrt::kOk) return false;
    return state.can_end();
  };
  const std::int32_t a = gc::text::TestVocab::kByte0 + 'a', b = a + 1;
  EXPECT_TRUE(accepts("root ::= <think> !</think>* </think> \"a\"", {think, b, a, think, end, a}));
  EXPECT_FALSE(accepts("root ::= <think> !</think>* </think> \"a\"", {think, b, end, b}));
  EXPECT_FALSE(accepts("root ::= <think> !</think>* </think> \"a\"", {b, end, a}));
  EXPECT_TRUE(accepts("root ::= \"a\" | <[0]>", {0}));
  EXPECT_TRUE(accepts("root ::= \"a\" | <[0]>", {a}));
  EXPECT_FALSE(accepts("root ::= !<[0]>", {0}));
  EXPECT_FALSE(accepts("root ::= !<[0]>", {2}));  // it ends a generation
  EXPECT_TRUE(accepts("root ::= !<[0]>{3}", {a, 1, end}));
  // A token that has a text may be meant by its number or by its text.
  const std::string both = "root ::= <[" + std::to_string(a) + "]> \"1\" | \"a2\"";
  EXPECT_TRUE(accepts(both, {a, gc::text::TestVocab::kByte0 + '1'}));
  EXPECT_TRUE(accepts(both, {a, gc::text::TestVocab::kByte0 + '2'}));
}

}  // namespace
