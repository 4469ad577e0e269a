// The interpreter against values worked out by hand, and against itself: a prompt in one run, in chunks and token by
// token must agree, past the window and with other sequences in the same run.
#include "compiler/ir/interpret.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "compiler/base/error.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/parse.h"
#include "compiler/ir/random_weights.h"

namespace gc::ir {
namespace {

// Runs `body` over tokens 0, 1, ... of a table whose row t is t, t + 1, t + 2, ...; other weights count from 1.
std::vector<float> eval(const std::string& body, int64_t columns, int tokens, const std::string& states = "",
                        const std::string& type = "T", int64_t context = 0) {
  std::string n = std::to_string(columns);
  Graph g = parse("graph @g(rows: row[T]" + states +
                  ") {\n %x = embed(rows.token, table = weight \"e\": f32[100, " + n + "])\n" + body + "\n}");
  g.outputs.push_back(g.ops.back().results.back());
  auto read = [](const Weight& w, int64_t row, float* out) {
    for (int64_t i = 0; i < w.shape.back(); i++)
      out[i] = w.name == "e" ? float(row + i) : float(1 + row * w.shape.back() + i);
  };
  std::vector<Row> rows;
  rows.reserve(size_t(tokens));
  for (int t = 0; t < tokens; t++) rows.push_back({t, t, 0, t % 2 == 1});
  Interpreter interpreter(g, read);
  interpreter.set_context(context);
  return interpreter.run(rows)[0].data;
}

void expect_near(const std::vector<float>& a, const std::vector<float>& b, float by = 1e-5f) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); i++) EXPECT_NEAR(a[i], b[i], by) << i;
}

TEST(Interpret, PlainOps) {
  expect_near(eval("", 2, 2), {0, 1, 1, 2});
  expect_near(eval("%y = rms_norm(%x, weight = weight \"w\": f32[2]) {eps = 0.5}", 2, 1), {0, 2});
  expect_near(eval("%y = layer_norm(%x, bias = weight \"b\": f32[2]) {eps = 0}", 2, 1), {0, 3});
  expect_near(eval("%y = matmul(%x, rows = [weight \"a\": f32[3, 2] rows[1:3], weight \"b\": f32[1, 2]], "
                   "bias = [none, "
                   "weight \"c\": f32[1]])",
                   2, 2),
              {4, 6, 3, 11, 17, 6});
  expect_near(eval("%y = slice(%x) {begin = 1, size = 2}", 4, 2), {1, 2, 2, 3});
  expect_near(eval("%y = scale(%x) {by = -2}", 2, 1), {0, -2});
  expect_near(eval("%y = mul(%x, %x)\n%z = add(%y, %x)", 2, 2), {0, 2, 2, 6});
  expect_near(eval("%y = softcap(%x) {cap = 2}", 2, 1), {0, 2 * std::tanh(0.5f)});
  expect_near(eval("%y = concat(%x, %x)", 2, 1), {0, 1, 0, 1});
  expect_near(eval("%y = select(%x, rows.output)", 2, 3), {1, 2});
  expect_near(eval("%h = heads(%x) {heads = 2}\n%y = slice_heads(%h) {begin = 1, size = 1}", 4, 2),
              {1, 3, 2, 4});
  expect_near(
      eval("%h = heads(%x) {heads = 2}\n%o = slice(%x) {begin = 3, size = 1}\n%k = heads(%o) {heads = 1}\n"
           "%y = concat_heads(%h, %k) {heads = 2}",
           4, 1),
      {0, 1, 3, 2, 3, 3});
  expect_near(
      eval("%h = heads(%x) {heads = 2}\n%y = matmul_heads(%h, matrices = weight \"m\": f32[2, 1, 2])", 4, 2),
      {2, 18, 5, 25});
  expect_near(eval("%y = clamp(%x) {limit = 1}\n%z = clamp(%y) {limit = -1, upper = true}", 2, 1), {-1, -1});
  expect_near(eval("%y = act(%x) {fn = softplus}", 2, 1), {0.6931472f, 1.3132617f});
  expect_near(eval("%y = act(%x) {fn = silu}", 2, 1), {0, 0.7310586f});
  expect_near(eval("%y = act(%x) {fn = gelu_tanh}", 2, 1), {0, 0.8411920f});
  expect_near(eval("%y = act(%x) {fn = gelu_erf}", 2, 1), {0, 0.8413447f});
  expect_near(eval("%y = act(%x) {fn = relu2}", 2, 2), {0, 1, 1, 4});
  expect_near(eval("%y = act(%x) {fn = root_softplus}", 2, 1), {0.8325546f, 1.1459763f});
  expect_near(eval("%y = scale(%x) {by = -4}\n%z = act(%y) {fn = signed_root}", 2, 1), {0, -2});
  expect_near(eval("%h = heads(%x) {heads = 2}\n%y = dot_heads(%h, %h)", 4, 2), {1, 13, 5, 25});
}

TEST(Interpret, Rope) {
  // Token 1 at position 1: the head (1, 2, 3, 4), angles 1 and 0.01 at base 10000.
  auto neox = eval(
      "%h = heads(%x) {heads = 1}\n%y = rope(%h, rows.position) {rope_base = 10000, rope_scale = 1, "
      "rope_dims = 4, rope_neox = true}",
      4, 2);
  float c = std::cos(1.0f), s = std::sin(1.0f), c2 = std::cos(0.01f), s2 = std::sin(0.01f);
  expect_near(neox, {0, 1, 2, 3, 1 * c - 3 * s, 2 * c2 - 4 * s2, 1 * s + 3 * c, 2 * s2 + 4 * c2});
  auto norm = eval(
      "%h = heads(%x) {heads = 1}\n%y = rope(%h, rows.position) {rope_base = 10000, rope_scale = 0.5, "
      "rope_dims = 2, rope_neox = false}",
      4, 2);
  float ch = std::cos(0.5f), sh = std::sin(0.5f);
  expect_near(norm, {0, 1, 2, 3, 1 * ch - 2 * sh, 1 * sh + 2 * ch, 3, 4});
}

TEST(Interpret, TablesTurnLikeAngles) {
  auto graph = [](const std::string& tables) {
    return "%h = heads(%x) {heads = 2}\n%y = rope(%h, rows.position" + tables +
           ") {rope_base = 10000, rope_scale = 0.125, rope_dims = 4, rope_neox = true}";
  };
  std::string p = "(base = 10000, scale = 0.125, dims = 4, fine = 4)";
  auto plain = eval(graph(""), 8, 30);
  auto tables = eval(graph(", rope_fine = weight \"f\": f32[4, 2, 2] = rope_fine" + p +
                           ", rope_coarse = weight \"c\": f32[8, 2, 2] = rope_coarse" + p),
                     8, 30);
  expect_near(plain, tables, 1e-4f);
}

TEST(Interpret, ContextChoosesTheFactors) {
  auto at = [](const std::string& tables, int64_t context) {
    const std::string rope_short = tables.find("long_factors") != tables.npos ? "rope_short = 16, " : "";
    return eval("%h = heads(%x) {heads = 2}\n%y = rope(%h, rows.position" + tables +
                    ") {rope_base = 10000, rope_scale = 1, " + rope_short +
                    "rope_dims = 4, rope_neox = true}",
                8, 12, "", "T", context);
  };
  const std::string p = "(base = 10000, scale = 1, dims = 4, fine = 4, long_factors = \"lf\", short = 16)";
  const std::string angles = ", long_factors = weight \"lf\": f32[2]";
  const std::string tables = ", rope_fine = weight \"f\": f32[2, 4, 2, 2] = rope_fine" + p +
                             ", rope_coarse = weight \"c\": f32[2, 8, 2, 2] = rope_coarse" + p;
  expect_near(at(angles, 16), at("", 0));
  expect_near(at(tables, 16), at("", 0), 1e-4f);
  expect_near(at(angles, 17), at(", factors = weight \"lf\": f32[2]", 0));
  expect_near(at(tables, 17), at(angles, 17), 1e-4f);
  EXPECT_NE(at(angles, 17), at(angles, 16));
}

TEST(Interpret, Streams) {
  const std::string parts = "%h = heads(%x) {heads = 2}\n%f = slice(%x) {begin = 0, size = 2}\n";
  expect_near(eval(parts + "%y = mix(%h, %f)", 4, 2), {2, 3, 7, 10});
  expect_near(eval(parts + "%y = mix(%h, %f) {plus = 1}", 4, 2), {4, 7, 11, 16});
  const float a = 1 / std::sqrt(13.0f), b = std::sqrt(5.0f) / 5;
  expect_near(eval(parts + "%y = rescale(%f, %h)", 4, 2), {0, 1, 2 * a, 3 * a, 1, 2, 3 * b, 4 * b});
  expect_near(eval(parts + "%y = add_heads(%h, %f) {begin = 1}", 4, 2), {0, 1, 2, 4, 1, 2, 4, 6});
  // Logits 0 1 / 2 3: softmax a, b in both rows; columns over their sums, transposed.
  expect_near(eval("%y = sinkhorn(%x) {eps = 0, heads = 2, rounds = 1}", 4, 1), {0.5f, 0.5f, 0.5f, 0.5f});
  expect_near(eval("%y = sparsify(%x) {by = 1}", 4, 1), {0, 0, 0, 1.5f - std::sqrt(5.0f / 3)});
}

TEST(Interpret, Attention) {
  // One key dimension, equal scores (q = 0 at token 0): a plain mean of the values in the window.
  std::string body =
      "%z = scale(%x) {by = 0}\n%q = heads(%z) {heads = 2}\n%k1 = slice(%x) {begin = 0, size = 1}\n"
      "%k = heads(%k1) {heads = 1}\n%y = attention(%q, %k, %k, kv, rows";
  expect_near(eval(body + ") {scale = 1, window = 0}", 2, 3, ", kv: kv_full[heads 1, dim 1]"),
              {0, 0, 0.5f, 0.5f, 1, 1});
  expect_near(eval(body + ") {scale = 1, window = 2}", 2, 3, ", kv: kv_ring[window 2, heads 1, dim 1]"),
              {0, 0, 0.5f, 0.5f, 1.5f, 1.5f});
  expect_near(eval(body + ") {scale = 1, window = 0, ahead = true}", 2, 3, ", kv: kv_full[heads 1, dim 1]"),
              {1, 1, 1, 1, 1, 1});
  expect_near(
      eval(body + ") {scale = 1, window = 2}\n%z2 = attention_again(%q, kv, rows) {scale = 1, window = 2}", 2,
           3, ", kv: kv_ring[window 2, heads 1, dim 1]"),
      {0, 0, 0.5f, 0.5f, 1.5f, 1.5f});
  // Sinks of 1 and 2 take exp(sink) of the sum.
  float e1 = std::exp(1.0f), e2 = std::exp(2.0f);
  expect_near(eval(body + ", sinks = weight \"s\": f32[2]) {scale = 1, window = 0}", 2, 2,
                   ", kv: kv_full[heads 1, dim 1]"),
              {0, 0, 1 / (2 + e1), 1 / (2 + e2)});
}

TEST(Interpret, QuantizeKeepsSixteenBits) {
  auto x = eval("", 64, 3), q = eval("%y = quantize(%x)", 64, 3);
  float worst = 0;
  for (size_t i = 0; i < x.size(); i++) worst = std::max(worst, std::fabs(x[i] - q[i]));
  EXPECT_GT(worst, 0);
  EXPECT_LT(worst, 66.0f / 32512);
}

Graph model() {
  Builder b("test.step");
  const int64_t n = 64, heads = 4, kv = 2, d = 16, ff = 96, vocab = 50;
  auto w = [&](std::string name, int64_t rows, int64_t cols) {
    return b.weight(name, Format::F32, {rows, cols});
  };
  auto v = [&](std::string name, int64_t size) { return b.weight(name, Format::F32, {size}); };
  ValueId x = b.scale(b.embed(w("token_embd", vocab, n), "embd"), 8, "x0");
  for (int i = 0; i < 3; i++) {
    std::string p = "blk." + std::to_string(i) + ".";
    int64_t window = i == 1 ? 0 : 5;
    b.begin_layer(x);
    StateId s = b.state({.name = "kv" + std::to_string(i),
                         .kind = window ? State::Kind::KvRing : State::Kind::KvFull,
                         .window = window,
                         .heads = kv,
                         .k_dim = d,
                         .v_dim = d});
    ValueId h = b.rms_norm(x, v(p + "attn_norm", n), 1e-6, p + "attn_norm");
    RopeArgs rope{.base = 10000, .dims = d};
    ValueId q = b.heads(b.matmul(h, w(p + "attn_q", heads * d, n), p + "q0"), heads, p + "q1");
    ValueId k = b.heads(b.matmul(h, w(p + "attn_k", kv * d, n), p + "k0"), kv, p + "k1");
    ValueId u = b.heads(b.matmul(h, w(p + "attn_v", kv * d, n), p + "v0"), kv, p + "v");
    ValueId a = b.attention(b.rope(q, rope, p + "q"), b.rope(k, rope, p + "k"), u, s,
                            {.scale = 0.25, .window = window}, p + "attn");
    x = b.add(x, b.matmul(b.merge_heads(a, p + "attn_out"), w(p + "attn_output", n, heads * d), p + "o"),
              p + "r");
    h = b.rms_norm(x, v(p + "ffn_norm", n), 1e-6, p + "ffn_norm");
    ValueId g = b.act(b.matmul(h, w(p + "gate", ff, n), p + "g0"), Fn::silu, p + "g");
    ValueId f = b.mul(g, b.matmul(h, w(p + "up", ff, n), p + "u"), p + "gu");
    x = b.add(x, b.matmul(f, w(p + "down", n, ff), p + "d"), p + "out");
  }
  b.end_layers(x);
  ValueId out = b.select(b.rms_norm(x, v("output_norm", n), 1e-6, "norm"), "asked");
  b.output(b.matmul(out, w("token_embd", vocab, n), "logits"));
  return b.take();
}

TEST(Interpret, ChunksAndDecodeAgreeWithOneRun) {
  Graph g = model();
  std::vector<Row> rows;
  rows.reserve(20);
  for (int t = 0; t < 20; t++) rows.push_back({(t * 7) % 50, t});
  auto whole = Interpreter(g, random_weights(3)).run(rows)[0];
  for (size_t chunk : {1, 3, 7}) {
    Interpreter in(g, random_weights(3), /*cache_bytes=*/chunk == 3 ? 0 : 1 << 20);
    std::vector<float> got;
    for (size_t i = 0; i < rows.size(); i += chunk) {
      // Another sequence in the same run must change nothing.
      std::vector<Row> step(rows.begin() + i, rows.begin() + std::min(i + chunk, rows.size()));
      step.insert(step.begin(), Row{int32_t(i), int64_t(i / chunk), 9, false});
      auto out = in.run(step)[0];
      got.insert(got.end(), out.data.begin(), out.data.end());
    }
    expect_near(got, whole.data, 1e-4f);
  }
}

// Rows 0, 1, ... of a table of one column count from 1.
TEST(Interpret, NgramsAreHashedFromTheLastTokens) {
  auto y = eval(
      "%y = ngram_embed(s, rows, table = weight \"t\": f32[30, 1]) {multipliers = [1, 3], sizes = [7], "
      "begins = [20], "
      "end_token = 2}",
      1, 5, ", s: conv[window 1, heads 1, dim 1]");
  // Tokens 0 to 4, before them the end token or, behind 2, itself again: token ^ 3 * before.
  const int before[] = {2, 0, 1, 2, 3};
  std::vector<float> want;
  for (int t = 0; t < 5; t++) want.push_back(float(1 + 20 + (t ^ 3 * before[t]) % 7));
  expect_near(y, want);
}

TEST(Interpret, CompressedRowsComeAtTheEndOfTheirBlocks) {
  const std::string op =
      "%z = scale(%x) {by = 0}\n%y = compress(%x, %z, s, rows, ape = weight \"e0\": f32[2, 2]) ";
  // Scores are ape alone, which counts from 1: of both rows of a block they differ by 2.
  auto y = eval(op + "{every = 2}", 2, 5, ", s: conv[window 2, heads 1, dim 4]");
  const float w = 1 / (1 + std::exp(-2.0f));  // of the second row
  expect_near(y, {0, 0, w, 1 + w, 0, 0, 2 + w, 3 + w, 0, 0});
  // The first column of the block before and the second of this one; before the first block there is none.
  auto both = eval(op + "{every = 2, overlap = true}", 2, 4, ", s: conv[window 4, heads 1, dim 4]");
  const float a = std::exp(1.0f), b = std::exp(3.0f), c = std::exp(2.0f), d = std::exp(4.0f);
  expect_near(both, {0, (c * 1 + d * 2) / (c + d), 0, (b * 1 + c * 3 + d * 4) / (a + b + c + d)});
}

// Attention that is cut in two and joined by its sums is attention; compressed rows are those at the ends of blocks.
TEST(Interpret, SumsJoinTwoAttentions) {
  const std::string heads = "%h = heads(%x) {heads = 1}\n";
  const std::string states = ",\n kv: kv_full[heads 1, dim 2], la: kv_latent[window 2, heads 1, dim 2]";
  auto whole = eval(heads + "%y = attention(%h, %h, %h, kv, rows) {scale = 0.1, window = 0}", 2, 6, states);
  auto sums =
      eval(heads + "%y = attention_sums(%h, %h, %h, kv, rows) {scale = 0.1, window = 0}", 2, 6, states);
  for (int t = 0; t < 6; t++) {
    double sum = 0;
    for (int p = 0; p <= t; p++) sum += std::exp(0.1 * (t * p + (t + 1) * (p + 1)));
    expect_near({sums[3 * t], sums[3 * t + 1], sums[3 * t + 2]},
                {whole[2 * t], whole[2 * t + 1], float(std::log(sum))});
  }
  auto far = eval(heads + "%y = attention_sums(%h, %h, %h, la, rows) {scale = 0, window = 0}", 2, 6, states);
  expect_near(far, {0, 0, -1e30f, 1, 2, 0, 1, 2, 0, 2, 3, std::log(2.0f), 2, 3, std::log(2.0f), 3, 4,
                    std::log(3.0f)});
}

// Row t of x is (t, t + 1): with a positive weight the latest keys have the greatest products, with a negative one the
// first; products with -x are all below 0, and equal.
TEST(Interpret, PositionsAreChosenByTheirScores) {
  const std::string keys = "%h = heads(%x) {heads = 1}\n%s = slice(%x) {begin = 1, size = 1}\n";
  const std::string minus = keys + "%m = scale(%s) {by = -1}\n%b = scale(%h) {by = -1}\n";
  const std::string state = ", s: kv_full[heads 1, k_dim 2]";
  const auto chosen = [&](const std::string& operands) {
    return eval(minus + "%y = choose_positions(" + operands + ", s, rows) {used = 2}", 2, 5, state);
  };
  const std::vector<float> latest = {0, -1, 0, 1, 1, 2, 2, 3, 3, 4}, first = {0, -1, 0, 1, 0, 1, 0, 1, 0, 1};
  expect_near(chosen("%h, %h, %s"), latest);
  expect_near(chosen("%h, %h, %m"), first);
  expect_near(chosen("%b, %h, %s"), first);
  // Rows 0 and 1 of two tokens each, then a third.
  auto rows = eval(keys + "%y = choose_positions(%h, %h, %s, s, rows) {used = 2}", 2, 6,
                   ", s: kv_latent[window 2, heads 1, k_dim 2]");
  expect_near(rows, {-1, -1, 0, -1, 0, -1, 0, 1, 0, 1, 1, 2});
}

// Of all positions it is attention; of one it is that one's value.
TEST(Interpret, AttentionSeesTheChosenPositionsAlone) {
  const std::string keys = "%h = heads(%x) {heads = 1}\n%s = slice(%x) {begin = 1, size = 1}\n";
  const std::string states = ", s: kv_full[heads 1, k_dim 2], kv: kv_full[heads 1, dim 2]";
  const auto chosen = [&](int used) {
    return eval(keys + "%p = choose_positions(%h, %h, %s, s, rows) {used = " + std::to_string(used) +
                    "}\n%y = attention_chosen(%h, %h, %h, %p, kv, rows) {scale = 0.1, window = 0}",
                2, 5, states);
  };
  expect_near(chosen(5),
              eval(keys + "%y = attention(%h, %h, %h, kv, rows) {scale = 0.1, window = 0}", 2, 5, states));
  expect_near(chosen(1), {0, 1, 1, 2, 2, 3, 3, 4, 4, 5});
}

TEST(Interpret, ExpertsOfATokenAreThoseOfItsTable) {
  // The table's rows count from 1: token 0 has experts 1 and 2, token 1 has 3 and 4.
  auto y =
      eval("%y = route_by_token(%x, rows.token, table = weight \"t\": i32[100, 2]) {fn = sigmoid, used = 2}",
           5, 2);
  auto s = [](float x) { return 1 / (1 + std::exp(-x)); };
  expect_near(y, {0, s(1), s(2), 0, 0, 0, 0, 0, s(4), s(5)});
}

TEST(Interpret, RefusesWhatHasNoMeaning) {
  Graph g = model();
  Interpreter in(g, random_weights(3));
  std::vector<Row> gap = {{1, 0}, {2, 2}}, token = {{50, 0}};
  EXPECT_THROW(in.run(gap), UserError);
  EXPECT_THROW(in.run(token), UserError);
}

TEST(Alibi, SlopesOfPowersOfTwoAndBetween) {
  EXPECT_EQ(alibi_slope(8, 0, 4), std::exp2(-2.0));
  EXPECT_EQ(alibi_slope(8, 3, 4), std::exp2(-8.0));
  // Three heads: those of two, then the first of four.
  EXPECT_EQ(alibi_slope(8, 0, 3), std::exp2(-4.0));
  EXPECT_EQ(alibi_slope(8, 1, 3), std::exp2(-8.0));
  EXPECT_EQ(alibi_slope(8, 2, 3), std::exp2(-2.0));
}

}  // namespace
}  // namespace gc::ir
