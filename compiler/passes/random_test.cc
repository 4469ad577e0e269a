// Random graphs, of the shapes that architectures are made of and of others, mean the same after the passes: by the
// interpreter, over two steps, with rows of two sequences and rows without an output.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <utility>

#include "compiler/base/error.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/interpret.h"
#include "compiler/ir/print.h"
#include "compiler/ir/random_weights.h"
#include "compiler/ir/verify.h"
#include "compiler/passes/pass.h"

namespace gc::passes {
namespace {

using namespace ir;

constexpr int64_t kEmbd = 64, kVocab = 40;

class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed), b_("random.step") {}

  Graph graph() {
    WeightId table = b_.weight("e", Format::F32, {kVocab, kEmbd});
    ValueId x = b_.embed(table, name());
    if (chance(2)) x = b_.scale(x, 3, name());
    int layers = pick(4);
    for (int i = 0; i < layers; i++) {
      b_.begin_layer(x);
      pool_ = {x};
      for (int n = 2 + pick(5); n > 0; n--) pool_.push_back(step());
      x = chance(4) ? pool_.back() : b_.add(any(), pool_.back(), name());
      pool_.push_back(x);
    }
    if (layers) b_.end_layers(x);
    head(x, table);
    return b_.take();
  }

 private:
  int pick(int n) { return int(random_() % uint32_t(n)); }
  bool chance(int one_in) { return pick(one_in) == 0; }
  std::string name() { return cat("v", count_++); }
  ValueId any() { return pool_[size_t(pick(int(pool_.size())))]; }

  WeightId matrix(int64_t rows) {
    static const Format kFormats[] = {Format::F32, Format::F16, Format::Q4_0, Format::Q8_0};
    return b_.weight(cat("w", count_++), kFormats[pick(4)], {rows, kEmbd});
  }
  WeightId vector(int64_t n) { return b_.weight(cat("w", count_++), Format::F32, {n}); }
  double eps() { return chance(5) ? 1e-5 : 1e-6; }
  ValueId product(ValueId x, int64_t rows) {
    return b_.matmul(x, matrix(rows), chance(4) ? vector(rows) : WeightId{}, name());
  }
  ValueId norm(ValueId x, int64_t n) {
    return b_.rms_norm(x, chance(8) ? WeightId{} : vector(n), eps(), name());
  }

  // [T, kEmbd] from such values.
  ValueId step() {
    switch (pick(10)) {
      case 0:
        return norm(any(), kEmbd);
      case 1:
        return product(any(), kEmbd);
      case 2:
        return b_.add(any(), chance(2) ? norm(any(), kEmbd) : product(any(), kEmbd), name());
      case 3:
        return b_.scale(any(), chance(2) ? 1 : 0.5, name());
      case 4:
        return b_.softcap(any(), 5, name());
      case 5:
        return b_.concat(b_.slice(any(), 0, 16, name()), b_.slice(any(), 16, 48, name()), name());
      case 6:
        return b_.add(b_.mul(any(), product(any(), kEmbd), name()), any(), name());
      case 7:
      case 8:
        return gated(any());
      default:
        return attention(any());
    }
  }

  ValueId gated(ValueId x) {
    Fn fn = Fn(pick(4));
    ValueId gate, up;
    if (chance(3)) {
      ValueId both = product(x, 2 * kEmbd);
      gate = b_.slice(both, 0, kEmbd, name()), up = b_.slice(both, kEmbd, kEmbd, name());
    } else {
      gate = product(x, kEmbd), up = product(chance(6) ? any() : x, kEmbd);
    }
    if (chance(6)) pool_.push_back(gate);
    ValueId a = b_.act(gate, fn, name());
    return product(chance(2) ? b_.mul(a, up, name()) : b_.mul(up, a, name()), kEmbd);
  }

  ValueId attention(ValueId x) {
    const int64_t d = 16, heads = 2, kv = 1;
    ValueId q, k, v;
    if (chance(3)) {
      ValueId all = product(x, (heads + 2 * kv) * d);
      q = b_.slice(all, 0, heads * d, name()), k = b_.slice(all, heads * d, kv * d, name());
      v = b_.slice(all, (heads + kv) * d, kv * d, name());
    } else {
      q = product(x, heads * d), k = product(x, kv * d), v = product(chance(6) ? any() : x, kv * d);
    }
    q = b_.heads(q, heads, name()), k = b_.heads(k, kv, name()), v = b_.heads(v, kv, name());
    if (chance(2)) q = norm(q, d);
    if (chance(2)) k = norm(k, d);
    if (chance(4)) q = b_.scale(q, 0.25, name());
    RopeArgs rope{.base = chance(2) ? 1e4 : 1e6, .scale = 1, .dims = chance(3) ? 8 : d, .neox = chance(2)};
    if (chance(5)) rope.factors = b_.weight("factors", Format::F32, {4}), rope.dims = 8;
    if (!chance(4))
      q = b_.rope(q, rope, name()), k = b_.rope(k, chance(8) ? RopeArgs{.dims = d} : rope, name());
    if (chance(2)) q = b_.scale(q, 0.25, name());
    int64_t window = chance(2) ? 0 : 3;
    StateId s = b_.state({.name = cat("kv", count_++),
                          .kind = window ? State::Kind::KvRing : State::Kind::KvFull,
                          .window = window,
                          .heads = kv,
                          .k_dim = d,
                          .v_dim = d});
    AttentionArgs args{.scale = 1, .window = window, .cap = chance(4) ? 10.0 : 0.0};
    if (chance(4)) args.sinks = vector(heads);
    ValueId out = b_.merge_heads(b_.attention(q, k, v, s, args, name()), name());
    return b_.concat(out, chance(2) ? out : b_.slice(x, 0, heads * d, name()), name());
  }

  void head(ValueId x, WeightId table) {
    bool selected = false;
    for (int n = pick(4); n >= 0; n--) {
      if (!selected && chance(3)) selected = true, x = b_.select(x, name());
      x = chance(2) ? norm(x, kEmbd) : product(x, kEmbd);
    }
    x = b_.matmul(x, table, name());
    if (chance(2)) x = b_.softcap(x, 30, name());
    b_.output(selected ? x : b_.select(x, name()));
    for (ValueId v : pool_)
      if (chance(12)) b_.output(v);
  }

  std::mt19937 random_;
  Builder b_;
  std::vector<ValueId> pool_;
  int count_ = 0;
};

std::vector<Tensor> outputs(const Graph& g) {
  Interpreter interpreter(g, random_weights(5));
  std::vector<Tensor> out;
  for (int step = 0; step < 2; step++) {
    std::vector<Row> rows;
    rows.reserve(4);
    for (int t = 0; t < 3; t++) rows.push_back({step * 3 + t, step * 3 + t, 0, t % 2 == 0});
    rows.push_back({30 + step, step, 1, step == 1});
    for (Tensor& t : interpreter.run(rows)) out.push_back(std::move(t));
  }
  return out;
}

double nmse(const Tensor& a, const Tensor& b) {
  double error = 0, size = 1e-20;
  for (size_t i = 0; i < a.data.size(); i++) {
    error += std::pow(double(a.data[i]) - b.data[i], 2);
    size += std::pow(double(a.data[i]), 2);
  }
  return error / size;
}

void compare(const Graph& before, const std::vector<Tensor>& meaning, const Graph& after, double tolerance) {
  auto got = outputs(after);
  ASSERT_EQ(meaning.size(), got.size());
  for (size_t i = 0; i < got.size(); i++) {
    ASSERT_EQ(meaning[i].dims, got[i].dims);
    ASSERT_LE(nmse(meaning[i], got[i]), tolerance) << print(before) << "\nafter the passes\n" << print(after);
  }
}

TEST(Passes, RandomGraphsKeepTheirMeaning) {
  for (uint32_t seed = 0; seed < 400; seed++) {
    SCOPED_TRACE(cat("seed ", seed));
    Graph before = Generator(seed).graph();
    auto meaning = outputs(before);
    // Without quantization only the order of roundings changes. With it, some of these graphs (products of products
    // without a norm) enlarge its error.
    PassOptions exact;
    exact.disabled = {"quantize_activations"};
    compare(before, meaning, run_passes(before, exact), 1e-7);
    Graph after = run_passes(before);
    compare(before, meaning, after, 1e-2);
    if (HasFatalFailure()) return;
    // Once more finds nothing that must not change.
    ASSERT_NO_THROW(verify(run_passes(after)));
  }
}

}  // namespace
}  // namespace gc::passes
