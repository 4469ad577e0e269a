#include "runtime/text/dry.h"

#include <math.h>

namespace gcrt {

Status DryBreakers::add(int32_t head, Span<const int32_t> tail) {
  bool known = false;
  each(head, [&](Span<const int32_t> t) {
    known |= t.size() == tail.size() &&
             (t.empty() || memcmp(t.data(), tail.data(), t.size() * sizeof(int32_t)) == 0);
  });
  if (known) return kOk;
  uint32_t begin = static_cast<uint32_t>(tails_.size());
  for (int32_t id : tail)
    if (!tails_.push(id)) return kErrMemory;
  const uint32_t* before = first_.find(head);
  if (!rows_.push({begin, static_cast<uint32_t>(tail.size()), before ? *before : kNone})) return kErrMemory;
  uint32_t* first = first_.get(head);
  if (!first) return kErrMemory;
  *first = static_cast<uint32_t>(rows_.size() - 1);
  return kOk;
}

Status DryBreakers::copy(const DryBreakers& other) {
  clear();
  Status s = kOk;
  other.first_.each([&](int64_t head, uint32_t) {
    other.each(static_cast<int32_t>(head), [&](Span<const int32_t> tail) {
      if (s == kOk) s = add(static_cast<int32_t>(head), tail);
    });
  });
  return s;
}

void DryBreakers::clear() {
  rows_.clear();
  tails_.clear();
  first_.clear();
}

Status Dry::accept(int32_t token) {
  if (!dry_works(params_)) return kOk;
  if (params_.last_n < 0 || recent_.size() < static_cast<size_t>(params_.last_n))
    return recent_.push(token) ? kOk : kErrMemory;
  recent_[oldest_] = token;
  oldest_ = oldest_ + 1 == recent_.size() ? 0 : oldest_ + 1;
  return kOk;
}

// The longest repetition that counts: up to the last breaker, of those that begin there the longest.
size_t Dry::limit(size_t n) const {
  for (size_t i = 0; i < n; ++i) {
    int64_t longest = -1;
    breakers.each(back(i), [&](Span<const int32_t> tail) {
      int64_t count = static_cast<int64_t>(tail.size());
      if (count <= longest || tail.size() > i) return;
      for (size_t k = 0; k < tail.size(); ++k)
        if (tail[k] != back(i - k - 1)) return;
      longest = count;
    });
    if (longest >= 0) return i - static_cast<size_t>(longest);
  }
  return n;
}

Status Dry::measure() {
  lengths_.clear();
  if (!dry_works(params_)) return kOk;
  size_t n = recent_.size(),
         allowed = params_.allowed_length > 0 ? static_cast<size_t>(params_.allowed_length) : 0;
  if (n <= allowed) return kOk;
  size_t most = limit(n);
  if (most < allowed) return kOk;
  // repeats_[k]: how many tokens before place k (k back from the end, that one included) end the text as well.
  repeats_.clear();
  if (!repeats_.resize(n)) return kErrMemory;
  size_t left = 0, right = 0;  // the stretch [left, right) is known to be the same as [0, right - left)
  for (size_t k = 1; k < n; ++k) {
    size_t same = k < right ? min_of(static_cast<size_t>(repeats_[k - left]), right - k) : 0;
    while (k + same < n && back(same) == back(k + same)) ++same;
    repeats_[k] = static_cast<int32_t>(same);
    if (k + same > right) left = k, right = k + same;
  }
  for (size_t k = 1; k < n; ++k) {
    size_t length = min_of(static_cast<size_t>(repeats_[k]), most);
    if (length < allowed) continue;
    int32_t* longest = lengths_.get(back(k - 1));
    if (!longest) return kErrMemory;
    *longest = max_of(*longest, static_cast<int32_t>(length));
  }
  return kOk;
}

float Dry::penalty(int32_t length) const {
  constexpr float kLogOfGreatest = 88.7228391f;
  int32_t exponent = length - params_.allowed_length;
  // Beyond this the power is no float any more.
  int32_t most = params_.base > 1.000001f ? static_cast<int32_t>(kLogOfGreatest / logf(params_.base)) : 0;
  if (most > 0 && exponent > most) exponent = most;
  return params_.multiplier * powf(params_.base, static_cast<float>(exponent));
}

}  // namespace gcrt
