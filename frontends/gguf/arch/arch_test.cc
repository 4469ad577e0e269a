// Graphs of the architectures: golden texts of tiny models, and what keys do to larger ones.
#include "frontends/gguf/arch/arch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <numbers>
#include <sstream>
#include <string>

#include "compiler/ir/print.h"
#include "frontends/gguf/reader.h"
#include "tests/support/tiny_model.h"

namespace gc::gguf {
namespace {

using ir::AttrName;
using ir::OpKind;
using testing::GgufWriter;
using testing::tiny_model;
using testing::TinyModel;

LoadedModel load(const GgufWriter& w) {
  const std::string path = ::testing::TempDir() + "tiny.gguf";
  w.write(path);
  return load_model(File::open(path));
}

std::vector<const ir::Op*> ops_of(const ir::Graph& g, OpKind kind) {
  std::vector<const ir::Op*> found;
  for (const ir::Op& op : g.ops) {
    if (op.kind == kind) found.push_back(&op);
  }
  return found;
}

std::vector<int64_t> windows_of(const ir::Graph& g) {
  std::vector<int64_t> windows;
  for (const ir::Op* op : ops_of(g, OpKind::attention)) windows.push_back(op->i64(AttrName::window));
  return windows;
}

// The graph's text against a file beside this one. To accept a change, copy the text that the failure names.
void expect_golden(const GgufWriter& w, const std::string& name) {
  const std::string text = ir::print(load(w).graph);
  std::ifstream file("frontends/gguf/arch/testdata/" + name);
  std::stringstream expected;
  expected << file.rdbuf();
  if (text == expected.str()) return;
  const std::string actual = ::testing::TempDir() + name;
  std::ofstream(actual) << text;
  ADD_FAILURE() << "testdata/" << name << " differs; to accept: cp " << actual
                << " frontends/gguf/arch/testdata/\n"
                << text;
}

TEST(Golden, Gemma) { expect_golden(tiny_model({.architecture = "gemma", .n_layer = 1}), "gemma.gir"); }

TEST(Golden, Gemma2) {
  GgufWriter w = tiny_model({.architecture = "gemma2", .n_layer = 2});
  w.f32("gemma2.final_logit_softcapping", 20);
  expect_golden(w, "gemma2.gir");
}

TEST(Golden, Gemma3) {
  GgufWriter w = tiny_model({.architecture = "gemma3", .n_layer = 2});
  w.u32("gemma3.attention.sliding_window_pattern", 2).str("gemma3.rope.scaling.type", "linear");
  w.f32("gemma3.rope.scaling.factor", 8);
  expect_golden(w, "gemma3.gir");
}

TEST(Golden, Gemma3FusedQkv) {
  expect_golden(tiny_model({.architecture = "gemma3", .n_layer = 1, .tied = false, .fused_qkv = true}),
                "gemma3_fused_qkv.gir");
}

TEST(Golden, Llama) { expect_golden(tiny_model({.architecture = "llama", .n_layer = 1}), "llama.gir"); }

TEST(Golden, LlamaWithBiasesAndFrequencies) {
  expect_golden(
      tiny_model({.architecture = "llama", .n_layer = 1, .tied = false, .biases = true, .rope_freqs = true}),
      "llama_biases.gir");
}

TEST(Gemma3, WindowsByDefaultAndByTheFile) {
  const TinyModel model{.architecture = "gemma3", .n_layer = 7};
  EXPECT_EQ(windows_of(load(tiny_model(model)).graph), (std::vector<int64_t>{8, 8, 8, 8, 8, 0, 8}));

  GgufWriter scalar = tiny_model(model), flags = tiny_model(model), numbers = tiny_model(model),
             all = tiny_model(model);
  const char* key = "gemma3.attention.sliding_window_pattern";
  scalar.u32(key, 2);
  flags.array<bool>(key, GgufWriter::kBool, {true, false, true, false, true, false, true});
  numbers.array<int32_t>(key, GgufWriter::kI32, {1, 0, 1, 0, 1, 0, 1});
  all.u32(key, 0);
  const std::string text = ir::print(load(scalar).graph);
  EXPECT_EQ(windows_of(load(scalar).graph), (std::vector<int64_t>{8, 0, 8, 0, 8, 0, 8}));
  EXPECT_EQ(ir::print(load(flags).graph), text);
  EXPECT_EQ(ir::print(load(numbers).graph), text);
  EXPECT_EQ(windows_of(load(all).graph), std::vector<int64_t>(7, 8));
}

// Without a window every layer sees everything, and turns by the file's base.
TEST(Gemma3, WindowZero) {
  GgufWriter w = tiny_model({.architecture = "gemma3", .n_layer = 2});
  w.u32("gemma3.attention.sliding_window", 0);
  const LoadedModel m = load(w);
  EXPECT_EQ(windows_of(m.graph), std::vector<int64_t>(2, 0));
  for (const ir::Op* rope : ops_of(m.graph, OpKind::rope)) EXPECT_EQ(rope->f32(AttrName::rope_base), 1e6);
  for (const ir::State& state : m.graph.states) EXPECT_EQ(state.kind, ir::State::Kind::KvFull);
}

TEST(Gemma3, QueriesOfTheWideSizeScaleByWidth) {
  TinyModel model{
      .architecture = "gemma3", .n_layer = 61, .n_embd = 48, .n_head = 3, .n_head_kv = 3, .head_dim = 8};
  const auto query_scale = [](const LoadedModel& m) {
    return ops_of(m.graph, OpKind::scale)[1]->f32(AttrName::by);  // the first is the embedding's
  };
  EXPECT_FLOAT_EQ(query_scale(load(tiny_model(model))), 1 / std::sqrt(8.0));
  model.n_layer = 62;
  EXPECT_FLOAT_EQ(query_scale(load(tiny_model(model))), 1 / std::sqrt(16.0));
}

// The score cap is Gemma 2's alone: saved models of the other families carry its key too.
TEST(Gemma, Softcaps) {
  for (const char* architecture : {"gemma", "gemma2", "gemma3"}) {
    GgufWriter w = tiny_model({.architecture = architecture});
    w.f32(std::string(architecture) + ".attn_logit_softcapping", 40);
    w.f32(std::string(architecture) + ".final_logit_softcapping", 20);
    const ir::Graph g = load(w).graph;
    const bool two = architecture == std::string("gemma2");
    EXPECT_EQ(ops_of(g, OpKind::attention)[0]->f32_or(AttrName::cap, 0), two ? 40 : 0) << architecture;
    EXPECT_EQ(ops_of(g, OpKind::softcap).size(), architecture == std::string("gemma") ? 0u : 1u)
        << architecture;
  }
}

TEST(Llama, RopeScaling) {
  const auto scale_of = [](const char* type, float factor) {
    GgufWriter w = tiny_model({.architecture = "llama"});
    if (type != nullptr) w.str("llama.rope.scaling.type", type);
    w.f32("llama.rope.scaling.factor", factor);
    return ops_of(load(w).graph, OpKind::rope)[0]->f32(AttrName::rope_scale);
  };
  EXPECT_EQ(scale_of("linear", 4), 0.25);
  EXPECT_EQ(scale_of(nullptr, 4), 0.25);  // linear is the default
  EXPECT_EQ(scale_of("linear", 0), 1);    // 0 is how writers say that there is none
  EXPECT_EQ(scale_of("none", 4), 1);
}

// 32 turns within 512 positions: pair 0 of 8 keeps its frequency, pairs from 6 on are stretched by 4.
TEST(Llama, Yarn) {
  GgufWriter w = tiny_model({.architecture = "llama"});
  w.str("llama.rope.scaling.type", "yarn").f32("llama.rope.scaling.factor", 4);
  w.u32("llama.rope.scaling.original_context_length", 512);
  const LoadedModel m = load(w);
  const ir::Op& rope = *ops_of(m.graph, OpKind::rope)[0];
  EXPECT_EQ(rope.f32(AttrName::rope_scale), 0.25);
  const double log_base = 2 * std::log(10000.0), turns = 2 * std::numbers::pi;
  EXPECT_EQ(rope.f32(AttrName::rope_low), std::floor(16 * std::log(512 / (32 * turns)) / log_base));
  EXPECT_EQ(rope.f32(AttrName::rope_high), std::ceil(16 * std::log(512 / turns) / log_base));
  EXPECT_FLOAT_EQ(float(rope.f32(AttrName::rope_magnitude)), float(1 + 0.1 * std::log(4.0)));
  w.f32("llama.rope.scaling.yarn_log_multiplier", 1);  // the growth is taken back elsewhere
  EXPECT_FALSE(ops_of(load(w).graph, OpKind::rope)[0]->has(AttrName::rope_magnitude));
}

// Layers behind the model's own, which predict further tokens, are left out.
TEST(Llama, LayersThatPredictFurtherTokens) {
  GgufWriter w = tiny_model({.architecture = "llama", .n_layer = 3});
  w.u32("llama.nextn_predict_layers", 1);
  w.array<uint32_t>("llama.attention.head_count_kv", GgufWriter::kU32, {1, 1, 1});
  const LoadedModel m = load(w);
  EXPECT_EQ(m.info.n_layer, 2);
  EXPECT_EQ(m.graph.layer_begin.size(), 3u);
  EXPECT_TRUE(m.warnings.empty());
}

// Factors of RoPE for short contexts hold in contexts up to the original one, those for long ones in longer ones.
TEST(Llama, FactorsOfShortAndOfLongContexts) {
  GgufWriter w = tiny_model({.architecture = "llama"});
  w.str("llama.rope.scaling.type", "longrope").f32("llama.rope.scaling.attn_factor", 1.25f);
  w.u32("llama.rope.scaling.original_context_length", 64);
  w.tensor_f32("rope_factors_short.weight", {8}, {1, 1, 1, 1, 2, 2, 2, 2});
  w.tensor_f32("rope_factors_long.weight", {8}, {1, 2, 3, 4, 5, 6, 7, 8});
  const LoadedModel m = load(w);
  const ir::Op& rope = *ops_of(m.graph, OpKind::rope)[0];
  EXPECT_EQ(m.graph.weight(rope.one("factors")->weight).name, "rope_factors_short.weight");
  EXPECT_EQ(m.graph.weight(rope.one("long_factors")->weight).name, "rope_factors_long.weight");
  EXPECT_EQ(rope.i64(AttrName::rope_short), 64);
  EXPECT_FALSE(rope.has(AttrName::rope_limit));
  EXPECT_EQ(rope.f32(AttrName::rope_magnitude), 1.25);
  EXPECT_TRUE(m.warnings.empty());
}

TEST(Mistral3, QueriesGrowPastTheOriginalContext) {
  GgufWriter w = tiny_model({.architecture = "mistral3"});
  EXPECT_TRUE(ops_of(load(w).graph, OpKind::temper).empty());
  w.f32("mistral3.attention.temperature_scale", 0.1f);
  w.u32("mistral3.rope.scaling.original_context_length", 16384);
  const LoadedModel m = load(w);
  const ir::Op& temper = *ops_of(m.graph, OpKind::temper)[0];
  EXPECT_EQ(temper.f32(AttrName::by), 0.1f);
  EXPECT_EQ(temper.i64(AttrName::period), 16384);
}

// Layers without attention, with its output matrix alone, and without a feed-forward network.
TEST(Deci, LayersThatLackSomething) {
  GgufWriter w = tiny_model({.architecture = "deci", .n_layer = 4});
  w.array<uint32_t>("deci.attention.head_count", GgufWriter::kU32, {2, 0, 2, 0});
  w.array<uint32_t>("deci.attention.head_count_kv", GgufWriter::kU32, {1, 0, 0, 0});
  w.array<uint32_t>("deci.feed_forward_length", GgufWriter::kU32, {48, 48, 0, 0});
  const LoadedModel m = load(w);
  EXPECT_EQ(m.graph.states.size(), 1u);
  EXPECT_EQ(ops_of(m.graph, OpKind::attention).size(), 1u);
  EXPECT_EQ(ops_of(m.graph, OpKind::act).size(), 2u);  // gates of layers 0 and 1
  EXPECT_EQ(m.graph.layer_input[4], m.graph.layer_input[3]);
}

TEST(Llama, HeadsAndHiddenUnitsOfEachLayer) {
  TinyModel model{.architecture = "llama", .n_layer = 2};
  GgufWriter same = tiny_model(model);
  same.array<int32_t>("llama.attention.head_count_kv", GgufWriter::kI32, {1, 1});
  EXPECT_EQ(ir::print(load(same).graph), ir::print(load(tiny_model(model)).graph));

  GgufWriter other = tiny_model(model);
  testing::TinyTensors t(other, 1);
  other.array<uint32_t>("llama.attention.head_count_kv", GgufWriter::kU32, {1, 2});
  other.array<uint32_t>("llama.feed_forward_length", GgufWriter::kU32, {48, 64});
  t.matrix("blk.1.attn_k.weight", 32, 32), t.matrix("blk.1.attn_v.weight", 32, 32);
  t.matrix("blk.1.ffn_gate.weight", 64, 32), t.matrix("blk.1.ffn_up.weight", 64, 32);
  t.matrix("blk.1.ffn_down.weight", 32, 64);
  const ir::Graph g = load(other).graph;
  EXPECT_EQ(g.states[0].heads, 1);
  EXPECT_EQ(g.states[1].heads, 2);
}

TEST(Info, WhatTheFileSays) {
  GgufWriter w = tiny_model({.architecture = "gemma3", .n_layer = 7});
  w.str("general.license", "gemma").str("general.author", "A").str("tokenizer.chat_template", "{{ x }}");
  w.f32("general.sampling.temp", 0.5f).i32("general.sampling.top_k", 64);
  const ModelInfo info = load(w).info;
  EXPECT_EQ(info.name, "tiny");
  EXPECT_EQ(info.architecture, "gemma3");
  EXPECT_EQ(info.n_layer, 7);
  EXPECT_EQ(info.n_embd, 32);
  EXPECT_EQ(info.n_vocab, 40);
  EXPECT_EQ(info.n_ctx_train, 256);
  EXPECT_EQ(info.window, 8);
  EXPECT_EQ(info.n_layer_window, 6);
  EXPECT_TRUE(info.tied_head);
  EXPECT_EQ(info.license, "gemma");
  EXPECT_EQ(info.chat_template, "{{ x }}");
  EXPECT_EQ(info.sampling.temperature, 0.5);
  EXPECT_EQ(info.sampling.top_k, 64);
  EXPECT_FALSE(info.sampling.top_p.has_value());
  // Embedding, and of each layer q, k, v, output, gate, up, down and six norms.
  EXPECT_EQ(info.n_parameters, 40 * 32 + 32 + 7 * (32 * (32 + 16 + 16 + 32 + 3 * 48) + 4 * 32 + 2 * 16));
}

TEST(Architectures, AreListedInOrder) {
  std::string_view last;
  for (const Architecture& a : list_architectures()) {
    EXPECT_LT(last, a.name);
    last = a.name;
  }
}

}  // namespace
}  // namespace gc::gguf
