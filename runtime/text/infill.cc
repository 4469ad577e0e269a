// For filling in the middle of a text, where stopping is as likely right as going on: keeps only ends when ends are
// likely enough, joins candidates of which one is the beginning of another (the likelier takes both probabilities),
// and drops what is unlikely then. Meant to come after top_k and top_p; of more candidates the best are looked at.
#include <math.h>

#include "runtime/text/sampler.h"

#pragma STDC FP_CONTRACT OFF

namespace gcrt {
namespace {

constexpr size_t kMost = 1024;  // joining compares all with all

}  // namespace

// Of the candidates' texts, which are one after the other in text_, where each begins in indices_.
Status Sampler::candidate_texts() {
  text_.clear();
  indices_.clear();
  for (size_t i = 0; i < candidates_.size(); ++i) {
    if (!indices_.push(static_cast<uint32_t>(text_.size()))) return kErrMemory;
    if (Status s = texts_.append(texts_.tokens, candidates_.id(i), text_); s != kOk) return s;
  }
  return indices_.push(static_cast<uint32_t>(text_.size())) ? kOk : kErrMemory;
}

// Into floats_: the probabilities, joined. What was joined into another has 0.
void Sampler::join_prefixes() {
  auto text = [this](size_t i) { return str(text_).sub(indices_[i], indices_[i + 1] - indices_[i]); };
  const size_t n = candidates_.size();
  for (size_t i = 0; i < n; ++i)
    for (size_t k = 0; k < n && floats_[i] > 0; ++k) {
      if (i == k || floats_[k] == 0 || text(i).empty() || !text(k).starts_with(text(i))) continue;
      const bool other = floats_[k] > floats_[i];
      const float both = floats_[i] + floats_[k];
      floats_[other ? k : i] = both;
      floats_[other ? i : k] = 0;
    }
}

Status Sampler::infill() {
  if (!texts_.append) return kErrUnsupported;
  if (candidates_.is_all() || candidates_.size() > kMost)
    if (Status s = candidates_.keep_top(min_of(candidates_.size(), kMost)); s != kOk) return s;
  double sum = 0;
  Status s = candidates_.softmax(&sum);
  if (s != kOk) return s;
  if (sum == 0) return kErrNan;
  const size_t n = candidates_.size();
  auto ends = [this](size_t i) { return texts_.ends(texts_.tokens, candidates_.id(i)); };
  double end_mass = 0, text_mass = 0;
  floats_.clear();
  for (size_t i = 0; i < n; ++i) {
    (ends(i) ? end_mass : text_mass) += static_cast<double>(candidates_.prob(i));
    if (!floats_.push(candidates_.prob(i))) return kErrMemory;
  }
  const bool only_ends = 3 * end_mass * static_cast<double>(n) > text_mass;
  if (!only_ends) {
    s = candidate_texts();
    if (s != kOk) return s;
    join_prefixes();
  }
  // Twice: what is left shares the probability, and against that is judged again.
  double threshold = static_cast<double>(0.2f), mass = 1;
  for (int round = 0; round < 2 && !only_ends; ++round) {
    double kept = 0;
    size_t texts = 0;
    for (size_t i = 0; i < n; ++i) {
      const bool end = ends(i);
      if (!end && static_cast<double>(floats_[i]) / mass < threshold) floats_[i] = -1;
      if (end || floats_[i] >= 0) kept += static_cast<double>(max_of(floats_[i], 0.0f));
      texts += !end && floats_[i] >= 0;
    }
    if (!round && !texts && texts_.end >= 0) {
      const float logit = 1;
      return candidates_.load({&texts_.end, 1}, {&logit, 1});
    }
    mass = kept;
    threshold = 1.0 / static_cast<double>(texts + 1);
  }
  indices_.clear();
  for (size_t i = 0; i < n; ++i) {
    const bool end = ends(i);
    if ((end || (!only_ends && floats_[i] >= 0)) && !indices_.push(static_cast<uint32_t>(i)))
      return kErrMemory;
  }
  return indices_.empty() ? candidates_.keep_top(1) : candidates_.keep(indices_.span());
}

}  // namespace gcrt
