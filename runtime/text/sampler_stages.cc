// The stages that need more than a line: those that look at the whole distribution, and those with a state.
// Sums run in double in the candidates' order.
#include <math.h>

#include "runtime/base/sort.h"
#include "runtime/text/sampler.h"

#pragma STDC FP_CONTRACT OFF

namespace gcrt {

Status Sampler::dry() {
  if (!dries_) return kOk;
  Status s = dry_.measure();
  if (s != kOk) return s;
  auto penalize = [this](size_t i, int32_t length) {
    if (candidates_.logit(i) == -INFINITY || dry_.breakers.is_single(candidates_.id(i))) return;
    candidates_.set_logit(i, candidates_.logit(i) - dry_.penalty(length));
  };
  if (candidates_.is_all()) {
    dry_.lengths().each([&](int64_t id, int32_t length) { penalize(static_cast<size_t>(id), length); });
    return kOk;
  }
  for (size_t i = 0; i < candidates_.size(); ++i)
    if (const int32_t* length = dry_.lengths().find(candidates_.id(i))) penalize(i, *length);
  return kOk;
}

// What is further below the greatest logit than n standard deviations is banned; the candidates stay as many.
Status Sampler::top_n_sigma(float n) {
  if (n <= 0 || candidates_.size() <= 1) return kOk;
  double sum = 0, squares = 0;
  size_t count = 0;
  float top = -INFINITY;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    float l = candidates_.logit(i);
    if (l == -INFINITY) continue;
    top = max_of(top, l);
    sum += static_cast<double>(l);
    ++count;
  }
  if (!count) return kErrNan;
  double mean = sum / static_cast<double>(count);
  for (size_t i = 0; i < candidates_.size(); ++i) {
    float l = candidates_.logit(i);
    if (l != -INFINITY) squares += (static_cast<double>(l) - mean) * (static_cast<double>(l) - mean);
  }
  double bound =
      static_cast<double>(top) - static_cast<double>(n) * sqrt(squares / static_cast<double>(count));
  for (size_t i = 0; i < candidates_.size(); ++i)
    if (static_cast<double>(candidates_.logit(i)) < bound) candidates_.set_logit(i, -INFINITY);
  return kOk;
}

// Keeps those whose surprise is nearest to the expected one, until their probabilities pass p.
Status Sampler::typical(const TypicalParams& p) {
  if (p.p >= 1.0f) return kOk;
  double sum = 0;
  Status s = candidates_.softmax(&sum);
  if (s != kOk) return s;
  if (sum == 0) return kErrNan;
  size_t n = candidates_.size();
  double entropy = 0;
  for (size_t i = 0; i < n; ++i) {
    double q = static_cast<double>(candidates_.prob(i));
    if (q > 0) entropy -= q * log(q);
  }
  indices_.clear();
  floats_.clear();
  if (!floats_.resize(n) || !indices_.resize(n)) return kErrMemory;
  for (size_t i = 0; i < n; ++i) {
    indices_[i] = static_cast<uint32_t>(i);
    floats_[i] = static_cast<float>(fabs(-log(static_cast<double>(candidates_.prob(i))) - entropy));
  }
  sort(indices_.data(), n, [this](uint32_t a, uint32_t b) {
    return floats_[a] != floats_[b] ? floats_[a] < floats_[b] : candidates_.before(a, b);
  });
  double mass = 0;
  size_t kept = n;
  for (size_t i = 0; i < n; ++i) {
    mass += static_cast<double>(candidates_.prob(indices_[i]));
    if (mass > static_cast<double>(p.p) && i + 1 >= p.min_keep) {
      kept = i + 1;
      break;
    }
  }
  return candidates_.keep({indices_.data(), kept});
}

// Sometimes leaves out the likeliest, so that the text is not what everybody would write: of those that reach the
// threshold only the least likely stays.
Status Sampler::xtc(const XtcParams& p) {
  if (p.probability <= 0 || p.threshold > 0.5f || candidates_.size() < 2) return kOk;
  if (uniform_draw(seed_, draws_++) > static_cast<double>(p.probability)) return kOk;
  double sum = 0;
  Status s = candidates_.softmax(&sum);
  if (s != kOk) return s;
  if (sum == 0) return kErrNan;
  size_t n = candidates_.size(), reach = 0, last = 0;
  for (size_t i = 0; i < n; ++i) {
    if (candidates_.prob(i) < p.threshold) continue;
    if (!reach++ || candidates_.before(last, i)) last = i;
  }
  if (reach < 2 || n - (reach - 1) < p.min_keep) return kOk;
  indices_.clear();
  for (size_t i = 0; i < n; ++i)
    if ((candidates_.prob(i) < p.threshold || i == last) && !indices_.push(static_cast<uint32_t>(i)))
      return kErrMemory;
  return candidates_.keep(indices_.span());
}

// With a range, an even distribution is sampled hotter than one that knows what it wants.
Status Sampler::temperature(const TemperatureParams& p) {
  float t = p.t;
  if (p.range > 0) {
    size_t n = candidates_.size();
    if (n <= 1) return kOk;
    double sum = 0, entropy = 0;
    Status s = candidates_.softmax(&sum);
    if (s != kOk) return s;
    if (sum == 0) return kErrNan;
    for (size_t i = 0; i < n; ++i) {
      double q = static_cast<double>(candidates_.prob(i));
      if (q > 0) entropy -= q * log(q);
    }
    double low = max_of(0.0, static_cast<double>(p.t) - static_cast<double>(p.range));
    double high = static_cast<double>(p.t) + static_cast<double>(p.range);
    double even = max_of(entropy, 0.0) / log(static_cast<double>(n));
    t = static_cast<float>(low + (high - low) * pow(even, static_cast<double>(p.exponent)));
  }
  if (!(t > 0)) return candidates_.keep_top(1);
  candidates_.divide(t);
  return kOk;
}

// Draws, and learns from how surprising the outcome was.
Status Sampler::surprise(const MirostatParams& p) {
  double sum = 0;
  Status s = candidates_.softmax(&sum);
  if (s != kOk) return s;
  if (sum == 0) return kErrNan;
  size_t index = 0;
  s = pick(&index);
  if (s != kOk) return s;
  chosen_ = candidates_.id(index);
  float bits = static_cast<float>(-log2(static_cast<double>(candidates_.prob(index))));
  mirostat_mu_ -= p.eta * (bits - p.tau);
  return kOk;
}

// Estimates the exponent of Zipf's law from the likeliest 100, and from that how many to keep for the surprise aimed
// at.
Status Sampler::mirostat(const MirostatParams& p) {
  constexpr size_t kLookedAt = 100;
  Status s = candidates_.greatest_logits(min_of(kLookedAt, candidates_.size()), floats_);
  if (s != kOk) return s;
  double products = 0, squares = 0;
  for (size_t i = 0; i + 1 < floats_.size() && floats_[i + 1] != -INFINITY; ++i) {
    double ratio = log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    products += ratio * (static_cast<double>(floats_[i]) - static_cast<double>(floats_[i + 1]));
    squares += ratio * ratio;
  }
  double k = 1;
  if (squares > 0) {
    double slope = products / squares, e = slope - 1;
    k = pow(e * pow(2, static_cast<double>(mirostat_mu_)) / (1 - pow(static_cast<double>(n_vocab_), -e)),
            1 / slope);
  }
  // No number (a slope of 0 or 1) says nothing about how many.
  size_t keep = candidates_.size();
  if (k < static_cast<double>(keep)) keep = k > 1 ? static_cast<size_t>(k) : 1;
  s = candidates_.keep_top(keep);
  return s == kOk ? surprise(p) : s;
}

// Keeps what is not more surprising than mu.
Status Sampler::mirostat2(const MirostatParams& p) {
  double sum = 0;
  Status s = candidates_.softmax(&sum);
  if (s != kOk) return s;
  if (sum == 0) return kErrNan;
  indices_.clear();
  for (size_t i = 0; i < candidates_.size(); ++i) {
    double bits = -log2(static_cast<double>(candidates_.prob(i)));
    if (bits <= static_cast<double>(mirostat_mu_) && !indices_.push(static_cast<uint32_t>(i)))
      return kErrMemory;
  }
  s = indices_.empty() ? candidates_.keep_top(1) : candidates_.keep(indices_.span());
  return s == kOk ? surprise(p) : s;
}

// Prefers tokens whose probability is near a target that moves against what was chosen of late: logits become a peak
// there, falling off as a parabola and further out as a line.
Status Sampler::draw_adaptive(int32_t* token) {
  constexpr double kPeak = 5, kSharpness = 10, kWidth = 0.3;
  if (adaptive_.target < 0) return draw(token);
  double sum = 0;
  Status s = candidates_.softmax(&sum);
  if (s != kOk) return s;
  if (sum == 0) return kErrNan;
  size_t n = candidates_.size();
  floats_.clear();
  if (!floats_.resize(n)) return kErrMemory;
  for (size_t i = 0; i < n; ++i) floats_[i] = candidates_.prob(i);
  auto clamp = [](double v) { return min_of(max_of(v, 0.0), 1.0); };
  double target = clamp(static_cast<double>(adaptive_.target));
  if (adaptive_weight_ != 0)
    target = clamp(2 * target - static_cast<double>(adaptive_sum_) / static_cast<double>(adaptive_weight_));
  for (size_t i = 0; i < n; ++i) {
    if (candidates_.logit(i) == -INFINITY) continue;
    double far = fabs((static_cast<double>(floats_[i]) - target) / kWidth);
    candidates_.set_logit(i, static_cast<float>(kPeak - kSharpness * far * far / (1 + far)));
  }
  s = candidates_.softmax(&sum);
  if (s != kOk) return s;
  size_t index = 0;
  s = pick(&index);
  if (s != kOk) return s;
  *token = pending_ = candidates_.id(index);
  pending_prob_ = floats_[index];
  return kOk;
}

Status Sampler::top_probs(Span<const float> logits, size_t n, int32_t chosen, Vec<TokenProb>& out,
                          TokenProb* own) {
  Status s = candidates_.load(logits);
  if (s != kOk) return s;
  size_t best = candidates_.best();
  if (best == candidates_.size()) return kErrNan;
  double sum = 0;
  s = candidates_.softmax(&sum);
  if (s != kOk) return s;
  double base = static_cast<double>(candidates_.logit(best)) + log(sum);
  auto logprob = [base](float l) { return static_cast<float>(static_cast<double>(l) - base); };
  if (own && chosen >= 0 && static_cast<size_t>(chosen) < logits.size())
    *own = {chosen, logprob(logits[static_cast<size_t>(chosen)])};
  out.clear();
  n = min_of(n, logits.size());
  if (!n) return kOk;
  s = candidates_.keep_top(n);
  if (s != kOk) return s;
  for (size_t i = 0; i < candidates_.size(); ++i)
    if (!out.push({candidates_.id(i), logprob(candidates_.logit(i))})) return kErrMemory;
  return kOk;
}

}  // namespace gcrt
