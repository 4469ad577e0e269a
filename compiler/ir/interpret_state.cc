// Ops with states: attention over the keys and values of the rows' sequences, and recurrences. RoPE, since attention
// turns what it appends.
#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "compiler/base/error.h"
#include "compiler/ir/interpret_step.h"
#include "compiler/ir/recur.h"
#include "compiler/ir/row_math.h"
#include "compiler/quant/rope_table.h"

namespace gc::ir {
namespace {

class StateOps : StepOps {
 public:
  using StepOps::StepOps;

  void rope() {
    int64_t dims = op_.i64(AttrName::rope_dims), heads = in(0).dims[1], d = in(0).last();
    out().data = in(0).data;
    for (int64_t t = 0; t < in(0).dims[0]; t++)
      turn_heads(out().row(t * heads), heads, d, dims,
                 angles(std::max<int64_t>(0, rows_[t].position - op_.i64_or(AttrName::back, 0)), dims));
  }

  void attention() {
    Heads h{in(0).dims[1], in(1).dims[1], in(0).last(), in(2).last()};
    attend(in(0).data.data(), in(1).data.data(), in(2).data.data(), h);
  }

  void attention_sums() {
    const Heads h{in(0).dims[1], in(1).dims[1], in(0).last(), in(2).last()};
    const State& state = g_.state(op_.state);
    const float *q = in(0).data.data(), *k = in(1).data.data(), *v = in(2).data.data();
    if (state.kind == State::Kind::KvLatent) return attend_compressed(q, k, v, h);
    attend(q, k, v, h);
  }

  void choose_positions() {
    const int64_t heads = in(0).dims[1], d = in(0).last(), used = op_.i64(AttrName::used);
    append(in(1).data.data(), nullptr, {heads, 1, d, 0});
    const int64_t every = kept_every();
    for (size_t t = 0; t < rows_.size(); t++) {
      const float *q = in(0).row(int64_t(t) * heads), *w = in(2).row(int64_t(t));
      const Cache& cache = step_.cache_of(rows_[t]);
      std::vector<float> score(size_t((rows_[t].position + 1) / every), 0);
      for (size_t p = 0; p < score.size(); p++)
        for (int64_t h = 0; h < heads; h++)
          score[p] += w[h] * std::max(0.0f, float(dot(q + h * d, &cache.k[p * size_t(d)], d)));
      const std::vector<int64_t> best = greatest(score, used);
      float* y = out().row(int64_t(t));
      for (int64_t i = 0; i < used; i++) y[i] = i < int64_t(best.size()) ? float(best[size_t(i)]) : -1;
    }
  }

  void attention_chosen() {
    const Heads h{in(0).dims[1], in(1).dims[1], in(0).last(), in(2).last()};
    append(in(1).data.data(), in(2).data.data(), h);
    for (size_t t = 0; t < rows_.size(); t++) {
      Cache seen;  // the chosen positions alone, side by side
      const Cache& cache = step_.cache_of(rows_[t]);
      for (int64_t i = 0; i < in(3).last() && in(3).row(int64_t(t))[i] >= 0; i++, seen.length++) {
        const auto p = int64_t(in(3).row(int64_t(t))[i]);
        if (p >= (rows_[t].position + 1) / kept_every())
          throw_user("position ", p, " is chosen for position ", rows_[t].position);
        seen.k.insert(seen.k.end(), &cache.k[p * h.kv * h.d], &cache.k[p * h.kv * h.d] + h.kv * h.d);
        seen.v.insert(seen.v.end(), &cache.v[p * h.kv * h.dv], &cache.v[p * h.kv * h.dv] + h.kv * h.dv);
      }
      for (int64_t head = 0; head < h.q; head++) {
        if (has_sums()) *sum_of(t, head, h) = kNoSum;
        if (seen.length == 0) continue;
        attend_head(in(0).row(int64_t(t) * h.q + head), seen, seen.length - 1, head, h, y_of(t, head, h),
                    sum_of(t, head, h));
      }
    }
  }

  void ngram_embed() {
    WeightId table = op_.one("table")->weight;
    const int64_t n = g_.weight(table).shape[1];
    for (size_t t = 0; t < rows_.size(); t++) {
      const std::vector<int64_t> rows = ngram_rows(op_, rows_[t].token, state_of(rows_[t]));
      for (size_t h = 0; h < rows.size(); h++)
        step_.read_row(table, rows[h], out().row(int64_t(t)) + int64_t(h) * n);
    }
  }

  void attention_again() {
    const State& s = g_.state(op_.state);
    attend_rows(in(0).data.data(), {in(0).dims[1], s.heads, s.k_dim, s.v_dim});
  }

  void attn_block() {
    Heads h{op_.i64(AttrName::heads), op_.i64(AttrName::kv_heads), op_.i64(AttrName::head_dim),
            op_.i64(AttrName::v_dim)};
    int64_t nq = h.q * h.d, nk = h.kv * h.d, nv = h.kv * h.dv, count = int64_t(rows_.size());
    std::vector<float> q, k, v;
    for (int64_t t = 0; t < count; t++) {
      const float* x = in(0).row(t);
      q.insert(q.end(), x, x + nq);
      k.insert(k.end(), x + nq, x + nq + nk);
      v.insert(v.end(), x + nq + nk, x + nq + nk + nv);
    }
    norm_heads(q, "q_norm", h.d);
    norm_heads(k, "k_norm", h.d);
    if (op_.one("rope_fine")) {
      int64_t dims = op_.i64(AttrName::rope_dims);
      for (int64_t t = 0; t < count; t++) {
        auto cos_sin = angles(rows_[t].position, dims);
        turn_heads(&q[t * nq], h.q, h.d, dims, cos_sin);
        turn_heads(&k[t * nk], h.kv, h.d, dims, cos_sin);
      }
    }
    attend(q.data(), k.data(), v.data(), h);
  }

  void recur() {
    Recurrence r{.op = op_, .out = &out()};
    for (size_t i = 0; i < op_.inputs.size(); i++) r.in.push_back(&in(int(i)));
    for (const WeightUse& use : op_.weights)
      r.weights[slots(op_.kind)[use.slot].name] = step_.whole(use.weight);
    if (op_.kind == OpKind::ssm_scan) r.decay_of_states = g_.weight(op_.one("a")->weight).shape.size() == 2;
    const State& state = g_.state(op_.state);
    for (size_t t = 0; t < rows_.size(); t++) {
      r.position = rows_[t].position;
      recur_row(r, state, int64_t(t), state_of(rows_[t]));
    }
  }

 private:
  using Cache = Interpreter::Cache;
  static constexpr float kNoSum = -1e30f;

  // A sequence's recurrent state as the row finds it.
  float* state_of(const Row& row) {
    Cache& cache = step_.cache_of(row);
    const int64_t p = row.position;
    if (p != cache.length && p != 0)
      throw_user("position ", p, " of a sequence of ", cache.length,
                 " tokens: a recurrent state goes on, or begins anew");
    if (p == 0) cache.k.assign(size_t(g_.state(op_.state).recurrent_size()), 0);
    cache.length = p + 1;
    return cache.k.data();
  }

  // Shapes of the attention at hand, from the op's attributes or operands.
  struct Heads {
    int64_t q, kv, d, dv;
  };

  // Whether the op's positions turn by what holds for long contexts.
  bool long_tables() const {
    const auto fine = op_.one("rope_fine");
    const int64_t most =
        fine ? g_.weight(fine->weight).rope.short_context : op_.i64_or(AttrName::rope_short, 0);
    return most > 0 && step_.context() > most;
  }

  // (cos, sin) of the op's RoPE at a position: from its tables, or directly.
  std::vector<float> angles(int64_t position, int64_t dims) {
    std::vector<float> cos_sin(static_cast<size_t>(dims));
    auto fine = op_.one("rope_fine");
    if (!fine) {
      auto factors = op_.one(long_tables() ? "long_factors" : "factors");
      std::span<const float> f;
      if (factors) f = {step_.whole(factors->weight), size_t(dims / 2)};
      const int64_t limit = op_.i64_or(AttrName::rope_limit, 0);
      if (limit > 0 && position >= limit)
        throw_user("position ", position, " is past the limit of RoPE, ", limit);
      const RopeParams rope{op_.f32(AttrName::rope_base),
                            op_.f32(AttrName::rope_scale),
                            dims,
                            op_.f32_or(AttrName::rope_low, -1),
                            op_.f32_or(AttrName::rope_high, -1),
                            op_.f32_or(AttrName::rope_magnitude, 1)};
      rope_row(rope, f, position, cos_sin.data());
      return cos_sin;
    }
    WeightId coarse = op_.one("rope_coarse")->weight;
    const int64_t n = g_.weight(fine->weight).table_rows(), m = g_.weight(coarse).table_rows();
    if (position / n >= m) throw_user("position ", position, " is past the RoPE tables");
    std::vector<float> c(static_cast<size_t>(dims));
    step_.read_row(fine->weight, (long_tables() ? n : 0) + position % n, cos_sin.data());
    step_.read_row(coarse, (long_tables() ? m : 0) + position / n, c.data());
    for (int64_t i = 0; i < dims; i += 2) {
      float re = cos_sin[i] * c[i] - cos_sin[i + 1] * c[i + 1];
      cos_sin[i + 1] = cos_sin[i] * c[i + 1] + cos_sin[i + 1] * c[i];
      cos_sin[i] = re;
    }
    return cos_sin;
  }

  void turn_heads(float* x, int64_t heads, int64_t head_dim, int64_t dims, std::vector<float> cos_sin) {
    if (op_.i64_or(AttrName::inverse, 0))
      for (size_t i = 1; i < cos_sin.size(); i += 2) cos_sin[i] = -cos_sin[i];
    for (int64_t h = 0; h < heads; h++)
      turn(x + h * head_dim, cos_sin.data(), dims, op_.i64(AttrName::rope_neox));
  }

  void norm_heads(std::vector<float>& x, std::string_view slot, int64_t d) {
    const float* w = vector(slot);
    if (!w) return;
    for (size_t i = 0; i < x.size(); i += size_t(d)) rms_norm(&x[i], w, op_.f32(AttrName::eps), d, &x[i]);
  }

  // q: [T, heads, d], k: [T, kv_heads, d], v: [T, kv_heads, dv]; every row is appended before any attends.
  void attend(const float* q, const float* k, const float* v, const Heads& h) {
    append(k, v, h);
    attend_rows(q, h);
  }

  void append(const float* k, const float* v, const Heads& h) {
    const int64_t every = kept_every();
    for (size_t t = 0; t < rows_.size(); t++) {
      Cache& cache = step_.cache_of(rows_[t]);
      const int64_t p = rows_[t].position, kept = (p + 1) / every;
      if (p < 0 || p > cache.length)
        throw_user("position ", p, " of a sequence of ", cache.length, " tokens");
      cache.length = p + 1;
      cache.k.resize(size_t(kept * h.kv * h.d));
      cache.v.resize(size_t(kept * h.kv * h.dv));
      if ((p + 1) % every != 0) continue;
      std::copy_n(k + t * h.kv * h.d, h.kv * h.d, cache.k.end() - h.kv * h.d);
      if (h.dv > 0) std::copy_n(v + t * h.kv * h.dv, h.kv * h.dv, cache.v.end() - h.kv * h.dv);
    }
  }

  // The `n` greatest (of equal ones the first), in order of place.
  static std::vector<int64_t> greatest(const std::vector<float>& score, int64_t n) {
    std::vector<int64_t> at(score.size());
    for (size_t i = 0; i < at.size(); i++) at[i] = int64_t(i);
    const auto before = [&](int64_t a, int64_t b) {
      return score[size_t(a)] > score[size_t(b)] || (score[size_t(a)] == score[size_t(b)] && a < b);
    };
    std::sort(at.begin(), at.end(), before);
    at.resize(size_t(std::min<int64_t>(n, int64_t(at.size()))));
    std::sort(at.begin(), at.end());
    return at;
  }

  // Of how many rows the state keeps one: 1, or so many of a kv_latent state.
  int64_t kept_every() const {
    const State& state = g_.state(op_.state);
    return state.kind == State::Kind::KvLatent ? state.window : 1;
  }

  // The same of a kv_latent state.
  void attend_compressed(const float* q, const float* k, const float* v, const Heads& h) {
    append(k, v, h);
    const int64_t every = kept_every();
    for (size_t t = 0; t < rows_.size(); t++)
      for (int64_t head = 0; head < h.q; head++) {
        const int64_t seen = (rows_[t].position + 1) / every;
        *sum_of(t, head, h) = kNoSum;
        if (seen == 0) continue;
        attend_head(q + (t * h.q + head) * h.d, step_.cache_of(rows_[t]), seen - 1, head, h, y_of(t, head, h),
                    sum_of(t, head, h));
      }
  }

  void attend_rows(const float* q, const Heads& h) {
    for (size_t t = 0; t < rows_.size(); t++)
      for (int64_t head = 0; head < h.q; head++)
        attend_head(q + (t * h.q + head) * h.d, step_.cache_of(rows_[t]), rows_[t].position, head, h,
                    y_of(t, head, h), sum_of(t, head, h));
  }

  // Rows of attention_sums have a number for each head behind the values.
  bool has_sums() const { return gives_sums(op_); }
  float* y_of(size_t t, int64_t head, const Heads& h) {
    return out().data.data() + int64_t(t) * h.q * (h.dv + has_sums()) + head * h.dv;
  }
  float* sum_of(size_t t, int64_t head, const Heads& h) {
    return has_sums() ? y_of(t, h.q, h) + head : nullptr;
  }

  // log_sum: what the softmax divides by, or null.
  void attend_head(const float* q, const Cache& cache, int64_t position, int64_t head, const Heads& h,
                   float* y, float* log_sum) {
    int64_t window = op_.i64(AttrName::window), kv = head / (h.q / h.kv);
    int64_t first = window > 0 ? std::max<int64_t>(0, position + 1 - window) : 0;
    double scale = op_.f32(AttrName::scale), cap = op_.f32_or(AttrName::cap, 0);
    double alibi = op_.f32_or(AttrName::alibi, 0);
    double slope = alibi == 0 ? 0 : alibi_slope(alibi, head, h.q);
    const float* sinks = vector("sinks");
    const int64_t buckets = op_.i64_or(AttrName::buckets, 0);
    const float* bias = buckets > 0 ? vector("bias") : nullptr;
    const bool ahead = op_.i64_or(AttrName::ahead, 0) != 0;
    int64_t last = ahead ? cache.length - 1 : position;
    if (window > 0) last = std::min(last, position + window - 1);
    std::vector<float> score;
    for (int64_t p = first; p <= last; p++)
      score.push_back(float(cap_of(float(scale * dot(q, &cache.k[(p * h.kv + kv) * h.d], h.d)), cap) -
                            slope * std::abs(double(position - p))));
    for (int64_t p = first; bias && p <= last; p++)
      score[p - first] += bias[distance_bucket(p - position, buckets, ahead) * h.q + head];
    float top = *std::max_element(score.begin(), score.end());
    if (sinks) top = std::max(top, sinks[head]);
    double sum = sinks ? std::exp(double(sinks[head]) - top) : 0;
    for (float& s : score) sum += s = std::exp(s - top);
    if (log_sum) *log_sum = float(top + std::log(sum));
    for (int64_t p = first; p <= last; p++) {
      float share = float(score[p - first] / sum);
      const float* value = &cache.v[(p * h.kv + kv) * h.dv];
      for (int64_t i = 0; i < h.dv; i++) y[i] += share * value[i];
    }
  }
};

}  // namespace

void interpret_state(Interpreter::Step& step) {
  StateOps ops(step);
  const OpKind kind = step.op().kind;
  if (kind == OpKind::rope) return ops.rope();
  if (kind == OpKind::attention) return ops.attention();
  if (kind == OpKind::attention_again) return ops.attention_again();
  if (kind == OpKind::attention_sums) return ops.attention_sums();
  if (kind == OpKind::attention_chosen) return ops.attention_chosen();
  if (kind == OpKind::choose_positions) return ops.choose_positions();
  if (kind == OpKind::attn_block) return ops.attn_block();
  if (kind == OpKind::ngram_embed) return ops.ngram_embed();
  ops.recur();
}

}  // namespace gc::ir
