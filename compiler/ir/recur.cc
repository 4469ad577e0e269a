#include "compiler/ir/recur.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "compiler/base/error.h"

namespace gc::ir {
namespace {

// Values of row t, whatever their shape.
const float* row_of(const Tensor& x, int64_t t) {
  return x.data.data() + t * (int64_t(x.data.size()) / x.dims[0]);
}
float* row_of(Tensor& x, int64_t t) { return x.data.data() + t * (int64_t(x.data.size()) / x.dims[0]); }

void conv_row(const Recurrence& r, const State& state, int64_t t, float* s) {
  const int64_t kept = state.window, channels = state.v_dim, dilation = r.op.i64_or(AttrName::dilation, 1);
  const int64_t before = kept / dilation;  // taps but the last
  const float *x = row_of(*r.in[0], t), *taps = r.weight("taps"), *bias = r.weight("bias");
  float* y = row_of(*r.out, t);
  for (int64_t c = 0; c < channels; c++) {
    const float* w = taps + c * (before + 1);
    float sum = w[before] * x[c];
    for (int64_t j = 0; j < before; j++) sum += w[j] * s[j * dilation * channels + c];
    if (bias) sum += bias[c];
    y[c] = r.op.has(AttrName::fn) ? apply(r.op.fn(), sum) : sum;
  }
  std::copy(s + channels, s + kept * channels, s);
  std::copy_n(x, channels, s + (kept - 1) * channels);
}

// y of one column of compress: softmax over scores, times values, of the rows that count.
struct Pool {
  double top = -std::numeric_limits<double>::infinity(), sum = 0, values = 0;
  void add(double score, double value) {
    const double most = std::max(top, score), keep = std::exp(top - most), take = std::exp(score - most);
    sum = sum * keep + take;
    values = values * keep + take * value;
    top = most;
  }
};

// s: [kept][x | scores].
void compress_row(const Recurrence& r, const State& state, int64_t t, float* s) {
  const int64_t every = r.op.i64(AttrName::every), kept = state.window, columns = state.v_dim / 2;
  const int64_t p = r.position, halves = kept / every, n = columns / halves;
  const float *x = row_of(*r.in[0], t), *score = row_of(*r.in[1], t);
  const float* ape = r.weight("ape") + p % every * columns;
  float* row = s + p % kept * 2 * columns;
  for (int64_t c = 0; c < columns; c++) row[c] = x[c], row[columns + c] = score[c] + ape[c];
  if ((p + 1) % every != 0) return;
  float* y = row_of(*r.out, t);
  for (int64_t c = 0; c < n; c++) {
    Pool pool;
    for (int64_t j = std::max<int64_t>(0, p + 1 - kept); j <= p; j++) {
      const int64_t half = halves == 2 && j > p - every ? n : 0;
      const float* from = s + j % kept * 2 * columns + half + c;
      pool.add(from[columns], from[0]);
    }
    y[c] = float(pool.values / pool.sum);
  }
}

// One head: S [k, v] becomes decay S + key u^T; y = query S. `decay` of each row of S.
void update(float* s, int64_t k, int64_t v, const std::vector<float>& decay, const float* key, const float* u,
            const float* query, float* y) {
  std::fill_n(y, v, 0.0f);
  for (int64_t i = 0; i < k; i++)
    for (int64_t j = 0; j < v; j++) {
      float& at = s[i * v + j];
      at = decay[i] * at + key[i] * u[j];
      y[j] += query[i] * at;
    }
}

void ssm_row(const Recurrence& r, const State& state, int64_t t, float* s) {
  const int64_t heads = state.heads, n = state.k_dim, p = state.v_dim, groups = r.in[2]->dims[1];
  const float *x = row_of(*r.in[0], t), *dt = row_of(*r.in[1], t);
  const float *b = row_of(*r.in[2], t), *c = row_of(*r.in[3], t);
  const float *a = r.weight("a"), *dt_bias = r.weight("dt_bias"), *d = r.weight("d");
  std::vector<float> decay(static_cast<size_t>(n)), u(static_cast<size_t>(p));
  for (int64_t h = 0; h < heads; h++) {
    const float step = apply(Fn::softplus, dt[h] + (dt_bias ? dt_bias[h] : 0));
    for (int64_t i = 0; i < n; i++) decay[i] = std::exp(step * a[r.decay_of_states ? h * n + i : h]);
    for (int64_t j = 0; j < p; j++) u[j] = step * x[h * p + j];
    const int64_t group = h / (heads / groups);
    float* y = row_of(*r.out, t) + h * p;
    update(s + h * n * p, n, p, decay, b + group * n, u.data(), c + group * n, y);
    for (int64_t j = 0; d && j < p; j++) y[j] += d[h] * x[h * p + j];
  }
}

void delta_row(const Recurrence& r, const State& state, int64_t t, float* s) {
  const int64_t heads = state.heads, k = state.k_dim, v = state.v_dim, groups = r.in[0]->dims[1];
  const float *q = row_of(*r.in[0], t), *key = row_of(*r.in[1], t), *value = row_of(*r.in[2], t);
  const float *gate = row_of(*r.in[3], t), *beta = row_of(*r.in[4], t);
  const bool of_keys = r.in[3]->dims.size() == 3;
  const float scale = float(r.op.f32(AttrName::scale));
  std::vector<float> decay(static_cast<size_t>(k)), u(static_cast<size_t>(v));
  for (int64_t h = 0; h < heads; h++) {
    const int64_t group = r.op.i64_or(AttrName::in_turn, 0) ? h % groups : h / (heads / groups);
    const float* key_h = key + group * k;
    float* s_h = s + h * k * v;
    for (int64_t i = 0; i < k; i++) decay[i] = std::exp(gate[of_keys ? h * k + i : h]);
    for (int64_t j = 0; j < v; j++) {
      float known = 0;
      for (int64_t i = 0; i < k; i++) known += key_h[i] * (decay[i] * s_h[i * v + j]);
      u[j] = beta[h] * (value[h * v + j] - known);
    }
    float* y = row_of(*r.out, t) + h * v;
    update(s_h, k, v, decay, key_h, u.data(), q + group * k, y);
    for (int64_t j = 0; j < v; j++) y[j] *= scale;
  }
}

void decay_row(const Recurrence& r, const State& state, int64_t t, float* s) {
  const int64_t heads = state.heads, k = state.k_dim, v = state.v_dim, groups = r.in[0]->dims[1];
  const float *q = row_of(*r.in[0], t), *key = row_of(*r.in[1], t), *value = row_of(*r.in[2], t);
  const float scale = float(r.op.f32(AttrName::scale));
  for (int64_t h = 0; h < heads; h++) {
    const int64_t group = h / (heads / groups);
    const double slope = alibi_slope(r.op.f32(AttrName::alibi), h, heads);
    const std::vector<float> decay(static_cast<size_t>(k), float(std::exp(-r.op.f32(AttrName::by) * slope)));
    float* y = row_of(*r.out, t) + h * v;
    update(s + h * k * v, k, v, decay, key + group * k, value + h * v, q + group * k, y);
    for (int64_t j = 0; j < v; j++) y[j] *= scale;
  }
}

void token_shift_row(const Recurrence& r, const State& state, int64_t t, float* s) {
  const int64_t columns = state.v_dim;
  const float *x = row_of(*r.in[0], t), *mix = r.weight("mix");
  float* y = row_of(*r.out, t);
  const int64_t parts = mix ? int64_t(r.out->dims[1]) : 1;
  for (int64_t j = 0; j < parts; j++)
    for (int64_t c = 0; c < columns; c++) {
      const float d = s[c] - x[c];
      y[j * columns + c] = mix ? x[c] + mix[j * columns + c] * d : d;
    }
  std::copy_n(x, columns, s);
}

void wkv_row(const Recurrence& r, const State& state, int64_t t, float* s) {
  const int64_t heads = state.heads, k = state.k_dim, v = state.v_dim, groups = r.in[2]->dims[1];
  const float *q = row_of(*r.in[0], t), *key = row_of(*r.in[1], t), *value = row_of(*r.in[2], t);
  const float *gate = row_of(*r.in[3], t), *bonus = r.weight("bonus");
  const auto scale = float(r.op.f32(AttrName::scale));
  const bool leaky = r.op.i64_or(AttrName::leaky, 0);
  for (int64_t h = 0; h < heads; h++) {
    const int64_t group = h / (heads / groups);
    float* y = row_of(*r.out, t) + h * v;
    std::fill_n(y, v, 0.0f);
    for (int64_t i = 0; i < k; i++) {
      const float decay = std::exp(gate[h * k + i]), k_i = key[group * k + i];
      for (int64_t j = 0; j < v; j++) {
        float& at = s[(h * k + i) * v + j];
        const float before = at, u = value[group * v + j];
        at = decay * at + (leaky ? (1 - decay) * k_i : k_i) * u;
        y[j] += q[h * k + i] * (bonus ? before + bonus[h * k + i] * k_i * u : at);
      }
    }
    for (int64_t j = 0; j < v; j++) y[j] *= scale;
  }
}

void wkv7_row(const Recurrence& r, const State& state, int64_t t, float* s) {
  const int64_t heads = state.heads, k = state.k_dim, v = state.v_dim;
  const float *q = row_of(*r.in[0], t), *key = row_of(*r.in[1], t), *value = row_of(*r.in[2], t);
  const float *gate = row_of(*r.in[3], t), *a = row_of(*r.in[4], t), *b = row_of(*r.in[5], t);
  for (int64_t h = 0; h < heads; h++)
    for (int64_t j = 0; j < v; j++) {
      float *column = s + h * k * v + j, known = 0, sum = 0;
      for (int64_t i = 0; i < k; i++) known += a[h * k + i] * column[i * v];
      for (int64_t i = h * k; i < (h + 1) * k; i++) {
        float& at = column[(i - h * k) * v];
        at = std::exp(gate[i]) * at + b[i] * known + key[i] * value[h * v + j];
        sum += q[i] * at;
      }
      row_of(*r.out, t)[h * v + j] = sum;
    }
}

}  // namespace

void recur_row(const Recurrence& r, const State& state, int64_t t, float* s) {
  switch (r.op.kind) {
    case OpKind::conv:
      return conv_row(r, state, t, s);
    case OpKind::compress:
      return compress_row(r, state, t, s);
    case OpKind::ssm_scan:
      return ssm_row(r, state, t, s);
    case OpKind::delta_rule:
      return delta_row(r, state, t, s);
    case OpKind::decay_attention:
      return decay_row(r, state, t, s);
    case OpKind::token_shift:
      return token_shift_row(r, state, t, s);
    case OpKind::wkv:
      return wkv_row(r, state, t, s);
    case OpKind::wkv7:
      return wkv7_row(r, state, t, s);
    default:
      throw_internal("op ", info(r.op.kind).name, " is no recurrence");
  }
}

std::vector<int64_t> ngram_rows(const Op& op, int64_t token, float* s) {
  const auto &multipliers = op.list(AttrName::multipliers), &sizes = op.list(AttrName::sizes),
             &begins = op.list(AttrName::begins);
  const int64_t end = op.i64(AttrName::end_token);
  const size_t n = multipliers.size(), each = sizes.size() / (n - 1);
  uint64_t hash = uint64_t(token) * uint64_t(multipliers[0]);
  std::vector<int64_t> rows;
  bool ended = false;
  for (size_t i = 1; i < n; i++) {
    const int64_t before = std::bit_cast<int32_t>(s[i - 1]) - int64_t(1);
    ended = ended || before < 0 || before == end;
    hash ^= uint64_t(ended ? end : before) * uint64_t(multipliers[i]);
    for (size_t h = 0; h < each; h++) {
      const size_t at = rows.size();
      rows.push_back(begins[at] + int64_t(hash % uint64_t(sizes[at])));
    }
  }
  std::copy_backward(s, s + n - 2, s + n - 1);
  s[0] = std::bit_cast<float>(int32_t(token + 1));
  return rows;
}

}  // namespace gc::ir
