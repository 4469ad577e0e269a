#include "compiler/plan/plan.h"

#include <gtest/gtest.h>

#include "compiler/base/error.h"
#include "compiler/ir/builder.h"
#include "compiler/plan/lifetime.h"

namespace gc::plan {
namespace {

class TestBackend : public Backend {
 public:
  std::string_view name() const override { return "test"; }
  std::string can(const ir::Graph&, const ir::Op& op) const override {
    return op.kind == ir::OpKind::layer_norm ? "layer_norm has no kernel" : "";
  }
  int64_t row_bytes(ir::Elem, int64_t columns) const override { return (columns * 4 + 63) / 64 * 64; }
  int64_t panel_bytes(Format, int64_t columns) const override { return columns * 64; }
  int64_t worker_scratch(const ir::Graph&, const ir::Op&) const override { return 100; }
  int64_t worker_row_scratch(const ir::Graph&, const ir::Op&) const override { return 0; }
  int64_t kv_block_bytes(const ir::State& s, int type) const override {
    return type == GC_KV_F32 ? s.heads * (s.k_dim + s.v_dim) * 64 * 4 : 0;
  }
};

constexpr int64_t kEmbd = 32, kVocab = 100;

// Two layers of norm, matrix product and residual, unfused, with a tied head.
ir::Graph small_graph(int layers) {
  ir::Builder b("small.step");
  const ir::WeightId table = b.weight("token_embd.weight", Format::F32, {kVocab, kEmbd});
  ir::ValueId x = b.embed(table, "x");
  for (int i = 0; i < layers; ++i) {
    const std::string blk = cat("blk.", i, ".");
    b.begin_layer(x);
    const ir::ValueId n = b.rms_norm(x, b.weight(blk + "norm", Format::F32, {kEmbd}), 1e-6, blk + "n");
    const ir::ValueId y = b.matmul(n, b.weight(blk + "w", Format::F32, {kEmbd, kEmbd}), blk + "y");
    x = b.add(x, y, blk + "out");
  }
  b.end_layers(x);
  b.output(b.softcap(b.matmul(b.select(x, "rows"), table, "raw"), 30, "logits"));
  return b.take();
}

TEST(Plan, MeetsOnlyWhereDataCrossesWorkers) {
  const Plan plan = make_plan(small_graph(2), TestBackend());
  std::vector<Meet> meets;
  std::vector<Split> splits;
  for (const Step& step : plan.steps) {
    meets.push_back(step.before);
    splits.push_back(step.split);
  }
  // embed norm | matmul || add norm | matmul || add . select | matmul softcap
  EXPECT_EQ(meets, (std::vector<Meet>{Meet::None, Meet::None, Meet::IfShared, Meet::Always, Meet::None,
                                      Meet::IfShared, Meet::Always, Meet::IfShared, Meet::IfOutputsShared,
                                      Meet::None}));
  EXPECT_EQ(splits.back(), Split::Columns);
  EXPECT_EQ(plan.section, (std::vector<int32_t>{0, 1, 4, 7, 10}));
}

TEST(Plan, TiedTableLiesOnceAtTheHead) {
  const Plan plan = make_plan(small_graph(1), TestBackend());
  ASSERT_EQ(plan.packed.size(), 3u);
  EXPECT_EQ(plan.packed[0].name, "blk.0.norm");
  EXPECT_EQ(plan.packed[2].name, "token_embd.weight");
  EXPECT_EQ(plan.packed[2].bytes, 7 * kEmbd * 64);  // 100 rows are 7 panels
}

TEST(Plan, ResidualStaysInPlaceAndMatricesTakeTurns) {
  const Plan plan = make_plan(small_graph(3), TestBackend());
  const ir::Graph& g = plan.graph;
  int64_t before = -1;
  for (int layer = 0; layer < 3; ++layer) {
    EXPECT_EQ(plan.buffers[g.layer_input[layer].index], plan.buffers[g.layer_input[0].index]);
    // A worker may still read the last product while another writes the next one: not in one place.
    const Buffer& product = plan.buffers[g.ops[plan.steps[plan.section[1 + layer] + 1].op].results[0].index];
    EXPECT_EQ(product.place, Buffer::Place::Rows);
    EXPECT_NE(product.offset, before);
    before = product.offset;
  }
  EXPECT_EQ(plan.buffers[g.outputs[0].index].place, Buffer::Place::Sink);
  EXPECT_EQ(plan.arena.per_row, 2 * 128 + 128 + 128);  // two products, the residual, the norm
}

// A product is capped in its own place only where nothing else reads it.
TEST(Plan, ACappedProductThatIsReadAgainStays) {
  for (const bool again : {false, true}) {
    ir::Builder b("capped.step");
    const ir::ValueId x = b.embed(b.weight("token_embd.weight", Format::F32, {kVocab, kEmbd}), "x");
    b.begin_layer(x);
    const ir::ValueId y = b.matmul(x, b.weight("w", Format::F32, {kEmbd, kEmbd}), "y");
    const ir::ValueId capped = b.softcap(y, 4, "capped");
    const ir::ValueId end = b.mul(again ? y : x, capped, "end");
    b.end_layers(end);
    b.output(b.select(end, "rows"));
    const Plan plan = make_plan(b.take(), TestBackend());
    const Buffer &from = plan.buffers[y.index], &to = plan.buffers[capped.index];
    EXPECT_EQ(from.place == to.place && from.offset == to.offset, !again);
  }
}

TEST(Plan, RefusesByNameWhatTheBackendLacks) {
  ir::Builder b("bad.step");
  const ir::ValueId x = b.embed(b.weight("token_embd.weight", Format::F32, {kVocab, kEmbd}), "x");
  b.begin_layer(x);
  const ir::ValueId n = b.layer_norm(x, b.weight("w", Format::F32, {kEmbd}), {}, 1e-5, "blk.0.n");
  b.end_layers(n);
  b.output(b.select(n, "rows"));
  try {
    make_plan(b.take(), TestBackend());
    FAIL();
  } catch (const UnsupportedError& e) {
    EXPECT_STREQ(e.what(), "layer_norm of 'blk.0.n' on test: layer_norm has no kernel");
  }
}

TEST(PhaseAllocator, SharesOnlyAcrossPhases) {
  PhaseAllocator a;
  EXPECT_EQ(a.take(64, 0, 1), 0);
  EXPECT_EQ(a.take(64, 1, 2), 64);  // touches phase 1
  EXPECT_EQ(a.take(64, 2, 2), 0);   // the first is gone
  EXPECT_EQ(a.take(128, 2, 3), 128);
  a.extend(0, 5);
  EXPECT_EQ(a.take(64, 4, 4), 64);
  EXPECT_EQ(a.size(), 256);
}

}  // namespace
}  // namespace gc::plan
