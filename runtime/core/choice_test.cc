// What workers' lists give is what sorting all logits gives: for any sharing, any order of pieces, all rules.
#include "runtime/core/choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "runtime/base/penalty.h"

namespace gcrt {
namespace {

constexpr uint32_t kVocab = 4999;  // not whole panels
constexpr uint32_t kPadded = (kVocab + 15) / 16 * 16;

struct Rules {
  std::vector<gc_bias> bias;
  std::vector<int32_t> recent;
  std::vector<uint64_t> mask;
  float repeat = 1, frequency = 0, presence = 0;

  gc_logit_rules seam() const {
    gc_logit_rules r = {};
    r.bias = bias.data(), r.n_bias = static_cast<uint32_t>(bias.size());
    r.recent = recent.data(), r.n_recent = static_cast<uint32_t>(recent.size());
    r.repeat_penalty = repeat, r.frequency_penalty = frequency, r.presence_penalty = presence;
    r.mask = mask.empty() ? nullptr : mask.data();
    return r;
  }
  std::vector<float> applied(std::vector<float> logits) const {
    for (const gc_bias& b : bias) logits[b.token] += b.add;
    for (uint32_t t = 0; t < kVocab; ++t) {
      const auto count = std::count(recent.begin(), recent.end(), static_cast<int32_t>(t));
      if (count) logits[t] = penalized(logits[t], repeat, frequency, presence, static_cast<int32_t>(count));
      if (!mask.empty() && !(mask[t / 64] >> (t % 64) & 1)) logits[t] = -INFINITY;
    }
    return logits;
  }
};

std::vector<float> random_logits(uint32_t seed, bool ties) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> logits(kPadded, 1e30f);  // padding must not count
  for (uint32_t i = 0; i < kVocab; ++i) {
    logits[i] = normal(random);
    if (ties) logits[i] = std::round(logits[i]);
  }
  return logits;
}

std::vector<int32_t> sorted_ids(const std::vector<float>& logits, uint32_t k) {
  std::vector<int32_t> ids(kVocab);
  std::iota(ids.begin(), ids.end(), 0);
  std::sort(ids.begin(), ids.end(),
            [&](int32_t a, int32_t b) { return logits[a] > logits[b] || (logits[a] == logits[b] && a < b); });
  ids.resize(k);
  for (int32_t& id : ids)
    if (logits[id] == -INFINITY) id = -1;
  return ids;
}

struct Chosen {
  Status status;
  std::vector<int32_t> ids;
  std::vector<float> values;
};

// As a head would: `bounds`: looks twice, with bounds that are off by up to `slack`.
Chosen choose(const std::vector<float>& logits, uint32_t k, uint32_t workers, uint32_t piece,
              const Rules* rules, float slack, size_t* computed = nullptr) {
  Choice choice;
  EXPECT_EQ(choice.init(kVocab, workers, 1, k, libc_allocator()), kOk);
  Chosen c{kOk, std::vector<int32_t>(k), std::vector<float>(k)};
  gc_sink sink = {};
  sink.kind = k == 1 ? GC_SINK_ARGMAX : GC_SINK_TOPK;
  sink.k = k;
  sink.ids = c.ids.data(), sink.values = c.values.data();
  gc_logit_rules seam = {};
  if (rules) seam = rules->seam(), sink.rules = &seam;
  EXPECT_EQ(choice.begin(sink, 1), kOk);
  const gc_choice* h = choice.hooks();
  std::mt19937 random(1);
  std::vector<float> most(kPadded / 16);
  auto each_piece = [&](auto f) {
    for (uint32_t w = workers; w-- > 0;) {
      const uint32_t lo = kPadded / 16 * w / workers * 16, hi = kPadded / 16 * (w + 1) / workers * 16;
      for (uint32_t at = lo; at < hi; at += piece) f(w, at, std::min(piece, hi - at));
    }
  };
  if (slack > 0)
    each_piece([&](uint32_t w, uint32_t at, uint32_t n) {
      std::vector<float> least(n);
      for (uint32_t p = 0; p < n; p += 16) {
        most[(at + p) / 16] = -INFINITY;
        for (uint32_t i = p; i < p + 16; ++i) {
          const float off = slack * static_cast<float>(random() % 100) / 100, v = logits[at + i];
          least[i] = v - off;
          if (at + i < kVocab || std::isnan(v))
            most[(at + p) / 16] = std::max(most[(at + p) / 16], v + slack - off);
        }
      }
      h->bound(h->context, w, 0, at, n, least.data(), most.data() + at / 16);
    });
  const float limit = slack > 0 ? h->limit(h->context, 0) : -INFINITY;
  each_piece([&](uint32_t w, uint32_t at, uint32_t n) {
    if (slack == 0) {
      std::vector<float> part(logits.begin() + at, logits.begin() + at + n);
      return h->take(h->context, w, 0, at, n, part.data());
    }
    for (uint32_t p = at; p < at + n; p += 16) {
      if (!(most[p / 16] >= limit)) continue;
      std::vector<float> part(logits.begin() + p, logits.begin() + p + 16);
      h->take(h->context, w, 0, p, 16, part.data());
      if (computed) ++*computed;
    }
  });
  c.status = choice.finish(sink, 1);
  return c;
}

TEST(Choice, IsTheSortedBeginning) {
  for (const bool ties : {false, true})
    for (const uint32_t k : {1u, 2u, 40u, 300u}) {
      const std::vector<float> logits = random_logits(k, ties);
      const std::vector<int32_t> expected = sorted_ids(logits, k);
      for (const uint32_t workers : {1u, 2u, 7u})
        for (const uint32_t piece : {16u, 1024u})
          for (const float slack : {0.0f, 0.2f, 50.0f}) {
            const Chosen c = choose(logits, k, workers, piece, nullptr, slack);
            ASSERT_EQ(c.status, kOk);
            ASSERT_EQ(c.ids, expected) << "k " << k << ", workers " << workers << ", slack " << slack;
            for (uint32_t i = 0; i < k; ++i) ASSERT_EQ(c.values[i], logits[c.ids[i]]);
          }
    }
}

TEST(Choice, ComputesFewPanelsWhenBoundsAreTight) {
  size_t computed = 0;
  choose(random_logits(3, false), 1, 2, 1024, nullptr, 0.01f, &computed);
  EXPECT_LE(computed, 4u);
}

TEST(Choice, AppliesRules) {
  std::mt19937 random(5);
  for (int round = 0; round < 12; ++round) {
    const std::vector<float> logits = random_logits(static_cast<uint32_t>(round), round % 2);
    const std::vector<int32_t> best = sorted_ids(logits, 50);
    Rules r;
    if (round & 1)
      for (int i = 0; i < 30; ++i)
        r.bias.push_back({best[random() % 50], static_cast<float>(random() % 9) - 4});
    if (round & 2)
      for (int i = 0; i < 60; ++i)
        r.recent.push_back(i % 3 ? best[random() % 50] : static_cast<int32_t>(random() % kVocab));
    if (round & 2) r.repeat = 1.3f, r.frequency = 0.25f, r.presence = -0.5f;
    if (round & 4) {
      r.mask.assign((kVocab + 63) / 64, 0);
      for (int i = 0; i < 700; ++i) r.mask[random() % r.mask.size()] |= uint64_t{1} << random() % 64;
    }
    r.bias.push_back({7, -INFINITY});
    const std::vector<float> ruled = r.applied(logits);
    for (const uint32_t k : {1u, 40u})
      for (const float slack : {0.0f, 0.3f}) {
        const Chosen c = choose(logits, k, 3, 128, &r, slack);
        ASSERT_EQ(c.status, kOk);
        ASSERT_EQ(c.ids, sorted_ids(ruled, k)) << "round " << round << ", k " << k << ", slack " << slack;
        for (uint32_t i = 0; i < k; ++i) ASSERT_EQ(c.values[i], ruled[c.ids[i]]);
      }
  }
}

TEST(Choice, SaysWhatIsNoNumber) {
  for (const float bad : {NAN, INFINITY})
    for (const float slack : {0.0f, 0.3f}) {
      std::vector<float> logits = random_logits(1, false);
      logits[3333] = bad;
      EXPECT_EQ(choose(logits, 40, 2, 1024, nullptr, slack).status, kErrNan);
    }
  std::vector<float> none(kPadded, -INFINITY);
  EXPECT_EQ(choose(none, 1, 2, 1024, nullptr, 0).status, kErrNan);
  none[4990] = 0;  // fewer than k
  const Chosen c = choose(none, 3, 2, 1024, nullptr, 0);
  EXPECT_EQ(c.ids, (std::vector<int32_t>{4990, -1, -1}));
}

TEST(Choice, RefusesWhatItHasNoRoomFor) {
  Choice choice;
  ASSERT_EQ(choice.init(kVocab, 1, 1, 8, libc_allocator()), kOk);
  gc_sink sink = {};
  sink.kind = GC_SINK_TOPK;
  for (const uint32_t k : {0u, 9u}) {
    sink.k = k;
    EXPECT_EQ(choice.begin(sink, 1), kErrArgument);
  }
  sink.k = 8;
  EXPECT_EQ(choice.begin(sink, 2), kErrArgument);
}

}  // namespace
}  // namespace gcrt
