// The kernel against the interpreter's meaning of the op, whatever the weights, the bias, the groups.
#include "codegen_cpu/kernels/route/route.h"

#include <gtest/gtest.h>

#include "codegen_cpu/kernels/testing.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/interpret.h"
#include "runtime/abi/program.h"

namespace gc::cpu {
namespace {

using testing::Buffer;
using testing::Kernels;
using Route = void(const float* x, std::int64_t xs, const float* bias, float* y, std::int64_t ys,
                   std::int64_t rows);
using Weights = ir::RouteArgs::Weights;

constexpr std::int64_t kRows = 9;

struct Case {
  std::int64_t experts;
  ir::RouteArgs args;
  bool bias = false;
};

RouteSpec spec_of(const Case& c) {
  const bool chosen = c.args.weights == Weights::SoftmaxOfChosen;
  return {.experts = c.experts,
          .used = c.args.used,
          .bias = c.bias,
          .fn = c.args.weights == Weights::Sigmoid        ? std::optional(ir::Fn::sigmoid)
                : c.args.weights == Weights::RootSoftplus ? std::optional(ir::Fn::root_softplus)
                                                          : std::nullopt,
          .normed = chosen || c.args.norm,
          .least = chosen ? 0 : 0x1p-14f,
          .by = static_cast<float>(c.args.scale),
          .groups = c.args.groups,
          .groups_used = c.args.groups_used};
}

// [kRows, experts] of logits as an embedding of tokens 0, 1, ...
std::vector<float> expected(const Case& c, const Buffer<float>& logits, const Buffer<float>& bias) {
  ir::Builder b("route");
  ir::RouteArgs args = c.args;
  if (c.bias) args.bias = b.weight("bias", Format::F32, {c.experts});
  b.output(b.route(b.embed(b.weight("logits", Format::F32, {kRows, c.experts}), "x"), args, "y"));
  const ir::Graph graph = b.take();
  ir::Interpreter interpreter(graph, [&](const ir::Weight& w, std::int64_t row, float* out) {
    const float* from = w.name == "bias" ? bias.data() : logits.data() + row * c.experts;
    std::copy_n(from, c.experts, out);
  });
  std::vector<ir::Row> rows;
  for (std::int32_t t = 0; t < kRows; ++t) rows.push_back({.token = t, .position = t});
  return interpreter.run(rows)[0].data;
}

TEST(Route, AgreesWithTheOp) {
  const std::vector<Case> cases = {
      {2, {.used = 2}},
      {5, {.used = 1}},
      {8, {.used = 2, .norm = true}},
      {16, {.used = 16, .scale = 2.5}},
      {60, {.used = 4}},
      {128, {.used = 8, .norm = true}},
      {33, {.used = 4, .weights = Weights::SoftmaxOfChosen}},
      {128, {.used = 6, .weights = Weights::Sigmoid, .norm = true, .scale = 2.446}, true},
      {7, {.used = 3, .weights = Weights::Sigmoid}, true},
      {64, {.used = 4, .weights = Weights::Sigmoid, .norm = true, .groups = 8, .groups_used = 3}, true},
      {20, {.used = 3, .groups = 5, .groups_used = 2}},
      {48, {.used = 6, .weights = Weights::RootSoftplus, .norm = true, .scale = 1.5}, true},
  };
  for (const Isa* isa : host_isas()) {
    for (const Case& c : cases) {
      Kernels k(*isa);
      const std::string name = k.name(route(k.e(), spec_of(c)));
      const std::int64_t stride = (c.experts + 15) / 16 * 16 + 16;
      Buffer<float> logits(kRows * c.experts), bias(c.experts), x(kRows * stride), y(kRows * stride);
      testing::fill_random(logits, 1, 2);
      testing::fill_random(bias, 2, 0.5f);
      for (std::int64_t t = 0; t < kRows; ++t) std::copy_n(&logits[t * c.experts], c.experts, &x[t * stride]);
      for (float& v : y) v = 77;
      k.get<Route>(name)(x.data(), stride * 4, bias.data(), y.data(), stride * 4, kRows);
      const std::vector<float> r = expected(c, logits, bias);
      for (std::int64_t t = 0; t < kRows; ++t) {
        std::int64_t chosen = 0;
        for (std::int64_t e = 0; e < c.experts; ++e) {
          const float found = y[t * stride + e], wanted = r[t * c.experts + e];
          ASSERT_NEAR(found, wanted, 2e-6 * std::abs(wanted)) << isa->name << " " << name << " " << e;
          chosen += found != 0;
        }
        EXPECT_EQ(chosen, c.args.used) << name;
        EXPECT_EQ(y[t * stride + c.experts], 77) << name;
      }
    }
  }
}

// Each token's experts are given; numbers that are no expert's stay inside.
TEST(Route, ByToken) {
  constexpr std::int64_t kExperts = 20, kUsed = 3, kTokens = 5;
  const ir::RouteArgs args = {.used = kUsed, .weights = Weights::RootSoftplus, .norm = true, .scale = 1.5};
  const float table[kTokens][kUsed] = {{0, 1, 2}, {19, 3, 7}, {4, 16, 15}, {11, 12, 2}, {9, 8, 10}};
  Buffer<float> logits(kRows * kExperts), y(kRows * kExperts), experts(kTokens * kUsed);
  testing::fill_random(logits, 3, 2);
  std::copy_n(&table[0][0], experts.size(), experts.data());
  std::vector<gc_row> rows(kRows);
  for (std::int32_t t = 0; t < kRows; ++t) rows[t].token = t * 2 % kTokens;
  using ByToken =
      void(const gc_row*, const float*, std::int64_t, const float*, float*, std::int64_t, std::int64_t);
  for (const Isa* isa : host_isas()) {
    Kernels k(*isa);
    const RouteSpec spec = spec_of({kExperts, args});
    auto* f = k.get<ByToken>(k.name(route_by_token(k.e(), spec)));
    f(rows.data(), logits.data(), 4 * kExperts, experts.data(), y.data(), 4 * kExperts, kRows);
    for (std::int64_t t = 0; t < kRows; ++t) {
      const float* chosen = table[rows[t].token];
      double sum = 0, want[kExperts] = {};
      const auto weight = [&](float e) {
        return std::sqrt(std::log1p(std::exp(double(logits[t * kExperts + static_cast<std::int64_t>(e)]))));
      };
      for (std::int64_t i = 0; i < kUsed; ++i) sum += weight(chosen[i]);
      for (std::int64_t i = 0; i < kUsed; ++i)
        want[static_cast<std::int64_t>(chosen[i])] = 1.5 * weight(chosen[i]) / sum;
      for (std::int64_t e = 0; e < kExperts; ++e)
        ASSERT_NEAR(y[t * kExperts + e], want[e], 1e-6) << isa->name << " " << t << " " << e;
    }
    experts[0] = 1e9f, experts[1] = -7, experts[2] = NAN;
    f(rows.data(), logits.data(), 4 * kExperts, experts.data(), y.data(), 4 * kExperts, 1);
    std::copy_n(&table[0][0], kUsed, experts.data());
  }
}

// Of equal ones the first; no number: as many are chosen as ever, or fewer.
TEST(Route, EqualAndNoNumbers) {
  for (const Isa* isa : host_isas()) {
    Kernels k(*isa);
    const std::string name = k.name(route(k.e(), {.experts = 8, .used = 2, .normed = true}));
    Buffer<float> x(8), y(8);
    for (float& v : x) v = 1;
    k.get<Route>(name)(x.data(), 32, nullptr, y.data(), 32, 1);
    EXPECT_EQ(y[0], 0.5f);
    EXPECT_EQ(y[1], 0.5f);
    EXPECT_EQ(y[2], 0.0f);
    for (float& v : x) v = NAN;
    k.get<Route>(name)(x.data(), 32, nullptr, y.data(), 32, 1);
    for (int e = 2; e < 8; ++e) EXPECT_EQ(y[e], 0.0f);
  }
}

}  // namespace
}  // namespace gc::cpu
