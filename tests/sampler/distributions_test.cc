// Chains of samplers against what plain NumPy computes (make_distributions.py).
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/text/sampler.h"

namespace gcrt {
namespace {

using Json = nlohmann::json;

// These three as in make_distributions.py.
std::vector<float> logits_of(std::uint64_t n, std::uint64_t seed, float spread) {
  std::vector<float> out;
  for (std::uint64_t i = 0; i < n; ++i) {
    std::uint64_t mixed = (i * 7919 + seed * 104729) * 2654435761u % (std::uint64_t{1} << 32);
    mixed = ((mixed >> 7) ^ mixed) * 2246822519u % (std::uint64_t{1} << 32);
    out.push_back((static_cast<float>(mixed >> 12) / 65536 - 8) / spread);
  }
  return out;
}

std::string text_of(std::int32_t i) {
  std::string out;
  while (i > 0) {
    --i;
    out.insert(0, 1, "abc"[i % 3]);
    i /= 3;
  }
  return out;
}

TokenTexts texts() {
  TokenTexts t;
  t.ends = [](const void*, std::int32_t id) { return id % 41 == 5; };
  t.append = [](const void*, std::int32_t id, Vec<char>& out) -> Status {
    const std::string s = text_of(id);
    return append(out, Str(s.data(), s.size())) ? kOk : kErrMemory;
  };
  return t;
}

SamplerOptions options_of(const Json& o) {
  SamplerOptions s;
  s.temperature = o.value("temperature", 0.0f);
  s.top_k = o.value("top_k", 0);
  s.top_p = o.value("top_p", 1.0f);
  s.min_p = o.value("min_p", 0.0f);
  s.typ_p = o.value("typ_p", 1.0f);
  s.top_n_sigma = o.value("top_n_sigma", -1.0f);
  s.xtc_probability = o.value("xtc_probability", 0.0f);
  s.xtc_threshold = o.value("xtc_threshold", 0.1f);
  s.repeat_last_n = o.value("repeat_last_n", 0);
  s.repeat_penalty = o.value("repeat_penalty", 1.0f);
  s.frequency_penalty = o.value("frequency_penalty", 0.0f);
  s.presence_penalty = o.value("presence_penalty", 0.0f);
  s.dynatemp_range = o.value("dynatemp_range", 0.0f);
  s.dynatemp_exponent = o.value("dynatemp_exponent", 1.0f);
  s.dry_multiplier = o.value("dry_multiplier", 0.0f);
  s.dry_base = o.value("dry_base", 1.75f);
  s.dry_allowed_length = o.value("dry_allowed_length", 2);
  s.dry_last_n = o.value("dry_last_n", 0);
  s.mirostat = o.value("mirostat", 0);
  s.mirostat_tau = o.value("mirostat_tau", 5.0f);
  return s;
}

TEST(Distributions, AsNumPyComputesThem) {
  const Json cases = Json::parse(std::ifstream("tests/sampler/distributions.json"));
  ASSERT_GE(cases.size(), 200u);
  std::map<std::string, int> stages;
  for (const Json& c : cases) {
    SCOPED_TRACE(c.dump());
    const std::string names = c["chain"];
    Vec<SamplerStage> chain;
    char message[128] = "";
    ASSERT_EQ(named_chain(options_of(c["options"]), {names.data(), names.size()}, chain, message), kOk)
        << message;
    for (const SamplerStage& s : chain)
      ++stages[std::string(sampler_name(s.kind).data(), sampler_name(s.kind).size())];
    Sampler sampler;
    sampler.set_texts(texts());
    const std::vector<float> logits = logits_of(c["n"], c["seed"], c["spread"]);
    ASSERT_EQ(sampler.init(c["n"], chain, {}, 1, message), kOk) << message;
    for (const Json& token : c["past"]) ASSERT_EQ(sampler.accept(token), kOk);
    std::int32_t id = -1;
    ASSERT_EQ(sampler.sample({logits.data(), logits.size()}, &id), kOk);
    std::map<std::int32_t, double> left;
    std::size_t count = 0;
    for (std::size_t i = 0; i < sampler.candidates().size(); ++i) {
      left[sampler.candidates().id(i)] = static_cast<double>(sampler.candidates().prob(i));
      count += sampler.candidates().prob(i) > 1e-7f;
    }
    EXPECT_GT(left[id], 0);
    EXPECT_EQ(count, c["left"].get<std::size_t>());
    for (const Json& want : c["likeliest"]) {
      const double p = want[1];
      EXPECT_NEAR(left[want[0].get<std::int32_t>()], p, 3e-6 + 3e-5 * p) << want;
    }
  }
  EXPECT_GE(stages.size(), 11u);  // every kind but adaptive_p, which has no distribution of its own
}

}  // namespace
}  // namespace gcrt
