// print(parse(x)) == x on every op, and errors with their place; parse() survives what isn't text of ours.
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>

#include "compiler/base/error.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/parse.h"
#include "compiler/ir/print.h"
#include "compiler/ir/verify.h"

namespace gc::ir {
namespace {

// Every op, in the printer's spelling (but for its comments).
const char kAll[] = R"(graph @all.step(rows: row[T],
    kv0: kv_ring[window 512, heads 1, dim 32],
    "rows": kv_full[heads 2, k_dim 32, v_dim 64],
    cv: conv[window 3, heads 1, dim 64],
    ss: ssm[heads 2, dim 32],
    dr: ssm[heads 2, dim 32],
    da: ssm[heads 2, dim 32],
    fs: kv_latent[window 4, heads 2, k_dim 32, v_dim 64],
    ch: kv_full[heads 1, k_dim 32],
    se: kv_full[heads 2, k_dim 32, v_dim 64],
    c4: kv_latent[window 4, heads 1, k_dim 32],
    s4: kv_latent[window 4, heads 2, k_dim 32, v_dim 64],
    co: conv[window 8, heads 1, dim 128],
    to: conv[window 2, heads 1, dim 1],
    ts: conv[window 1, heads 1, dim 64],
    wk: ssm[heads 2, dim 32],
    wl: ssm[heads 2, dim 32],
    w7: ssm[heads 2, dim 32]) -> logits: f32[R, 96], "odd \"name\"\x07": f32[T, 64] {
  weight "never used": q4_0[32]
  %x0 = embed(rows.token, table = weight "token_embd.weight": q8_0[96, 64]) {scale = 8}
  %ln = layer_norm(%x0, weight = weight "ln.weight": f32[64], bias = weight "ln.bias": f32[64]) {eps = 1e-05}
  layer 0 (%x0) {
    %n0 = rms_norm(%x0, weight = weight "n0": f32[64]) {eps = 1e-06, out = q16}
    %qkv = matmul(%n0, rows = [weight "q": q5_0[64, 64], weight "kv": q8_0[64, 64] rows[0:32], weight "kv" rows[32:]], bias = [weight "qb": f32[64], none, none])
    %b = attn_block(%qkv, kv0, rows, q_norm = weight "qn": f32[32], rope_fine = weight "r.fine": f32[2, 16, 16, 2] = rope_fine(base = 10000, scale = 0.125, dims = 32, fine = 16, low = 2, high = 9, magnitude = 1.125, factors = "rope_freqs.weight", long_factors = "long", short = 64), rope_coarse = weight "r.coarse": f32[2, 8, 16, 2] = rope_coarse(base = 10000, scale = 0.125, dims = 32, fine = 16, low = 2, high = 9, magnitude = 1.125, factors = "rope_freqs.weight", long_factors = "long", short = 64)) {scale = 0.17677669, eps = 1e-06, cap = 50, heads = 2, kv_heads = 1, head_dim = 32, v_dim = 32, window = 512, rope_dims = 32, rope_neox = true}
    %sc = scale(%b) {by = -2.5}
  }
  layer 1 (%x1) {
    %x1, %n1 = residual_norm(%x0, %sc, post = weight "post": f32[64], pre = weight "pre": f32[64]) {eps = 1e-06}
    %h = heads(%n1) {heads = 2}
    %ng = ngram_embed(to, rows, table = weight "ngrams": q8_0[40, 32]) {multipliers = [3, -1, 9007199254740993], sizes = [8, 32], begins = [0, 8], end_token = 2}
    %pe = embed_position(rows.position, table = weight "pos": f32[16, 64])
    %t = rope(%h, rows.position, factors = weight "f": f32[16], long_factors = weight "lf": f32[16]) {rope_base = 500000, rope_scale = 1, rope_short = 64, rope_dims = 32, rope_neox = false}
    %ty = rope(%t, rows.position) {rope_base = 500000, rope_scale = 0.25, rope_low = 2, rope_high = 9, rope_magnitude = 1.125, rope_limit = 4096, rope_dims = 32, rope_neox = false}
    %tb = rope(%t, rows.position) {inverse = true, rope_base = 500000, rope_scale = 1, back = 3, rope_dims = 32, rope_neox = false}
    %wg = weigh(%n1, weight = weight "wg": f32[32]) {inverse = true}
    %sh = shift(%wg, weight = weight "sh": f32[64])
    %cl = clamp(%sh) {limit = 8}
    %ca = clamp(%sh) {limit = 8, upper = true}
    %hp = heads(%ca) {heads = 2}
    %sp = slice_heads(%hp) {begin = 0, size = 32}
    %mp = matmul_heads(%sp, matrices = weight "per head": q8_0[2, 48, 32])
    %cp = concat_heads(%mp, %sp) {heads = 2}
    %tp = temper(%cl, rows.position) {by = 0.1, period = 8192, offset = 1}
    %ga = slice(%tp) {begin = 0, size = 2}
    %mh = mul_heads(%ty, %ga)
    %k = slice(%n1) {begin = 0, size = 64}
    %kh = heads(%k) {heads = 2}
    %w = concat(%n1, %n1)
    %vh = heads(%w) {heads = 2}
    %at = attention(%t, %kh, %vh, "rows", rows, bias = weight "sb": f32[64]) {scale = 1, buckets = 32, window = 0, ahead = true}
    %as = attention_sums(%t, %kh, %vh, fs, rows, sinks = weight "s": f32[2]) {scale = 1, window = 0}
    %dh = dot_heads(%kh, %t)
    %ac = act(%dh) {fn = signed_root}
    %aa = attention_again(%t, "rows", rows, sinks = weight "s") {scale = 1, window = 0}
    %r1 = slice(%k) {begin = 0, size = 32}
    %k1 = heads(%r1) {heads = 1}
    %ps = choose_positions(%t, %k1, %ga, ch, rows) {used = 3}
    %ax = attention_chosen(%t, %kh, %vh, %ps, se, rows, sinks = weight "s") {scale = 1, window = 0}
    %p4 = choose_positions(%t, %k1, %ga, c4, rows) {used = 3}
    %a4 = attention_chosen(%t, %kh, %vh, %p4, s4, rows) {scale = 1, window = 0, sums = true}
    %mf = slice(%k) {begin = 0, size = 4}
    %mx = mix(%kh, %mf) {plus = 1}
    %rs = rescale(%r1, %mx)
    %ah = add_heads(%rs, %r1) {begin = 1}
    %sk = sinkhorn(%mf) {eps = 0.5, heads = 2, rounds = 3}
    %sy = sparsify(%r1) {by = 1.5}
    %m = merge_heads(%at)
    %g = act(%k) {fn = gelu_tanh}
    %g2 = mul(%g, %k)
    %g3 = glu(%g2, %k) {fn = silu, out = q16}
    %g4 = matmul_glu(%g3, gate = [weight "gu": q4_0[128, 64] rows[0:64]], up = [weight "gu" rows[64:]]) {fn = relu2}
    %cv = conv(%k, cv, rows, taps = weight "tp": f32[64, 4], bias = weight "cb": f32[64]) {fn = silu}
    %cm = compress(%k, %cv, co, rows, ape = weight "ape": f32[4, 64]) {every = 4, overlap = true}
    %ch = heads(%cv) {heads = 2}
    %ss = ssm_scan(%ch, %ga, %ch, %ch, ss, rows, a = weight "sa": f32[2], d = weight "sd": f32[2])
    %dr = delta_rule(%ch, %ch, %ss, %ga, %ga, dr, rows) {scale = 0.5, in_turn = true}
    %da = decay_attention(%ch, %ch, %dr, da, rows) {scale = 1, by = 0.5, alibi = 8}
    %ts = token_shift(%k, ts, rows, mix = weight "mix": f32[2, 64])
    %wk = wkv(%ch, %ch, %ch, %ch, wk, rows, bonus = weight "wb": f32[2, 32]) {scale = 1}
    %wl = wkv(%ch, %ch, %wk, %ch, wl, rows) {scale = 0.5, leaky = true}
    %w7 = wkv7(%ch, %ch, %wl, %ch, %ch, %wk, w7, rows)
    %ro = route(%k, bias = weight "eb": f32[64]) {by = 2.5, fn = sigmoid, used = 4, norm = true, groups = 8, groups_used = 2}
    %rt = route_by_token(%k, rows.token, table = weight "experts of": i32[96, 4]) {by = 2.5, fn = root_softplus, used = 4, norm = true}
    %ei = experts_in(%k, %ro, up = weight "eu": q8_0[64, 64, 64], up_bias = weight "eub": f32[64, 64]) {limit = 7, limit_out = true, fn = gelu_quick, used = 4, joined = true, up_add = 1, gate_cap = 4, up_cap = 25}
    %es = experts_in(%k, %ro, gate = weight "eg": q8_0[64, 32, 64], up = weight "ev": q8_0[64, 32, 64], gate_scale = weight "egs": f32[64], up_scale = weight "evs": f32[64]) {fn = silu, used = 4}
    %eo = experts_out(%ei, %ro, down = weight "ed": f32[64, 64, 32]) {weigh = true}
    %"odd \"name\"\x07" = add(%g4, %k)
  }
  head (%"odd \"name\"\x07") {
    %qz = quantize(%"odd \"name\"\x07")
    %lg = matmul(%qz, rows = [weight "token_embd.weight"])
    %lc = softcap(%lg) {cap = 30}
    %logits = select(%lc, rows.output)
  }
}
)";

std::string without_comments(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (size_t c = line.find("  //"); c != std::string_view::npos) line = line.substr(0, c);
    out += std::string(line) + "\n";
    text.remove_prefix(end + 1);
  }
  return out;
}

std::string error_of(std::string_view text) {
  try {
    verify(parse(text, "f"));
  } catch (const UserError& e) {
    return e.what();
  } catch (const InternalError& e) {
    return std::string("internal ") + e.what();
  }
  return "";
}

TEST(Text, PrintParsePrintIsTheIdentity) {
  Graph g = parse(kAll, "all");
  verify(g);
  std::set<OpKind> seen;
  for (const Op& op : g.ops) seen.insert(op.kind);
  EXPECT_EQ(int(seen.size()), op_count()) << "a new op: add it to the text above";
  std::string printed = print(g);
  EXPECT_EQ(without_comments(printed), kAll);
  Graph again = parse(printed, "again");
  EXPECT_EQ(print(again), printed);
  EXPECT_EQ(again.layer_begin, g.layer_begin);
  EXPECT_EQ(again.layer_input, g.layer_input);
  EXPECT_EQ(again.values.size(), g.values.size());
}

TEST(Text, ErrorsNameTheirPlace) {
  auto in_graph = [](const std::string& body) {
    return "graph @g(rows: row[T]) -> y: f32[T, 4] {\n  %x = embed(rows.token, table = weight \"e\": f32[8, "
           "4])\n" +
           body + "\n}";
  };
  EXPECT_EQ(error_of(in_graph("  %y = add(%x, %z)")), "f:3:17: unknown value %z");
  EXPECT_EQ(error_of(in_graph("  %y = foo(%x)")), "f:3:8: unknown op 'foo'");
  EXPECT_EQ(error_of(in_graph("  %y = add(%x)")), "f:3:8: add: takes 2 operands, has 1");
  EXPECT_EQ(error_of(in_graph("  %y = scale(%x)")), "f:3:8: scale: attribute by is missing");
  EXPECT_EQ(error_of(in_graph("  %x = scale(%x) {by = 1}")), "f:3:4: value %x is defined twice");
  EXPECT_EQ(error_of(in_graph("  %y = scale(%x, rows) {by = 1}")), "f:3:8: scale does not read rows");
  EXPECT_EQ(error_of(in_graph("  %y = scale(%x) {by = 1e99}")), "f:3:24: no finite f32");
  EXPECT_EQ(error_of(in_graph("  %y = matmul(%x, rows = [weight \"w\": f32[4, 5]])")),
            "f:3:8: matmul: weight 'w' is f32[4, 5], needed are rows of 4");
  EXPECT_EQ(error_of("graph @g(rows: row[T]"), "f:1:22: expected ')', found the end");
  EXPECT_EQ(error_of(in_graph("  %\"y = add(%x, %x)")), "f:3:20: a string does not end on its line");
  EXPECT_EQ(error_of(in_graph("")), "f:1:27: unknown value %y");
}

TEST(Text, SurvivesDamage) {
  const std::string good = kAll;
  std::mt19937 random(1);
  const std::string_view splices[] = {
      "\"", "{", "}",     "(",  "[", "rows", "9223372036854775807", "-1", "%", "\\x", "none", "weight",
      "= ", "0", "1e400", "\n", ";", "->",   "1099511627775"};
  for (int i = 0; i < 4000; i++) {
    std::string s = good;
    for (int n = 1 + random() % 3; n > 0; n--) {
      size_t at = random() % s.size();
      switch (random() % 4) {
        case 0:
          s[at] = char(random());
          break;
        case 1:
          s.erase(at, 1 + random() % 20);
          break;
        case 2:
          s.insert(at, splices[random() % std::size(splices)]);
          break;
        case 3:
          s.insert(at, s.substr(random() % s.size(), random() % 30));
          break;
      }
    }
    std::string error = error_of(s);
    if (error.empty()) EXPECT_EQ(print(parse(print(parse(s)))), print(parse(s)));
  }
}

TEST(Verify, NamesWhatIsWrong) {
  auto damaged = [](auto damage) {
    Graph g = parse(kAll);
    damage(g);
    try {
      verify(g);
    } catch (const InternalError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  auto op = [](Graph& g, OpKind kind) -> Op& {
    for (Op& o : g.ops)
      if (o.kind == kind) return o;
    throw_internal("no such op");
  };
  EXPECT_EQ(damaged([](Graph&) {}), "");
  EXPECT_NE(damaged([&](Graph& g) { op(g, OpKind::add).inputs.pop_back(); }).find("takes 2 operands"),
            std::string::npos);
  EXPECT_NE(damaged([&](Graph& g) { std::swap(g.ops[0], g.ops[1]); }).find("before its definition"),
            std::string::npos);
  EXPECT_NE(damaged([&](Graph& g) { g.values[1].name = g.values[0].name; }).find("two values are named 'x0'"),
            std::string::npos);
  EXPECT_NE(damaged([&](Graph& g) { g.layer_begin.pop_back(); }).find("layer inputs"), std::string::npos);
  EXPECT_NE(damaged([&](Graph& g) { g.layer_input[0] = g.layer_input[1]; }).find("neither made before"),
            std::string::npos);
  EXPECT_NE(damaged([&](Graph& g) { g.values[3].type.elem = Elem::Q16; }).find("should be f32"),
            std::string::npos);
  EXPECT_NE(damaged([&](Graph& g) { op(g, OpKind::attention).state = {0}; }).find("already belongs"),
            std::string::npos);
  EXPECT_NE(damaged([&](Graph& g) { g.outputs.clear(); }).find("no output"), std::string::npos);
}

}  // namespace
}  // namespace gc::ir
