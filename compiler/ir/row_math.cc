#include "compiler/ir/row_math.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "compiler/base/error.h"
#include "compiler/ir/interpret.h"

// The one hot loop is compiled for wider vectors too and picked when the program is loaded; the rest is baseline.
#if defined(__x86_64__)
#define GC_WIDE __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define GC_WIDE
#endif

namespace gc::ir {

GC_WIDE void dot4(const float* x, const float* w, int64_t n, float* out) {
#pragma clang fp reassociate(on) contract(fast)
  float a = 0, b = 0, c = 0, d = 0;
  for (int64_t i = 0; i < n; i++) {
    a += x[i] * w[i];
    b += x[i] * w[n + i];
    c += x[i] * w[2 * n + i];
    d += x[i] * w[3 * n + i];
  }
  out[0] = a, out[1] = b, out[2] = c, out[3] = d;
}

GC_WIDE float dot(const float* x, const float* y, int64_t n) {
#pragma clang fp reassociate(on) contract(fast)
  float s = 0;
  for (int64_t i = 0; i < n; i++) s += x[i] * y[i];
  return s;
}

void rms_norm(const float* x, const float* weight, double eps, int64_t n, float* y) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += double(x[i]) * x[i];
  float inverse = float(1 / std::sqrt(sum / double(n) + eps));
  for (int64_t i = 0; i < n; i++) y[i] = x[i] * inverse * (weight ? weight[i] : 1);
}

void layer_norm(const float* x, const float* weight, const float* bias, double eps, int64_t n, float* y) {
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < n; i++) sum += x[i];
  double mean = sum / double(n);
  for (int64_t i = 0; i < n; i++) squares += (x[i] - mean) * (x[i] - mean);
  double inverse = 1 / std::sqrt(squares / double(n) + eps);
  for (int64_t i = 0; i < n; i++)
    y[i] = float((x[i] - mean) * inverse) * (weight ? weight[i] : 1) + (bias ? bias[i] : 0);
}

void turn(float* x, const float* cos_sin, int64_t dims, bool neox) {
  for (int64_t i = 0; i < dims / 2; i++) {
    float& a = x[neox ? i : 2 * i];
    float& b = x[neox ? i + dims / 2 : 2 * i + 1];
    float c = cos_sin[2 * i], s = cos_sin[2 * i + 1], a0 = a, b0 = b;
    a = a0 * c - b0 * s;
    b = a0 * s + b0 * c;
  }
}

namespace {

// Of each group of n / groups experts the sum of its two best; false for the experts of groups that are left out.
std::vector<bool> open_experts(const std::vector<float>& score, int64_t groups, int64_t picked) {
  const int64_t size = int64_t(score.size()) / groups;
  std::vector<std::pair<float, int64_t>> best;
  for (int64_t g = 0; g < groups; g++) {
    std::vector<float> s(score.begin() + g * size, score.begin() + (g + 1) * size);
    std::partial_sort(s.begin(), s.begin() + 2, s.end(), std::greater<>());
    best.emplace_back(-(s[0] + s[1]), g);
  }
  std::sort(best.begin(), best.end());
  std::vector<bool> open(score.size(), false);
  for (int64_t i = 0; i < picked; i++) std::fill_n(open.begin() + best[i].second * size, size, true);
  return open;
}

// The experts of greatest score, each with its probability: y is 0 for those not chosen.
void choose(const Op& op, const std::vector<float>& p, const float* bias, float* y) {
  const int64_t n = int64_t(p.size()), used = op.i64(AttrName::used), groups = op.i64_or(AttrName::groups, 1);
  std::vector<float> score = p;
  for (int64_t e = 0; bias && e < n; e++) score[e] += bias[e];
  std::vector<bool> open(p.size(), true);
  if (groups > 1) open = open_experts(score, groups, op.i64(AttrName::groups_used));
  for (int64_t k = 0; k < used; k++) {
    int64_t best = -1;
    for (int64_t e = 0; e < n; e++)
      if (open[e] && (best < 0 || score[e] > score[best])) best = e;
    open[best] = false;
    y[best] = p[best];
  }
}

}  // namespace

void softmax(std::vector<float>& x) {
  const float top = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (float& v : x) sum += v = std::exp(v - top);
  for (float& v : x) v = float(v / sum);
}

namespace {

std::vector<float> probabilities(const Op& op, const float* x, int64_t n) {
  std::vector<float> p(x, x + n);
  if (op.has(AttrName::fn)) {
    for (float& v : p) v = apply(op.fn(), v);
  } else {  // among the chosen alone it is the softmax of all, divided by the sum of the chosen
    softmax(p);
  }
  return p;
}

// The weights of the chosen, as the op has them.
void scale_weights(const Op& op, int64_t n, float* y) {
  float sum = std::accumulate(y, y + n, 0.0f), by = float(op.f32_or(AttrName::by, 1));
  if (op.i64_or(AttrName::norm, 0)) by /= std::max(sum, 0x1p-14f);
  if (op.i64_or(AttrName::chosen, 0)) by /= sum;
  for (int64_t e = 0; e < n; e++) y[e] *= by;
}

}  // namespace

void route_row(const Op& op, const float* x, const float* bias, int64_t n, float* y) {
  choose(op, probabilities(op, x, n), bias, y);
  scale_weights(op, n, y);
}

void route_by_token_row(const Op& op, const float* x, const float* experts, int64_t n, float* y) {
  const std::vector<float> p = probabilities(op, x, n);
  for (int64_t i = 0; i < op.i64(AttrName::used); i++) {
    const auto e = int64_t(experts[i]);
    if (e < 0 || e >= n) throw_user("expert ", e, " of ", n, " in a table of experts");
    y[e] = p[size_t(e)];
  }
  scale_weights(op, n, y);
}

void mix_row(const float* x, const float* factors, double plus, int64_t from, int64_t to, int64_t n,
             float* y) {
  std::fill_n(y, to * n, 0.0f);
  for (int64_t j = 0; j < to; j++)
    for (int64_t i = 0; i < from; i++)
      for (int64_t k = 0; k < n; k++) y[j * n + k] += (factors[j * from + i] + float(plus)) * x[i * n + k];
}

void rescale_row(const float* like, const float* x, int64_t n, float* y) {
  double wanted = 0, length = 0;
  for (int64_t i = 0; i < n; i++) wanted += double(like[i]) * like[i], length += double(x[i]) * x[i];
  const auto by = float(std::sqrt(wanted) / std::sqrt(length));
  for (int64_t i = 0; i < n; i++) y[i] = x[i] * by;
}

void sinkhorn_row(const float* x, int64_t n, double eps, int64_t rounds, float* y) {
  std::vector<double> m(x, x + n * n);
  const auto divide = [&](int64_t first, int64_t stride) {
    double sum = eps;
    for (int64_t i = 0; i < n; i++) sum += m[size_t(first + i * stride)];
    for (int64_t i = 0; i < n; i++) m[size_t(first + i * stride)] /= sum;
  };
  for (int64_t s = 0; s < n; s++) {
    const auto row = m.begin() + std::ptrdiff_t(s * n);
    const double most = *std::max_element(row, row + n);
    double sum = 0;
    for (int64_t d = 0; d < n; d++) sum += row[d] = std::exp(row[d] - most);
    for (int64_t d = 0; d < n; d++) row[d] = row[d] / sum + eps;
  }
  for (int64_t i = 0; i < rounds; i++) {
    for (int64_t s = 0; i > 0 && s < n; s++) divide(s * n, 1);
    for (int64_t d = 0; d < n; d++) divide(d, n);
  }
  for (int64_t s = 0; s < n; s++)
    for (int64_t d = 0; d < n; d++) y[d * n + s] = float(m[size_t(s * n + d)]);
}

void sparsify_row(const float* x, double by, int64_t n, float* y) {
  double mean = 0, squares = 0;
  for (int64_t i = 0; i < n; i++) mean += x[i];
  mean /= double(n);
  for (int64_t i = 0; i < n; i++) squares += (x[i] - mean) * (x[i] - mean);
  const double cut = mean + by * std::sqrt(squares / double(n - 1));
  for (int64_t i = 0; i < n; i++) y[i] = float(std::max(0.0, x[i] - cut));
}

float cap_of(float x, double cap) { return cap == 0 ? x : float(cap * std::tanh(x / cap)); }

float apply(Fn fn, float x) {
  switch (fn) {
    case Fn::gelu_tanh:
      return 0.5f * x * (1 + std::tanh(0.7978845608028654f * (x + 0.044715f * x * x * x)));
    case Fn::gelu_erf:
      return 0.5f * x * (1 + std::erf(x * 0.7071067811865476f));
    case Fn::gelu_quick:
      return x / (1 + std::exp(-1.702f * x));
    case Fn::silu:
      return x / (1 + std::exp(-x));
    case Fn::relu:
      return std::max(x, 0.0f);
    case Fn::relu2:
      return std::max(x, 0.0f) * std::max(x, 0.0f);
    case Fn::sigmoid:
      return 1 / (1 + std::exp(-x));
    case Fn::tanh:
      return std::tanh(x);
    case Fn::softplus:
      return std::max(x, 0.0f) + std::log1p(std::exp(-std::abs(x)));
    case Fn::root_softplus:
      return std::sqrt(apply(Fn::softplus, x));
    case Fn::signed_root:
      return x == 0 ? 0 : std::copysign(std::sqrt(std::max(std::abs(x), 1e-6f)), x);
    case Fn::elu_excess:
      return x < 0 ? float(std::expm1(double(x)) - x) : 0;
    case Fn::exp:
      return std::exp(x);
  }
  return x;
}

}  // namespace gc::ir
