// The runner: names, dumps, switches. What passes do is in test/*.gir.
#include "compiler/passes/pass.h"

#include <gtest/gtest.h>

#include "compiler/base/error.h"
#include "compiler/ir/parse.h"
#include "compiler/ir/print.h"

namespace gc::passes {
namespace {

ir::Graph graph() {
  return ir::parse(R"(graph @m.step(rows: row[T]) -> y: f32[R, 8] {
    %e = embed(rows.token, table = weight "e": f32[20, 8])
    %s = act(%e) {fn = silu}
    %dead = scale(%s) {by = 2}
    %y = select(%s, rows.output)
  })");
}

std::string error_of(const PassOptions& options) {
  try {
    run_passes(graph(), options);
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

TEST(RunPasses, DumpsSayWhatChanged) {
  std::vector<std::string> dumps;
  std::vector<Timing> timings;
  PassOptions options;
  options.dump_after = {"all"};
  options.dump = [&](std::string_view pass, std::string_view text) {
    dumps.push_back(cat(pass, text == "(unchanged)\n" ? "" : " changed"));
  };
  options.timings = &timings;
  ir::Graph g = run_passes(graph(), options);
  EXPECT_EQ(g.ops.size(), 3u);
  ASSERT_EQ(dumps.size(), all_passes().size());
  EXPECT_EQ(dumps.front(), "fold_constants");
  EXPECT_EQ(dumps.back(), "dead_values changed");
  EXPECT_EQ(timings.size(), all_passes().size());
}

TEST(RunPasses, StopsAndLeavesOut) {
  PassOptions options;
  options.stop_after = "fuse_glu";
  EXPECT_EQ(run_passes(graph(), options).ops.size(), 4u);
  options.stop_after = "";
  options.disabled = {"dead_values"};
  EXPECT_EQ(run_passes(graph(), options).ops.size(), 4u);
}

TEST(RunPasses, RefusesUnknownNames) {
  PassOptions options;
  options.disabled = {"fuse_everything"};
  EXPECT_EQ(error_of(options).substr(0, 60), "there is no pass 'fuse_everything'; passes are fold_constant");
  options.disabled.clear();
  options.stop_after = "x";
  EXPECT_NE(error_of(options), "");
}

TEST(SplitRoles, NamesTheGraphs) {
  auto roles = split_roles(graph());
  ASSERT_EQ(roles.size(), 3u);
  EXPECT_EQ(roles[0].name, "m.step.prefill");
  EXPECT_EQ(roles[1].name, "m.step.decode");
  EXPECT_EQ(roles[2].name, "m.step.mixed");
}

}  // namespace
}  // namespace gc::passes
