#include "compiler/draw/draw.h"

#include <gtest/gtest.h>

#include "compiler/base/strings.h"
#include "compiler/ir/builder.h"

namespace gc::draw {
namespace {

// Every third layer is another.
ir::Graph graph_of(int layers) {
  ir::Builder b("some \"model\" <1>");
  ir::ValueId x = b.embed(b.weight("token_embd.weight", Format::Q8_0, {100, 32}), "x");
  for (int i = 0; i < layers; ++i) {
    const std::string blk = cat("blk.", i, ".");
    b.begin_layer(x);
    const ir::ValueId n = b.rms_norm(x, b.weight(blk + "norm", Format::F32, {32}), 1e-6, blk + "n");
    const ir::ValueId y =
        b.matmul(n, b.weight(blk + "w", i % 3 == 2 ? Format::Q8_0 : Format::Q4_0, {32, 32}), blk + "y");
    x = b.add(x, y, blk + "out");
  }
  b.end_layers(x);
  b.output(b.select(x, "rows"));
  return b.take();
}

TEST(Fold, EqualLayersAreOneSection) {
  std::vector<std::string> titles;
  for (const Section& s : fold(graph_of(7))) titles.push_back(s.title);
  EXPECT_EQ(titles,
            (std::vector<std::string>{"embedding", "layer 0", "layers 1, 3-4, 6", "layers 2, 5", "head"}));
}

TEST(Fold, NodesNameWhatTheyRead) {
  const Section layer = fold(graph_of(7))[2];
  ASSERT_EQ(layer.nodes.size(), 3u);
  EXPECT_EQ(layer.nodes[1].kind, "matmul");
  EXPECT_EQ(layer.nodes[1].name, "blk.*.y");
  EXPECT_EQ(layer.nodes[1].from, std::vector<int>{0});
  EXPECT_EQ(layer.nodes[1].details.back(), "rows blk.*.w q4_0[32, 32]");
  EXPECT_EQ(layer.nodes[2].outside, std::vector<std::string>{"blk.*.out"});
}

TEST(Html, SizeDoesntGrowWithTheNumberOfLayers) {
  const std::string small = to_html(graph_of(9), graph_of(9)), large = to_html(graph_of(60), graph_of(60));
  EXPECT_LT(large.size(), small.size() + 600);
  EXPECT_EQ(large.find("<1>"), std::string::npos);  // names are text, never markup
  EXPECT_NE(large.find("some &quot;model&quot; &lt;1&gt;"), std::string::npos);
}

TEST(Dot, QuotesNames) {
  const std::string dot = to_dot(graph_of(2));
  EXPECT_EQ(dot.rfind("digraph \"some \\\"model\\\" <1>\" {", 0), 0u);
  EXPECT_NE(dot.find("n1_0 -> n1_1;"), std::string::npos);
}

}  // namespace
}  // namespace gc::draw
