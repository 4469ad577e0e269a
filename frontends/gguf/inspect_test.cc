#include "frontends/gguf/inspect.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "frontends/gguf/test_files.h"

namespace gc::gguf {
namespace {

GgufWriter model() {
  GgufWriter w("llama");
  w.str("general.name", "Tiny").u32("llama.block_count", 2).f32("nan", NAN).boolean("flag", true);
  std::vector<int> many(100);
  std::iota(many.begin(), many.end(), 0);
  w.array("many", GgufWriter::kI32, many).array<float>("few", GgufWriter::kF32, {0.5f, 1});
  w.tensor_f32("a", {4, 2}, std::vector<float>(8)).tensor("b", {32}, 8, FileBytes(34));
  return w;
}

std::string printed(const GgufWriter& w, InspectOptions options) {
  const Folder folder;
  std::ostringstream out;
  EXPECT_EQ(inspect(File::open(folder.write("m.gguf", w.bytes())), options, out), 0);
  std::string text = out.str();
  return text.substr(std::min(text.size(), text.find("m.gguf")));
}

TEST(Inspect, Text) {
  EXPECT_EQ(printed(model(), {}), R"(m.gguf: GGUF version 3, 832 B, alignment 32

7 keys
  general.architecture  string    'llama'
  general.name          string    'Tiny'
  llama.block_count     u32       2
  nan                   f32       nan
  flag                  bool      true
  many                  i32[100]  [0, 1, 2, 3, 4, 5, 6, 7, ...]
  few                   f32[2]    [0.5, 1]

2 tensors
  a  [4, 2]  F32            32 B
  b  [32]    Q8_0           34 B

type       tensors      values       bytes  bits per value
F32              1           8        32 B           32.00
Q8_0             1          32        34 B            8.50
all              2          40        66 B           13.20
)");
}

TEST(Inspect, NothingInside) {
  EXPECT_EQ(printed(GgufWriter(""), {}),
            "m.gguf: GGUF version 3, 32 B, alignment 32\n\n0 keys\n\n0 tensors\n");
}

TEST(Inspect, Json) {
  const Folder folder;
  std::ostringstream out;
  inspect(File::open(folder.write("m.gguf", model().bytes())), {.json = true, .array_items = 2}, out);
  const auto json = nlohmann::json::parse(out.str());
  EXPECT_EQ(json["architecture"], "llama");
  EXPECT_EQ(json["name"], "Tiny");
  EXPECT_EQ(json["version"], 3);
  EXPECT_EQ(json["values"], 40);
  EXPECT_EQ(json["metadata"]["llama.block_count"], 2);
  EXPECT_EQ(json["metadata"]["flag"], true);
  EXPECT_EQ(json["metadata"]["nan"], "nan");
  EXPECT_EQ(json["metadata"]["many"],
            nlohmann::json::parse(R"({"element": "i32", "count": 100, "first": [0, 1]})"));
  EXPECT_EQ(json["metadata"]["few"], nlohmann::json::parse("[0.5, 1.0]"));
  EXPECT_EQ(json["tensors"][0]["shape"], nlohmann::json::parse("[4, 2]"));
  EXPECT_EQ(json["tensors"][1]["type"], "Q8_0");
  EXPECT_EQ(json["types"]["Q8_0"]["bytes"], 34);
  EXPECT_EQ(json["shards"].size(), 1u);
}

TEST(Inspect, BytesThatAreNoUtf8BecomeReplacementCharacters) {
  GgufWriter w("llama");
  w.str("s",
        "a\xff"
        "b")
      .str("k\xfe", "v");
  const Folder folder;
  std::ostringstream out;
  inspect(File::open(folder.write("m.gguf", w.bytes())), {.json = true}, out);
  const auto json = nlohmann::json::parse(out.str());
  EXPECT_EQ(json["metadata"]["s"], "a\uFFFDb");
  EXPECT_EQ(json["metadata"]["k\uFFFD"], "v");
}

}  // namespace
}  // namespace gc::gguf
