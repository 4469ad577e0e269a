// The sampler against a plain twin in double that sorts everything, and its edges one by one.
#include "runtime/text/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace gcrt {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

struct Kit {
  Kit(int n, const SamplerOptions& o, std::uint64_t seed = 1, std::vector<LogitBias> bias = {}) {
    EXPECT_EQ(default_chain(o, chain), kOk);
    status = sampler.init(n, chain, {bias.data(), bias.size()}, seed, message);
  }
  int pick(const std::vector<float>& logits) {
    std::int32_t id = -1;
    status = sampler.sample({logits.data(), logits.size()}, &id);
    return status == kOk ? id : status;
  }
  // id -> probability of what the last pick chose from.
  std::map<int, double> left() const {
    std::map<int, double> m;
    for (std::size_t i = 0; i < sampler.candidates().size(); ++i)
      m[sampler.candidates().id(i)] = static_cast<double>(sampler.candidates().prob(i));
    return m;
  }
  Vec<SamplerStage> chain;
  Sampler sampler;
  char message[128] = "";
  Status status = kOk;
};

SamplerOptions off() {
  SamplerOptions o;
  o.temperature = 1, o.top_k = 0, o.top_p = 1, o.min_p = 0;
  return o;
}

std::vector<float> random_logits(std::size_t n, unsigned seed, float spread = 3) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> d(0, spread);
  std::vector<float> v(n);
  for (float& x : v) x = d(rng);
  return v;
}

// The same chain, the obvious way.
std::map<int, double> plain(std::vector<float> logits, const SamplerOptions& o,
                            const std::map<int, int>& counts = {}) {
  for (auto [id, count] : counts) {
    float& l = logits[static_cast<std::size_t>(id)];
    l = l <= 0 ? l * o.repeat_penalty : l / o.repeat_penalty;
    l -= static_cast<float>(count) * o.frequency_penalty + o.presence_penalty;
  }
  std::vector<int> ids(logits.size());
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int>(i);
  auto logit = [&logits](int i) { return static_cast<double>(logits[static_cast<std::size_t>(i)]); };
  std::sort(ids.begin(), ids.end(),
            [&](int a, int b) { return logit(a) != logit(b) ? logit(a) > logit(b) : a < b; });
  if (o.top_k > 0) ids.resize(std::min(ids.size(), static_cast<std::size_t>(o.top_k)));
  auto probs = [&](double t) {
    std::vector<double> p;
    double sum = 0;
    for (int i : ids) p.push_back(std::exp((logit(i) - logit(ids[0])) / t)), sum += p.back();
    for (double& x : p) x /= sum;
    return p;
  };
  if (o.top_p < 1) {
    std::vector<double> p = probs(1);
    double sum = 0;
    std::size_t n = 0;
    while (n < p.size()) {
      sum += p[n++];
      if (sum >= static_cast<double>(o.top_p) && n >= o.min_keep) break;
    }
    ids.resize(n);
  }
  if (o.min_p > 0) {
    double bound = logit(ids[0]) + std::log(static_cast<double>(o.min_p));
    std::size_t n = 0;
    while (n < ids.size() && (logit(ids[n]) >= bound || n < o.min_keep)) ++n;
    ids.resize(n);
  }
  std::vector<double> p = probs(static_cast<double>(o.temperature));
  std::map<int, double> out;
  for (std::size_t i = 0; i < ids.size(); ++i) out[ids[i]] = p[i];
  return out;
}

void expect_same(const std::map<int, double>& got, const std::map<int, double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (auto [id, p] : want) {
    ASSERT_TRUE(got.count(id)) << id;
    EXPECT_NEAR(got.at(id), p, 2e-6 + 2e-5 * p) << id;
  }
}

TEST(Sampler, AgreesWithThePlainTwin) {
  std::mt19937 rng(5);
  const std::size_t sizes[] = {1, 2, 7, 100, 1000, 5000, 40000};
  for (int round = 0; round < 150; ++round) {
    std::size_t n = sizes[rng() % std::size(sizes)];
    SamplerOptions o = off();
    if (rng() % 2) o.top_k = static_cast<int>(1 + rng() % 300);
    if (rng() % 2) o.top_p = static_cast<float>(rng() % 1000) / 1000;
    if (rng() % 2) o.min_p = static_cast<float>(rng() % 200) / 1000;
    if (rng() % 2) o.temperature = 0.3f + static_cast<float>(rng() % 20) / 10;
    if (rng() % 3 == 0) o.min_keep = static_cast<std::uint32_t>(rng() % 5);
    if (rng() % 2) o.repeat_penalty = 1.3f, o.frequency_penalty = 0.2f, o.presence_penalty = 0.1f;
    o.repeat_last_n = 8;
    std::vector<float> logits = random_logits(n, static_cast<unsigned>(round), round % 2 ? 3 : 0.5f);
    Kit k(static_cast<int>(n), o);
    ASSERT_EQ(k.status, kOk);
    std::vector<int> history;
    for (int i = 0; i < 20; ++i) {
      history.push_back(static_cast<int>(rng() % n));
      ASSERT_EQ(k.sampler.accept(history.back()), kOk);
    }
    std::map<int, int> counts;
    for (std::size_t i = history.size() - 8; i < history.size(); ++i) ++counts[history[i]];
    if (o.repeat_penalty == 1.0f) counts.clear();
    std::map<int, double> want = plain(logits, o, counts);
    int id = k.pick(logits);
    ASSERT_TRUE(want.count(id)) << id;
    // Greedy fills no probabilities.
    if (k.sampler.is_greedy()) continue;
    expect_same(k.left(), want);
  }
}

TEST(Sampler, GreedyTakesTheLowestIdOnTies) {
  SamplerOptions o;
  for (float t : {0.0f, -1.0f}) {
    o.temperature = t;
    Kit k(5, o);
    EXPECT_EQ(k.pick({1, 3, 2, 3, 0}), 1);
    EXPECT_EQ(k.pick({-0.0f, 0, 0, -1, 0}), 0);
    EXPECT_EQ(k.sampler.draws(), 0u);
    std::int32_t id = -1;
    std::int32_t ids[] = {4, 2, 3};
    float logits[] = {7, 7, 1};
    EXPECT_EQ(k.sampler.sample_list(ids, logits, true, &id), kOk);
    EXPECT_EQ(id, 2);
  }
  o.temperature = 0.8f;
  o.top_k = 1;
  Kit k(5, o);
  EXPECT_EQ(k.pick({1, 3, 2, 3, 0}), 1);
}

TEST(Sampler, EdgesOfParameters) {
  std::vector<float> l = random_logits(3000, 7);
  int best = static_cast<int>(std::max_element(l.begin(), l.end()) - l.begin());
  auto with = [&l](auto change) {
    SamplerOptions o = off();
    change(o);
    Kit k(3000, o);
    EXPECT_EQ(k.status, kOk) << k.message;
    int id = k.pick(l);
    return std::pair(id, k.sampler.candidates().size());
  };
  using O = SamplerOptions;
  EXPECT_EQ(with([](O& o) { o.top_k = 0; }).second, 3000u);
  EXPECT_EQ(with([](O& o) { o.top_k = -1; }).second, 3000u);
  EXPECT_EQ(with([](O& o) { o.top_k = 1000000000; }).second, 3000u);
  EXPECT_EQ(with([](O& o) { o.top_p = 1.5f; }).second, 3000u);
  EXPECT_EQ(with([](O& o) { o.top_p = 0; }), std::pair(best, std::size_t{1}));
  EXPECT_EQ(with([](O& o) { o.top_p = -0.1f; }), std::pair(best, std::size_t{1}));
  EXPECT_EQ(with([](O& o) { o.min_p = 1; }), std::pair(best, std::size_t{1}));
  EXPECT_EQ(with([](O& o) { o.min_p = 2; }), std::pair(best, std::size_t{1}));
  EXPECT_EQ(with([](O& o) { o.temperature = 1e-5f; }).first, best);
  EXPECT_EQ(with([](O& o) { o.temperature = 1e-40f; }).first, best);
  EXPECT_GE(with([](O& o) { o.temperature = 1e38f; }).first, 0);
  EXPECT_EQ(with([](O& o) { o.repeat_last_n = 1000000000, o.repeat_penalty = 1e9f; }).second, 3000u);
  EXPECT_EQ(with([](O& o) { o.repeat_last_n = 0, o.repeat_penalty = 2; }).second, 3000u);
}

TEST(Sampler, MinPOneKeepsAllThatAreGreatest) {
  SamplerOptions o = off();
  o.min_p = 1;
  Kit k(5, o);
  EXPECT_GE(k.pick({1, 3, 2, 3, 3}), 0);
  EXPECT_EQ(k.sampler.candidates().size(), 3u);
}

TEST(Sampler, RefusesBadParametersAndLogits) {
  auto status = [](auto change) {
    SamplerOptions o;
    change(o);
    return Kit(10, o).status;
  };
  using O = SamplerOptions;
  EXPECT_EQ(status([](O& o) { o.temperature = NAN; }), kErrArgument);
  EXPECT_EQ(status([](O& o) { o.temperature = kInf; }), kErrArgument);
  EXPECT_EQ(status([](O& o) { o.top_p = NAN; }), kErrArgument);
  EXPECT_EQ(status([](O& o) { o.min_p = NAN; }), kErrArgument);
  EXPECT_EQ(status([](O& o) { o.repeat_penalty = 0; }), kErrArgument);
  EXPECT_EQ(status([](O& o) { o.repeat_last_n = -2; }), kErrArgument);
  EXPECT_EQ(status([](O& o) { o.presence_penalty = kInf; }), kErrArgument);
  for (float t : {0.0f, 0.8f})
    for (float bad : {static_cast<float>(NAN), kInf}) {
      SamplerOptions o;
      o.temperature = t;
      Kit k(4, o);
      EXPECT_EQ(k.pick({1, bad, 2, 3}), kErrNan);
      EXPECT_EQ(k.pick({bad, bad, bad, bad}), kErrNan);
      EXPECT_EQ(k.pick({-kInf, -kInf, -kInf, -kInf}), kErrNan);
      EXPECT_EQ(k.pick({-kInf, -kInf, 2, -kInf}), 2);
      EXPECT_EQ(k.pick({1, 2, 3}), kErrArgument);
    }
}

TEST(Sampler, BiasComesFirstGreedyIncluded) {
  SamplerOptions o;
  o.temperature = 0;
  EXPECT_EQ(Kit(3, o, 1, {{1, -100}}).pick({1, 5, 2}), 2);
  EXPECT_EQ(Kit(3, o, 1, {{0, 100}}).pick({1, 5, 2}), 0);
  EXPECT_EQ(Kit(3, o, 1, {{1, -kInf}, {2, -kInf}}).pick({1, 5, 2}), 0);
  EXPECT_EQ(Kit(3, o, 1, {{3, 1}}).status, kErrArgument);
  EXPECT_EQ(Kit(3, o, 1, {{-1, 1}}).status, kErrArgument);
  EXPECT_EQ(Kit(3, o, 1, {{1, kInf}}).status, kErrArgument);
  EXPECT_EQ(Kit(3, o, 1, {{1, NAN}}).status, kErrArgument);
}

TEST(Sampler, PenaltiesForgetWhatIsOld) {
  SamplerOptions o;
  o.temperature = 0;
  o.repeat_last_n = 2;
  o.presence_penalty = 10;
  Kit k(4, o);
  EXPECT_EQ(k.pick({4, 3, 2, 1}), 0);
  for (int i = 0; i < 5; ++i) ASSERT_EQ(k.sampler.accept(0), kOk);
  EXPECT_EQ(k.pick({4, 3, 2, 1}), 1);
  ASSERT_EQ(k.sampler.accept(1), kOk);
  EXPECT_EQ(k.pick({4, 3, 2, 1}), 2);
  ASSERT_EQ(k.sampler.accept(2), kOk);  // 0 is forgotten
  EXPECT_EQ(k.pick({4, 3, 2, 1}), 0);
  EXPECT_EQ(k.sampler.accept(4), kErrArgument);
  o.repeat_last_n = -1;
  Kit all(4, o);
  for (int id : {0, 1, 2, 2, 2}) ASSERT_EQ(all.sampler.accept(id), kOk);
  EXPECT_EQ(all.pick({4, 3, 2, 1}), 3);
}

TEST(Sampler, TheSameSeedTheSameTokens) {
  std::vector<float> l = random_logits(2000, 9, 1);
  auto run = [&l](std::uint64_t seed) {
    Kit k(2000, off(), seed);
    std::vector<int> ids(50);
    for (int& id : ids) id = k.pick(l);
    return ids;
  };
  EXPECT_EQ(run(42), run(42));
  EXPECT_NE(run(42), run(43));
  EXPECT_NE(run(0), run(1));
  // Goes on where a restored state was.
  Kit a(2000, off(), 7), b(2000, off(), 7);
  for (int i = 0; i < 5; ++i) a.pick(l);
  b.sampler.set_draws(a.sampler.draws());
  EXPECT_EQ(a.pick(l), b.pick(l));
  // Golden: what the generator gives may never change.
  EXPECT_DOUBLE_EQ(uniform_draw(0, 0), 0.8833108082136426);
  EXPECT_DOUBLE_EQ(uniform_draw(42, 0), 0.7415648787718233);
}

TEST(Sampler, DrawsFollowTheProbabilities) {
  Kit k(4, off(), 11);
  std::vector<float> l = {std::log(0.5f), std::log(0.25f), std::log(0.2f), std::log(0.05f)};
  std::vector<int> count(4);
  constexpr int kDraws = 40000;
  for (int i = 0; i < kDraws; ++i) ++count[static_cast<std::size_t>(k.pick(l))];
  const double want[] = {0.5, 0.25, 0.2, 0.05};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(count[i] / double{kDraws}, want[i], 0.01);
}

TEST(Sampler, ChainsByName) {
  Vec<SamplerStage> chain;
  char message[128];
  ASSERT_EQ(named_chain({}, "temperature;top_k", chain, message), kOk);
  ASSERT_EQ(chain.size(), 2u);
  EXPECT_EQ(chain[0].kind, SamplerKind::kTemperature);
  EXPECT_EQ(chain[1].kind, SamplerKind::kTopK);
  EXPECT_EQ(named_chain({}, "top_k;nosuch", chain, message), kErrInput);
  EXPECT_STREQ(message, "no sampler is called 'nosuch'");
  EXPECT_EQ(named_chain({}, "infill", chain, message), kOk);
  // The order counts: a high temperature first lets top-p keep more.
  std::vector<float> l = random_logits(500, 3);
  auto kept = [&l](Str names) {
    SamplerOptions o;
    o.temperature = 3, o.top_p = 0.9f;
    Vec<SamplerStage> c;
    char text[64];
    EXPECT_EQ(named_chain(o, names, c, text), kOk);
    Sampler s;
    EXPECT_EQ(s.init(500, c, {}, 1, text), kOk);
    std::int32_t id = 0;
    EXPECT_EQ(s.sample({l.data(), l.size()}, &id), kOk);
    return s.candidates().size();
  };
  EXPECT_GT(kept("temperature;top_p"), kept("top_p;temperature"));
}

TEST(Sampler, ListsFromAHeadChooseTheSame) {
  SamplerOptions o;
  o.min_p = 0;
  std::vector<float> l = random_logits(5000, 13);
  std::vector<std::int32_t> order(5000);
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
  std::sort(order.begin(), order.end(),
            [&l](int a, int b) { return l[static_cast<std::size_t>(a)] > l[static_cast<std::size_t>(b)]; });
  order.resize(40);
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  std::vector<float> top(order.size());
  for (std::size_t i = 0; i < top.size(); ++i) top[i] = l[static_cast<std::size_t>(order[i])];
  Kit a(5000, o, 3), b(5000, o, 3);
  // Top-p over 40 candidates is relative to them, as after top_k in the chain.
  for (int i = 0; i < 100; ++i) {
    std::int32_t id = -1;
    ASSERT_EQ(b.sampler.sample_list({order.data(), 40}, {top.data(), 40}, false, &id), kOk);
    EXPECT_EQ(a.pick(l), id);
  }
}

}  // namespace
}  // namespace gcrt
