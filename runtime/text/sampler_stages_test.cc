// The stages beyond the short ones, each against a plain computation in double over sorted probabilities.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/text/sampler.h"

namespace gcrt {
namespace {

using Dist = std::map<int, double>;

std::vector<float> random_logits(std::size_t n, unsigned seed, float spread = 2) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> d(0, spread);
  std::vector<float> v(n);
  for (float& x : v) x = d(rng);
  return v;
}

struct Kit {
  Kit(int n, const SamplerOptions& o, Str names, std::uint64_t seed = 1) {
    EXPECT_EQ(named_chain(o, names, chain, message), kOk) << message;
    status = sampler.init(n, chain, {}, seed, message);
  }
  int pick(const std::vector<float>& logits) {
    std::int32_t id = -1;
    status = sampler.sample({logits.data(), logits.size()}, &id);
    return status == kOk ? id : status;
  }
  Dist left() const {
    Dist m;
    for (std::size_t i = 0; i < sampler.candidates().size(); ++i)
      if (sampler.candidates().prob(i) > 0)
        m[sampler.candidates().id(i)] = static_cast<double>(sampler.candidates().prob(i));
    return m;
  }
  Vec<SamplerStage> chain;
  Sampler sampler;
  char message[128] = "";
  Status status = kOk;
};

struct Item {
  int id;
  double logit, p;
};
// By falling logit, then rising id, with probabilities.
std::vector<Item> sorted(const std::vector<float>& logits) {
  std::vector<Item> v;
  for (std::size_t i = 0; i < logits.size(); ++i)
    v.push_back({static_cast<int>(i), static_cast<double>(logits[i]), 0});
  std::sort(v.begin(), v.end(), [](const Item& a, const Item& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  });
  double sum = 0;
  for (Item& x : v) sum += x.p = std::exp(x.logit - v[0].logit);
  for (Item& x : v) x.p /= sum;
  return v;
}
Dist normal(const std::vector<Item>& v, double t = 1) {
  Dist out;
  double sum = 0, top = -1e300;
  for (const Item& x : v) top = std::max(top, x.logit);
  for (const Item& x : v) sum += std::exp((x.logit - top) / t);
  for (const Item& x : v) out[x.id] = std::exp((x.logit - top) / t) / sum;
  return out;
}
double entropy(const std::vector<Item>& v) {
  double h = 0;
  for (const Item& x : v)
    if (x.p > 0) h -= x.p * std::log(x.p);
  return h;
}
void expect_same(const Dist& got, const Dist& want) {
  ASSERT_EQ(got.size(), want.size());
  for (auto [id, p] : want) {
    ASSERT_TRUE(got.count(id)) << id;
    EXPECT_NEAR(got.at(id), p, 3e-6 + 3e-5 * p) << id;
  }
}

TEST(Stages, TopNSigma) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::vector<float> l = random_logits(300, seed);
    SamplerOptions o;
    o.top_n_sigma = 1.5f;
    Kit k(300, o, "top_n_sigma");
    EXPECT_GE(k.pick(l), 0);
    double mean = 0, squares = 0;
    for (float x : l) mean += static_cast<double>(x) / 300;
    for (float x : l) squares += (static_cast<double>(x) - mean) * (static_cast<double>(x) - mean) / 300;
    std::vector<Item> v = sorted(l), kept;
    for (const Item& x : v)
      if (x.logit >= v[0].logit - 1.5 * std::sqrt(squares)) kept.push_back(x);
    expect_same(k.left(), normal(kept));
  }
  SamplerOptions o;
  EXPECT_EQ(Kit(3, o, "top_n_sigma").pick({1, -std::numeric_limits<float>::infinity(), 0}) >= 0, true);
}

TEST(Stages, Typical) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::vector<float> l = random_logits(200, seed);
    SamplerOptions o;
    o.typ_p = 0.1f + 0.02f * static_cast<float>(seed);
    o.min_keep = seed % 5;
    Kit k(200, o, "typ_p");
    EXPECT_GE(k.pick(l), 0);
    std::vector<Item> v = sorted(l);
    double h = entropy(v), mass = 0;
    std::sort(v.begin(), v.end(), [h](const Item& a, const Item& b) {
      return std::fabs(-std::log(a.p) - h) < std::fabs(-std::log(b.p) - h);
    });
    std::size_t n = 0;
    while (n < v.size()) {
      mass += v[n++].p;
      if (mass > static_cast<double>(o.typ_p) && n >= o.min_keep) break;
    }
    v.resize(n);
    expect_same(k.left(), normal(v));
  }
}

TEST(Stages, Xtc) {
  std::vector<float> l = {std::log(0.4f), std::log(0.3f), std::log(0.2f), std::log(0.06f), std::log(0.04f)};
  SamplerOptions o;
  o.xtc_probability = 1, o.xtc_threshold = 0.1f;
  Kit always(5, o, "xtc");
  for (int i = 0; i < 50; ++i) EXPECT_GE(always.pick(l), 2);
  expect_same(always.left(), {{2, 0.2 / 0.3}, {3, 0.06 / 0.3}, {4, 0.04 / 0.3}});
  EXPECT_FALSE(always.sampler.is_greedy());
  o.min_keep = 4;
  Kit kept(5, o, "xtc");
  kept.pick(l);
  EXPECT_EQ(kept.left().size(), 5u);
  o.min_keep = 0, o.xtc_threshold = 0.35f;  // only one reaches it: nothing goes
  Kit one(5, o, "xtc");
  one.pick(l);
  EXPECT_EQ(one.left().size(), 5u);
  o.xtc_threshold = 0.51f;
  Kit off(5, o, "xtc");
  off.pick(l);
  EXPECT_EQ(off.left().size(), 5u);
  o.xtc_threshold = 0.1f, o.xtc_probability = 0.5f;
  Kit half(5, o, "xtc");
  int cut = 0;
  for (int i = 0; i < 2000; ++i) half.pick(l), cut += half.left().size() == 3;
  EXPECT_NEAR(cut, 1000, 100);
  // Greedy takes what xtc leaves.
  o.xtc_probability = 1, o.temperature = 0;
  EXPECT_EQ(Kit(5, o, "xtc;temperature").pick(l), 2);
}

TEST(Stages, DynamicTemperature) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::vector<float> l = random_logits(50, seed);
    SamplerOptions o;
    o.temperature = 0.8f, o.dynatemp_range = 0.5f, o.dynatemp_exponent = 1.3f;
    Kit k(50, o, "temperature");
    EXPECT_GE(k.pick(l), 0);
    std::vector<Item> v = sorted(l);
    double t = 0.3 + 1.0 * std::pow(entropy(v) / std::log(50.0), 1.3);
    expect_same(k.left(), normal(v, t));
  }
  SamplerOptions o;
  o.temperature = 0, o.dynatemp_range = 1;
  Kit k(50, o, "temperature");
  EXPECT_FALSE(k.sampler.is_greedy());
  EXPECT_GE(k.pick(random_logits(50, 3)), 0);
  EXPECT_EQ(Kit(1, o, "temperature").pick({3}), 0);
}

TEST(Stages, Mirostat2) {
  std::vector<float> l = random_logits(1000, 5);
  SamplerOptions o;
  o.mirostat = 2, o.temperature = 1, o.mirostat_tau = 3, o.mirostat_eta = 0.1f;
  Kit k(1000, o, "top_k");  // the names count for nothing
  ASSERT_EQ(k.chain.size(), 2u);
  double mu = 6;
  for (int i = 0; i < 100; ++i) {
    int id = k.pick(l);
    std::vector<Item> v = sorted(l), kept;
    for (const Item& x : v)
      if (-std::log2(x.p) <= mu) kept.push_back(x);
    if (kept.empty()) kept = {v[0]};
    Dist want = normal(kept);
    ASSERT_EQ(k.left().size(), want.size());
    ASSERT_TRUE(want.count(id));
    mu -= 0.1 * (-std::log2(want.at(id)) - 3);
    ASSERT_NEAR(static_cast<double>(k.sampler.state().mirostat_mu), mu, 1e-3);
  }
}

TEST(Stages, Mirostat1) {
  std::vector<float> l = random_logits(1000, 6);
  SamplerOptions o;
  o.mirostat = 1, o.temperature = 1, o.mirostat_tau = 4;
  Kit k(1000, o, "");
  double mu = 8;
  for (int i = 0; i < 60; ++i) {
    int id = k.pick(l);
    std::vector<Item> v = sorted(l);
    double products = 0, squares = 0;
    for (int j = 0; j < 99; ++j) {
      double t = std::log((j + 2.0) / (j + 1.0)),
             b = v[static_cast<std::size_t>(j)].logit - v[static_cast<std::size_t>(j) + 1].logit;
      products += t * b, squares += t * t;
    }
    double s = products / squares, e = s - 1;
    double n = std::pow(e * std::pow(2, mu) / (1 - std::pow(1000, -e)), 1 / s);
    v.resize(std::clamp<std::size_t>(static_cast<std::size_t>(std::max(n, 1.0)), 1, 1000));
    Dist want = normal(v);
    ASSERT_EQ(k.left().size(), want.size());
    ASSERT_TRUE(want.count(id));
    mu -= 0.1 * (-std::log2(want.at(id)) - 4);
  }
  EXPECT_EQ(Kit(1, o, "").pick({2}), 0);
}

TEST(Stages, AdaptiveP) {
  std::vector<float> l = random_logits(40, 7);
  SamplerOptions o;
  o.adaptive_target = 0.3f, o.adaptive_decay = 0.9f;
  Kit k(40, o, "top_k;adaptive_p");
  double weight = 10, sum = 3;
  for (int i = 0; i < 100; ++i) {
    int id = k.pick(l);
    std::vector<Item> v = sorted(l);
    double target = std::clamp(2 * 0.3 - sum / weight, 0.0, 1.0), chosen = 0;
    for (Item& x : v) {
      if (x.id == id) chosen = x.p;
      double far = std::fabs((x.p - target) / 0.3);
      x.logit = 5 - 10 * far * far / (1 + far);
    }
    expect_same(k.left(), normal(v));
    ASSERT_EQ(k.sampler.accept(id), kOk);
    sum = chosen + 0.9 * sum, weight = 1 + 0.9 * weight;
  }
  o.adaptive_target = -1;  // a plain draw
  Kit off(40, o, "adaptive_p"), plain(40, o, "");
  EXPECT_EQ(off.pick(l), plain.pick(l));
}

// Tries every place and every length.
std::map<int, int> dry_twin(const std::vector<int>& text, int allowed, int last_n,
                            const std::vector<int>& breakers) {
  std::vector<int> t(text.end() - std::min<long>(last_n, static_cast<long>(text.size())), text.end());
  int n = static_cast<int>(t.size()), most = n;
  for (int i = 0; i < n; ++i)
    if (std::count(breakers.begin(), breakers.end(), t[static_cast<std::size_t>(n - 1 - i)])) {
      most = i;
      break;
    }
  std::map<int, int> longest;
  if (n <= allowed || most < allowed) return longest;
  for (int end = 1; end < n; ++end) {
    int length = 0;
    while (length < end &&
           t[static_cast<std::size_t>(end - 1 - length)] == t[static_cast<std::size_t>(n - 1 - length)])
      ++length;
    length = std::min(length, most);
    int next = t[static_cast<std::size_t>(end)];
    if (length >= allowed) longest[next] = std::max(longest[next], length);
  }
  return longest;
}

TEST(Stages, DryPenalizesWhatGoesOnWithARepetition) {
  std::mt19937 rng(8);
  for (int round = 0; round < 200; ++round) {
    SamplerOptions o;
    o.dry_multiplier = 0.8f, o.dry_base = 1.75f, o.dry_allowed_length = static_cast<int>(rng() % 3);
    o.dry_last_n = round % 4 ? 20 : -1;
    Kit k(6, o, "dry");
    DryBreakers breakers{libc_allocator()};
    if (round % 2) ASSERT_EQ(breakers.add(5, {}), kOk);
    ASSERT_EQ(k.sampler.set_breakers(breakers), kOk);
    std::vector<int> text;
    for (std::size_t n = rng() % 60; n; --n) {
      text.push_back(static_cast<int>(rng() % 6));
      if (rng() % 2 && text.size() > 4) text.push_back(text[text.size() - 4]);
    }
    for (int t : text) ASSERT_EQ(k.sampler.accept(t), kOk);
    std::vector<float> l = random_logits(6, static_cast<unsigned>(round));
    EXPECT_GE(k.pick(l), 0);
    std::vector<float> want = l;
    for (auto [id, length] : dry_twin(text, o.dry_allowed_length, o.dry_last_n < 0 ? 1000 : 20,
                                      round % 2 ? std::vector<int>{5} : std::vector<int>{}))
      if (!(round % 2 && id == 5))
        want[static_cast<std::size_t>(id)] -=
            0.8f * std::pow(1.75f, static_cast<float>(length - o.dry_allowed_length));
    expect_same(k.left(), normal(sorted(want)));
  }
}

TEST(Stages, DryBreakersOfSeveralTokens) {
  SamplerOptions o;
  o.dry_multiplier = 1, o.dry_allowed_length = 1;
  auto penalized = [&o](bool breaks) {
    Kit k(9, o, "dry");
    DryBreakers b{libc_allocator()};
    std::int32_t tail[] = {4};
    EXPECT_EQ(b.add(3, tail), kOk);
    EXPECT_EQ(b.add(3, tail), kOk);
    EXPECT_EQ(b.size(), 1u);
    if (breaks) EXPECT_EQ(k.sampler.set_breakers(b), kOk);
    for (int t : {1, 2, 3, 4, 5, 6, 1, 2, 3, 4}) EXPECT_EQ(k.sampler.accept(t), kOk);
    k.pick(std::vector<float>(9, 0.0f));
    return k.left().at(5) < 0.1;
  };
  EXPECT_TRUE(penalized(false));
  EXPECT_FALSE(penalized(true));
}

TEST(Stages, HugeRepetitionsStayFinite) {
  SamplerOptions o;
  o.dry_multiplier = 1, o.dry_base = 10, o.dry_last_n = -1;
  Kit k(3, o, "dry");
  for (int i = 0; i < 5000; ++i) ASSERT_EQ(k.sampler.accept(0), kOk);
  EXPECT_NE(k.pick({5, 1, 1}), 0);
}

TEST(Chain, DefaultOrderNamesAndLetters) {
  Vec<SamplerStage> chain, letters;
  char message[128];
  ASSERT_EQ(default_chain({}, chain), kOk);
  std::string names;
  for (const SamplerStage& s : chain) {
    Str n = sampler_name(s.kind);
    names += (names.empty() ? "" : ";") + std::string(n.data(), n.size());
  }
  EXPECT_EQ(names, "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature");
  ASSERT_EQ(letter_chain({}, "edskypmxt", letters, message), kOk);
  ASSERT_EQ(letters.size(), chain.size());
  for (std::size_t i = 0; i < chain.size(); ++i) EXPECT_EQ(letters[i].kind, chain[i].kind);
  EXPECT_EQ(letter_chain({}, "kq", letters, message), kErrInput);
  EXPECT_STREQ(message, "no sampler has the letter 'q'");
  for (Str name : {Str("top-k"), Str("topk"), Str("TOP_K")}) {
    Vec<SamplerStage> c;
    ASSERT_EQ(named_chain({}, name, c, message), kOk);
    EXPECT_EQ(c[0].kind, SamplerKind::kTopK);
  }
  for (Str name :
       {Str("nucleus"), Str("temp"), Str("typ"), Str("typical"), Str("topnsigma"), Str("adaptive-p")}) {
    Vec<SamplerStage> c;
    EXPECT_EQ(named_chain({}, name, c, message), kOk);
  }
  SamplerOptions o;
  o.mirostat = 3;
  EXPECT_EQ(named_chain(o, "top_k", chain, message), kErrInput);
}

TEST(Chain, TheSameSeedTheSameTextWithEveryStage) {
  SamplerOptions o;
  o.dry_multiplier = 0.5f, o.xtc_probability = 0.5f, o.typ_p = 0.9f, o.top_n_sigma = 2,
  o.dynatemp_range = 0.3f;
  o.repeat_penalty = 1.1f, o.adaptive_target = 0.4f;
  std::vector<float> l = random_logits(3000, 9, 1);
  auto run = [&](std::uint64_t seed) {
    Kit k(3000, o, "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature;adaptive_p", seed);
    EXPECT_EQ(k.status, kOk) << k.message;
    std::vector<int> ids(60);
    for (int& id : ids) {
      id = k.pick(l);
      EXPECT_EQ(k.sampler.accept(id), kOk);
    }
    return ids;
  };
  EXPECT_EQ(run(3), run(3));
  EXPECT_NE(run(3), run(4));
}

TEST(Chain, TopProbsAreTheModelsOwn) {
  std::vector<float> l = random_logits(500, 10);
  Kit k(500, {}, "top_k");
  Vec<TokenProb> top;
  TokenProb own{};
  ASSERT_EQ(k.sampler.top_probs({l.data(), l.size()}, 5, 17, top, &own), kOk);
  std::vector<Item> v = sorted(l);
  ASSERT_EQ(top.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(top[i].id, v[i].id);
    EXPECT_NEAR(static_cast<double>(top[i].logprob), std::log(v[i].p), 1e-4);
  }
  EXPECT_EQ(own.id, 17);
  l[3] = NAN;
  EXPECT_EQ(k.sampler.top_probs({l.data(), l.size()}, 5, 17, top, &own), kErrNan);
}

TEST(Chain, BadParametersAreRefused) {
  auto status = [](auto change, Str name) {
    SamplerOptions o;
    change(o);
    return Kit(10, o, name).status;
  };
  using O = SamplerOptions;
  EXPECT_EQ(status([](O& o) { o.typ_p = NAN; }, "typ_p"), kErrArgument);
  EXPECT_EQ(status([](O& o) { o.xtc_threshold = NAN; }, "xtc"), kErrArgument);
  EXPECT_EQ(status([](O& o) { o.dry_base = INFINITY; }, "dry"), kErrArgument);
  EXPECT_EQ(status([](O& o) { o.dry_last_n = -2; }, "dry"), kErrArgument);
  EXPECT_EQ(status([](O& o) { o.top_n_sigma = NAN; }, "top_n_sigma"), kErrArgument);
  EXPECT_EQ(status([](O& o) { o.dynatemp_range = NAN; }, "temperature"), kErrArgument);
  EXPECT_EQ(status([](O& o) { o.mirostat = 1, o.mirostat_tau = NAN; }, ""), kErrArgument);
  EXPECT_EQ(status([](O& o) { o.adaptive_decay = NAN; }, "adaptive_p"), kErrArgument);
  EXPECT_EQ(status([](O& o) { o.dry_multiplier = 1; }, "dry;dry"), kErrArgument);
}

}  // namespace
}  // namespace gcrt
