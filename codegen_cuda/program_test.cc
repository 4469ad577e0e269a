// What a graph becomes as launches, and what is refused. That kernels are right is for tests/e2e/cuda.sh.
#include "codegen_cuda/program.h"

#include <gtest/gtest.h>

#include <set>

#include "codegen_cuda/arch.h"
#include "codegen_cuda/backend.h"
#include "compiler/base/error.h"
#include "compiler/ir/parse.h"

namespace gc::cuda {
namespace {

// Two layers of one shape over a norm that one product reads, and a head.
constexpr char kLayers[] = R"(graph @g(rows: row[T]) -> y: f32[T, 96] {
  %x0 = embed(rows.token, table = weight "e": q8_0[96, 64])
  layer 0 (%x0) {
    %n0 = rms_norm(%x0, weight = weight "n0": f32[64]) {eps = 1e-06, out = q16}
    %g0 = matmul_glu(%n0, gate = [weight "g0": q4_0[128, 64]], up = [weight "u0": q4_0[128, 64]]) {fn = silu, out = q16}
    %d0 = matmul(%g0, rows = [weight "d0": q5_0[64, 128]])
  }
  layer 1 (%r1) {
    %r1, %n1 = residual_norm(%x0, %d0, pre = weight "n1": f32[64]) {eps = 1e-06, out = q16}
    %g1 = matmul_glu(%n1, gate = [weight "g1": q4_0[128, 64]], up = [weight "u1": q4_0[128, 64]]) {fn = silu, out = q16}
    %d1 = matmul(%g1, rows = [weight "d1": q5_0[64, 128]])
  }
  head (%r2) {
    %r2, %n2 = residual_norm(%r1, %d1, pre = weight "n2": f32[64]) {eps = 1e-06, out = q16}
    %y = matmul(%n2, rows = [weight "e"])
  }
})";

plan::Plan plan_of(const std::string& text) { return plan::make_plan(ir::parse(text), CudaBackend()); }

std::vector<std::string> kernels(const std::vector<Launch>& launches) {
  std::vector<std::string> names;
  for (const Launch& launch : launches) names.push_back(launch.kernel);
  return names;
}

TEST(Program, NormsAreFrontsOfProductsInStepsOfOneRow) {
  const Program p = make_program(plan_of(kLayers), GC_KV_F16);
  EXPECT_EQ(kernels(p.one), (std::vector<std::string>{"embed_q8_0_64", "glu_q4_0_128x64_norm",
                                                      "matmul_q5_0_64x128", "glu_q4_0_128x64_norm_2",
                                                      "matmul_q5_0_64x128", "matmul_q8_0_96x64_norm"}));
  EXPECT_EQ(kernels(p.many),
            (std::vector<std::string>{"embed_q8_0_64", "rms_norm_64", "glu_q4_0_128x64",
                                      "matmul_q5_0_64x128_2", "residual_norm_64", "glu_q4_0_128x64",
                                      "matmul_q5_0_64x128_2", "residual_norm_64", "matmul_q8_0_96x64"}));
}

TEST(Program, TheSourceStandsAlone) {
  const Program p = make_program(plan_of(kLayers), GC_KV_F16);
  EXPECT_EQ(p.source.find("#include"), std::string::npos);
  for (const auto* list : {&p.one, &p.many})
    for (const Launch& launch : *list)
      EXPECT_NE(
          p.source.find(cat("void __launch_bounds__(128) ", launch.kernel, "(const Step s, const At a)")),
          std::string::npos)
          << launch.kernel;
}

// Values that live at the same time, in launches of either list, don't share memory; others do.
TEST(Program, PlacesOfValues) {
  const plan::Plan plan = plan_of(kLayers);
  const Program p = make_program(plan, GC_KV_F16);
  for (const auto* list : {&p.one, &p.many})
    for (const Launch& launch : *list) {
      if (launch.values.size() < 2) continue;
      std::set<int64_t> at;
      const size_t stored =
          launch.kernel.starts_with("matmul_q8_0") ? launch.values.size() - 1 : launch.values.size();
      for (size_t i = 0; i < stored; ++i) at.insert(launch.values[i].offset);
      EXPECT_EQ(at.size(), stored) << launch.kernel;
    }
  int64_t all = 0;
  for (const ir::Value& v : plan.graph.values)
    all += CudaBackend().row_bytes(v.type.elem, columns_of(v.type));
  EXPECT_LT(p.row_bytes, all - 4 * 96);
  const gc_cuda_sizes sizes{7, 7, 1};
  const device::At operand = gc_cuda_operands(arena_facts(p), packed(p, plan, p.many[1]), sizes);
  EXPECT_LT(operand.value[0] + 7 * 4 * 64, gc_cuda_arena(arena_facts(p), sizes).end + 1);
}

TEST(Program, Grids) {
  gc_cuda_launch rows{};
  rows.blocks = 40, rows.rows_at_once = 4, rows.deep = 1;
  EXPECT_EQ(gc_cuda_grid_of(rows, 9, 1, 1).x, 40);
  EXPECT_EQ(gc_cuda_grid_of(rows, 9, 1, 1).y, 3);
  gc_cuda_launch ranges{};
  ranges.ranges = 1, ranges.blocks = 2, ranges.most_ranges = 3;
  EXPECT_EQ(gc_cuda_grid_of(ranges, 9, 1, 100).x, 3);
  EXPECT_EQ(gc_cuda_grid_of(ranges, 9, 1, 100).z, 9);
}

void expect_refused(std::string text, const std::string& from, const std::string& to,
                    const std::string& why) {
  text.replace(text.find(from), from.size(), to);
  try {
    make_program(plan_of(text), GC_KV_F16);
    FAIL() << "compiled: " << why;
  } catch (const UnsupportedError& e) {
    EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
  }
}

TEST(Program, WhatHasNoKernelIsRefusedByName) {
  expect_refused(kLayers, "q8_0[96, 64]", "iq4_kt[96, 64]", "IQ4_KT");
  expect_refused(
      kLayers, "%n1 = residual_norm(%x0, %d0, pre = weight \"n1\": f32[64]) {eps = 1e-06, out = q16}",
      "%m1 = residual_norm(%x0, %d0) {eps = 1e-06}\n %n1 = route_by_token(%m1, rows.token, table = weight "
      "\"et\": i32[96, 4]) {used = 4}",
      "route_by_token of 'n1' on cuda: has no device kernel yet");
  expect_refused(kLayers, "%y = matmul(%n2, rows = [weight \"e\"])",
                 "%z = matmul(%n2, rows = [weight \"e\"])\n %y = scale(%z) {by = 2}",
                 "scale of 'y' on cuda: outputs other than one matrix's logits");
}

TEST(Arch, OneSourceServesAll) {
  for (const Arch& arch : all_archs()) {
    EXPECT_GE(arch.shared_block, kStaticShared) << arch.name;
    EXPECT_TRUE(arch.has_async && arch.has_mma) << arch.name;
  }
}

}  // namespace
}  // namespace gc::cuda
