#include "runtime/text/candidates.h"

#include <math.h>
#include <string.h>

#include "runtime/base/sort.h"

// The same bits on machines with and without fused multiply-add.
#pragma STDC FP_CONTRACT OFF

namespace gcrt {
namespace {

// Unsigned order of the result is the order of the floats; -0 counts as 0.
uint32_t ordered(float v) {
  v += 0.0f;
  uint32_t u;
  memcpy(&u, &v, sizeof u);
  return u & 0x80000000u ? ~u : u | 0x80000000u;
}
float unordered(uint32_t u) {
  u = u & 0x80000000u ? u & 0x7FFFFFFFu : ~u;
  float v;
  memcpy(&v, &u, sizeof v);
  return v;
}
float key_logit(uint64_t k) { return unordered(static_cast<uint32_t>(k >> 32)); }
int32_t key_id(uint64_t k) { return static_cast<int32_t>(~static_cast<uint32_t>(k)); }

bool key_before(uint64_t a, uint64_t b) { return a > b; }
bool float_before(float a, float b) { return a > b; }

// e^x for x <= 0 within 2 ulp; 0 below -87. 2^n * e^r with |r| <= ln 2 / 2, a polynomial for e^r.
float exp_negative(float x) {
  bool zero = !(x > -87.0f);
  x = zero ? 0.0f : x;
  float shifted = x * 1.44269504f + 12582912.0f;  // rounds to an integer in the low bits
  float n = shifted - 12582912.0f;
  float r = x - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  uint32_t bits = static_cast<uint32_t>(static_cast<int32_t>(n) + 127) << 23;
  float scale;
  memcpy(&scale, &bits, sizeof scale);
  return zero ? 0.0f : p * scale;
}

// +inf or NaN anywhere?
bool any_bad(const float* p, size_t n) {
  unsigned bad = 0;
  for (size_t i = 0; i < n; ++i) bad |= !(p[i] < INFINITY);
  return bad;
}

float greatest_of(const float* p, size_t n) {
  // Lanes, since the compiler may not reorder a float maximum by itself.
  float lane[8];
  for (float& l : lane) l = -INFINITY;
  size_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (size_t j = 0; j < 8; ++j) lane[j] = p[i + j] > lane[j] ? p[i + j] : lane[j];
  for (; i < n; ++i) lane[0] = max_of(lane[0], p[i]);
  float m = lane[0];
  for (float l : lane) m = max_of(m, l);
  return m;
}

}  // namespace

Status Candidates::load(Span<const float> logits) {
  if (logits.empty() || logits.size() > INT32_MAX) return kErrArgument;
  if (!logits_.resize(logits.size())) return kErrMemory;
  memcpy(logits_.data(), logits.data(), logits.size() * sizeof(float));
  all_ = true;
  sorted_ = false;
  return any_bad(logits_.data(), logits_.size()) ? kErrNan : kOk;
}

Status Candidates::load(Span<const int32_t> ids, Span<const float> logits) {
  if (ids.size() != logits.size()) return kErrArgument;
  Status s = load(logits);
  if (s == kErrArgument || s == kErrMemory) return s;
  all_ = false;
  if (!ids_.copy(ids)) return kErrMemory;
  return s;
}

Candidates::Key Candidates::key(size_t i) const {
  return static_cast<Key>(ordered(logits_[i])) << 32 | ~static_cast<uint32_t>(id(i));
}

float Candidates::greatest() const {
  return sorted_ && !logits_.empty() ? logits_[0] : greatest_of(logits_.data(), logits_.size());
}

size_t Candidates::best() const {
  float top = -INFINITY;
  size_t block = 0;
  for (size_t b = 0; b < size(); b += kBlock) {
    float m = greatest_of(logits_.data() + b, min_of(kBlock, size() - b));
    if (m > top) top = m, block = b;
  }
  if (top == -INFINITY) return size();
  size_t found = block;
  while (logits_[found] != top) ++found;
  if (all_) return found;  // ids rise with the index
  for (size_t i = found + 1; i < size(); ++i)
    if (logits_[i] == top && id(i) < id(found)) found = i;
  return found;
}

bool Candidates::find_maxima() {
  size_t blocks = (size() + kBlock - 1) / kBlock;
  if (!maxima_.resize(blocks)) return false;
  for (size_t b = 0; b < blocks; ++b)
    maxima_[b] = greatest_of(logits_.data() + b * kBlock, min_of(kBlock, size() - b * kBlock));
  return true;
}

Status Candidates::rank(size_t k) {
  size_t n = size(), blocks = (n + kBlock - 1) / kBlock;
  k = min_of(k, n);
  keys_.clear();
  if (k < blocks / 2) {
    if (!find_maxima() || !ranked_.copy(maxima_)) return kErrMemory;
    // At least k logits are not below the k-th largest maximum.
    select(ranked_.data(), blocks, k, float_before);
    float bound = ranked_[0];
    for (size_t i = 1; i < k; ++i) bound = min_of(bound, ranked_[i]);
    for (size_t b = 0; b < blocks; ++b) {
      if (maxima_[b] < bound) continue;
      size_t end = min_of((b + 1) * kBlock, n);
      for (size_t i = b * kBlock; i < end; ++i)
        if (logits_[i] >= bound && !keys_.push(key(i))) return kErrMemory;
    }
  } else {
    if (!keys_.reserve(n)) return kErrMemory;
    for (size_t i = 0; i < n; ++i)
      if (!keys_.push(key(i))) return kErrMemory;
  }
  select(keys_.data(), keys_.size(), k, key_before);
  if (k <= kSortLimit) sort(keys_.data(), k, key_before);
  keys_.truncate(k);
  return kOk;
}

// The first k of keys_ become the candidates.
Status Candidates::take_keys(size_t k, bool sorted) {
  if (!ids_.resize(k)) return kErrMemory;
  logits_.truncate(k);
  for (size_t i = 0; i < k; ++i) {
    logits_[i] = key_logit(keys_[i]);
    ids_[i] = key_id(keys_[i]);
  }
  all_ = false;
  sorted_ = sorted;
  return kOk;
}

Status Candidates::keep_top(size_t k) {
  k = min_of(k, size());
  if (sorted_) {
    logits_.truncate(k);
    if (!all_) ids_.truncate(k);
    return kOk;
  }
  Status s = rank(k);
  return s == kOk ? take_keys(k, k <= kSortLimit) : s;
}

Status Candidates::keep(Span<const uint32_t> indices) {
  keys_.clear();
  for (uint32_t i : indices)
    if (!keys_.push(key(i))) return kErrMemory;
  return take_keys(indices.size(), false);
}

Status Candidates::greatest_logits(size_t k, Vec<float>& out) {
  out.clear();
  Status s = rank(k);
  if (s != kOk) return s;
  if (k > kSortLimit) sort(keys_.data(), keys_.size(), key_before);
  for (Key key : keys_)
    if (!out.push(key_logit(key))) return kErrMemory;
  return kOk;
}

Status Candidates::keep_from(float threshold, size_t min_keep) {
  size_t n = size(), enough = 0;
  if (!find_maxima()) return kErrMemory;
  if (min_keep) {
    for (float v : logits_) enough += v >= threshold;
    if (enough < min_keep) return keep_top(min_keep);
  }
  if (all_ && !ids_.resize(n)) return kErrMemory;
  size_t kept = 0;
  for (size_t b = 0; b < maxima_.size(); ++b) {
    if (maxima_[b] < threshold) continue;
    size_t end = min_of((b + 1) * kBlock, n);
    for (size_t i = b * kBlock; i < end; ++i) {
      if (logits_[i] < threshold) continue;
      int32_t own = id(i);
      logits_[kept] = logits_[i];
      ids_[kept++] = own;
    }
  }
  logits_.truncate(kept);
  ids_.truncate(kept);
  all_ = false;
  return kOk;
}

Status Candidates::softmax(double* sum) {
  size_t n = size();
  *sum = 0;
  if (!probs_.resize(n)) return kErrMemory;
  float top = greatest();
  if (top == -INFINITY) return kOk;
  for (size_t i = 0; i < n; ++i) probs_[i] = exp_negative(logits_[i] - top);
  double lane[8] = {};
  size_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (size_t j = 0; j < 8; ++j) lane[j] += static_cast<double>(probs_[i + j]);
  for (; i < n; ++i) lane[i % 8] += static_cast<double>(probs_[i]);
  double total = ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
  float inverse = static_cast<float>(1.0 / total);
  for (size_t j = 0; j < n; ++j) probs_[j] *= inverse;
  *sum = total;
  return kOk;
}

Status Candidates::keep_sorted_mass(double target, size_t min_keep) {
  double mass = 0;
  for (size_t i = 0; i < size(); ++i) {
    mass += static_cast<double>(probs_[i]);
    if (mass >= target && i + 1 >= min_keep) return keep_top(i + 1);
  }
  return kOk;
}

Status Candidates::keep_mass(float p, size_t min_keep) {
  double sum = 0;
  Status s = softmax(&sum);
  if (s != kOk || sum == 0) return s;
  double target = static_cast<double>(p);
  if (sorted_) return keep_sorted_mass(target, min_keep);
  // Usually a few hundred hold the mass.
  float top = greatest();
  target *= sum;  // in units of exp(logit - top)
  size_t n = size(), k = n <= kSortLimit ? n : 256;
  s = rank(k);
  if (s != kOk) return s;
  double mass = 0;
  for (size_t i = 0; i < k; ++i) {
    mass += static_cast<double>(exp_negative(key_logit(keys_[i]) - top));
    if (mass >= target && i + 1 >= min_keep) return take_keys(i + 1, true);
  }
  return k == n ? take_keys(n, true) : select_mass(top, target, min_keep);
}

// Quickselect by mass instead of by count: of the two parts of a partition only the one where the target is crossed
// is looked at again. Linear on the whole, and what remains is not sorted.
Status Candidates::select_mass(float top, double target, size_t min_keep) {
  size_t n = size();
  keys_.clear();
  if (!keys_.reserve(n)) return kErrMemory;
  for (size_t i = 0; i < n; ++i)
    if (!keys_.push(key(i))) return kErrMemory;
  size_t begin = 0, end = n;
  double before = 0;
  for (int depth = detail::depth_limit(n); end - begin > 64 && depth; --depth) {
    size_t middle = begin + detail::partition(keys_.data() + begin, end - begin, key_before);
    double part = 0;
    for (size_t i = begin; i < middle; ++i)
      part += static_cast<double>(exp_negative(key_logit(keys_[i]) - top));
    if (before + part >= target) {
      end = middle;
    } else {
      before += part;
      begin = middle;
    }
  }
  sort(keys_.data() + begin, end - begin, key_before);
  size_t kept = begin;
  while (kept < end && before < target)
    before += static_cast<double>(exp_negative(key_logit(keys_[kept++]) - top));
  if (kept < min_keep) return keep_top(min_keep);
  return take_keys(max_of(kept, size_t{1}), false);
}

void Candidates::divide(float t) {
  float top = greatest();
  if (top == -INFINITY) return;
  // A tiny temperature: differences stay finite or fall to -inf, which is their limit.
  float base = isfinite(top / t) ? 0.0f : top;
  for (size_t i = 0; i < size(); ++i) {
    float d = logits_[i] - base;
    logits_[i] = d == 0.0f ? 0.0f : d / t;
  }
}

}  // namespace gcrt
