#include "compiler/text/tokenize_tool.h"

#include <sstream>
#include <string>

#include "compiler/base/error.h"
#include "compiler/text/freeze.h"
#include "compiler/text/test_vocab.h"
#include "gtest/gtest.h"

namespace gc::text {
namespace {

struct Fixture {
  Fixture() {
    vocab.vocab.add_space_prefix = false;
    for (char c = 'a'; c <= 'z'; ++c) vocab.add(std::string(1, c), -1);  // 'a' is 259
    blob = freeze(vocab.vocab, {}).blob;
  }
  std::string run(const TokenizeOptions& o, const std::string& input = "") const {
    std::istringstream in(input);
    std::ostringstream out;
    EXPECT_EQ(tokenize(blob, o, in, out), 0);
    return out.str();
  }
  TestVocab vocab;
  std::vector<std::uint8_t> blob;
};

TEST(TokenizeTool, IdsAndPieces) {
  Fixture f;
  TokenizeOptions o;
  o.text = "ab<s>";
  o.special = true;
  EXPECT_EQ(f.run(o), "1 '<s>'\n259 'a'\n260 'b'\n1 '<s>'\n");
  o.ids = true;
  EXPECT_EQ(f.run(o), "1,259,260,1\n");
  o.no_bos = true;
  EXPECT_EQ(f.run(o), "259,260,1\n");
  o.text = "";
  EXPECT_EQ(f.run(o), "\n");
}

TEST(TokenizeTool, StdinIsTakenAsItIs) {
  Fixture f;
  TokenizeOptions o;
  o.ids = o.no_bos = o.from_stdin = true;
  EXPECT_EQ(f.run(o, std::string("a\0b\n", 4)), "259,3,260,13\n");
}

TEST(TokenizeTool, JsonLinesGoOnAfterAnError) {
  Fixture f;
  TokenizeOptions o;
  o.no_bos = o.json_lines = true;
  EXPECT_EQ(f.run(o, "\"ab\"\n{\n5\n\"\\ud800\"\n\"\"\n\"a\\nb\"\n\"\xFF\"\n\"c\""),
            "[259,260]\n"
            "{\"error\":\"the line is not valid JSON\"}\n"
            "{\"error\":\"the line is not a JSON string\"}\n"
            "{\"error\":\"the line is not valid JSON\"}\n"
            "[]\n"
            "[259,13,260]\n"
            "{\"error\":\"the line is not valid JSON\"}\n"
            "[261]\n");
}

TEST(TokenizeTool, SaysWhatItCannotDo) {
  Fixture f;
  TokenizeOptions o;
  o.file = "/no/such/file";
  EXPECT_THROW(f.run(o), UserError);
  o.text = "a";
  EXPECT_THROW(f.run(o), UserError);
  Vocab none;
  none.model = "none";
  f.blob = freeze(none, {}).blob;
  EXPECT_THROW(f.run({}), UserError);
}

}  // namespace
}  // namespace gc::text
