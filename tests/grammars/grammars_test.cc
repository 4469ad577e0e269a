// Grammars as people write them (*.gbnf here), each with texts that it accepts and texts that it refuses; the answers
// that masks are timed along (mask_bench.cc).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compiler/base/mapped_file.h"
#include "runtime/text/grammar.h"

namespace {

struct Texts {
  const char* name;
  std::vector<std::string> accepted, refused;
};

std::string chess_game(int turns) {
  std::string out;
  for (int i = 1; i <= turns; ++i) out += std::to_string(i) + ". Nf3 Nc6\n";
  return out;
}

std::vector<Texts> all_texts() {
  return {
      {"arithmetic",
       {"1 = 1\n", "1+2*3 = 7\n", "-(a-b)/2.5 = -x_1\n(1) = 1\n", "1-2-3 = ((1-2)-3)\n", "((((1)))) = 1\n"},
       {"", "1 = 1", "1+ = 1\n", "1++2 = 3\n", "(1 = 1\n", "1.=1\n", "A = 1\n", "1 = 1\n\n"}},
      {"c",
       {"int main() {return 0;}\n",
        "void f(int a, char* b) {\n  int x = a + 1;\n  while (x < 10 && !done(x)) {x = x * 2;}\n  "
        "puts(\"hi\\n\");\n  return;\n}\n",
        "int f() {if (a == b) {f();} else if (c) {return (1);} else {f(g(x), 1);}}\nint g() {}\n"},
       {"int main() {return 0}\n", "int main() {return 0;}", "int 1x() {}\n", "int f() {int x = ;}\n",
        "int f() {x = a +b;}\n", "int f() {puts(\"a\nb\");}\n", "float f() {}\n"}},
      {"chess",
       {"1. e4 e5\n", "1. e4 e5\n2. Nf3 Nc6\n3. O-O exd5+\n4. bxa8=Q# Qh4e1\n1-0", chess_game(300)},
       {"e4 e5\n", "1. e9 e5\n", "1. e4\n", "1. e4 e5", "1. e4 e5\n1-1", chess_game(301), ""}},
      {"list",
       {"- a\n- b\n- c\n", "- a\n- b\n- c\n- d\n- é日本\n", "- " + std::string(80, 'x') + "\n- b\n- c\n"},
       {"- a\n- b\n", "- a\n- b\n- c\n- d\n- e\n- f\n", "- a|\n- b\n- c\n", "- \n- b\n- c\n",
        "- " + std::string(81, 'x') + "\n- b\n- c\n"}},
      {"japanese",
       {"今日は、いい天気ですね。", "コーヒーをください！ はい。\n人々？"},
       {"今日は", "hello。", "。", "今日は。。", "\xE4\xBB。", "今 日。"}},
      {"json",
       {"{}", " [ 1 , -0.5e+10 , \"a\\u00e9\\n\" , null ] ", "{\"a\": {\"b\": [[], {}]}, \"c\": true}",
        "\"日本\"", std::string(500, '[') + std::string(500, ']')},
       {"", "{", "[1,]", "{a: 1}", "01", "\"\\x\"", "\"\n\"", "[1 2]", "nul", "{\"a\"}", "1.", "\"\xFF\""}},
  };
}

TEST(Grammars, AcceptAndRefuse) {
  for (const Texts& t : all_texts()) {
    const std::string source = gc::read_text_file(std::string("tests/grammars/") + t.name + ".gbnf");
    gcrt::Grammar grammar;
    char message[256] = {};
    ASSERT_EQ(grammar.compile_gbnf({source.data(), source.size()}, message), gcrt::kOk)
        << t.name << ": " << message;
    gcrt::GrammarState state;
    ASSERT_EQ(state.init(&grammar, nullptr), gcrt::kOk);
    auto accepts = [&state](const std::string& text) {
      state.reset();
      return state.accept_bytes({text.data(), text.size()}) == gcrt::kOk && state.can_end();
    };
    for (const std::string& text : t.accepted) EXPECT_TRUE(accepts(text)) << t.name << ": " << text;
    for (const std::string& text : t.refused) EXPECT_FALSE(accepts(text)) << t.name << ": " << text;
  }
}

TEST(Grammars, Answers) {
  for (const char* name :
       {"arithmetic.gbnf", "c.gbnf", "chess.gbnf", "english.gbnf", "japanese.gbnf", "json.gbnf", "list.gbnf",
        "person.json", "words.gbnf", "fields.gbnf", "glued.gbnf"}) {
    const std::string file = name, source = gc::read_text_file("tests/grammars/" + file);
    const std::string text =
        gc::read_text_file("tests/grammars/answers/" + file.substr(0, file.find('.')) + ".txt");
    gcrt::Grammar grammar;
    char message[256] = {};
    ASSERT_EQ(file.ends_with(".json") ? grammar.compile_json_schema({source.data(), source.size()}, message)
                                      : grammar.compile_gbnf({source.data(), source.size()}, message),
              gcrt::kOk)
        << name << ": " << message;
    gcrt::GrammarState state;
    ASSERT_EQ(state.init(&grammar, nullptr), gcrt::kOk);
    EXPECT_EQ(state.accept_bytes({text.data(), text.size()}), gcrt::kOk) << name;
    EXPECT_TRUE(state.can_end()) << name;
  }
}

}  // namespace
