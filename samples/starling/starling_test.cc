// The graph says what the description of Starling says.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "frontends/gguf/arch/arch.h"
#include "frontends/gguf/reader.h"
#include "tests/support/tiny_model.h"

namespace gc::gguf {

LoadedModel load_starling(const File& file);

namespace {

using ir::AttrName;
using ir::OpKind;

ir::Graph starling_graph() {
  const testing::TinyModel m{.architecture = "starling", .n_layer = 8};
  testing::GgufWriter w = testing::tiny_model(m);
  w.f32("starling.logit_scale", 0.25f);
  testing::TinyTensors t(w, m.seed);
  t.norm("token_embd_norm.weight", m.n_embd);
  for (uint32_t i = 0; i < m.n_layer; ++i) {
    const std::string blk = "blk." + std::to_string(i) + ".";
    w.drop_tensor(blk + "ffn_gate.weight");
    t.norm(blk + "attn_q_norm.weight", m.head_dim);
    t.norm(blk + "attn_k_norm.weight", m.head_dim);
  }
  const std::string path = ::testing::TempDir() + "starling.gguf";
  w.write(path);
  return load_starling(File::open(path)).graph;
}

int count(const ir::Graph& g, OpKind kind) {
  int n = 0;
  for (const ir::Op& op : g.ops) n += op.kind == kind;
  return n;
}

TEST(Starling, ThreeLayersSlideAndTurnToOneThatSeesAll) {
  const ir::Graph g = starling_graph();
  std::vector<int64_t> windows;
  for (const ir::Op& op : g.ops)
    if (op.kind == OpKind::attention) windows.push_back(op.i64(AttrName::window));
  EXPECT_EQ(windows, (std::vector<int64_t>{1024, 1024, 1024, 0, 1024, 1024, 1024, 0}));
  EXPECT_EQ(count(g, OpKind::rope), 6 * 2);  // q and k
}

TEST(Starling, SquaredReluWithoutAGate) {
  const ir::Graph g = starling_graph();
  int squared = 0;
  for (const ir::Op& op : g.ops) squared += op.kind == OpKind::act && op.fn() == ir::Fn::relu2;
  EXPECT_EQ(squared, 8);
  EXPECT_EQ(count(g, OpKind::glu), 0);
}

TEST(Starling, NormsOfTheEmbeddingAndOfHeadsAndLogitsTimesAFactor) {
  const ir::Graph g = starling_graph();
  EXPECT_EQ(count(g, OpKind::rms_norm), 1 + 8 * (2 + 2) + 1);
  const ir::Op& last = g.ops.back();
  EXPECT_EQ(last.kind, OpKind::scale);
  EXPECT_EQ(last.f32_or(AttrName::by, 1), 0.25);
}

}  // namespace
}  // namespace gc::gguf
