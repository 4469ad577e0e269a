#include "compiler/ir/interpret.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>

#include "compiler/base/error.h"
#include "compiler/ir/recur.h"
#include "compiler/ir/row_math.h"
#include "compiler/quant/activation.h"
#include "compiler/quant/rope_table.h"

namespace gc::ir {
namespace {

constexpr int kRowsAtOnce = 4;

void quantize_in_place(Tensor& t) {
  for (size_t i = 0; i < t.data.size(); i += kActBlock) {
    ActBlock32 b = quantize_block32(&t.data[i]);
    for (int j = 0; j < kActBlock; j++) t.data[i + j] = b.d * b.q[j];
  }
}

}  // namespace

// One run: the values made so far.
class Interpreter::Step {
 public:
  Step(Interpreter& in, std::span<const Row> rows)
      : in_(in), g_(in.g_), rows_(rows), values_(in.g_.values.size()) {
    for (size_t i = 0; i < rows.size(); i++)
      if (rows[i].output) outputs_.push_back(int64_t(i));
  }

  std::vector<Tensor> run(const See& see) {
    for (size_t i = 0; i < g_.ops.size(); i++) {
      op_ = &g_.ops[i];
      for (ValueId v : op_->results) make(v);
      eval();
      if (op_->out() == Elem::Q16) quantize_in_place(values_[op_->results.back().index]);
      for (ValueId v : op_->results)
        if (see) see(g_.value(v).name, values_[v.index]);
      for (ValueId v : op_->inputs)
        if (in_.last_use_[v.index] == int32_t(i)) values_[v.index] = {};
    }
    std::vector<Tensor> out;
    out.reserve(g_.outputs.size());
    for (ValueId v : g_.outputs) out.push_back(values_[v.index]);
    return out;
  }

 private:
  int64_t size(const Dim& d) const {
    switch (d.kind) {
      case Dim::Kind::Const:
        return d.size;
      case Dim::Kind::Tokens:
        return int64_t(rows_.size());
      case Dim::Kind::Outputs:
        return int64_t(outputs_.size());
      case Dim::Kind::Positions:
        break;
    }
    throw_internal("a value of P positions");
  }

  void make(ValueId v) {
    Tensor& t = values_[v.index];
    int64_t n = 1;
    for (const Dim& d : g_.value(v).type.dims) {
      t.dims.push_back(size(d));
      n *= t.dims.back();
    }
    t.data.assign(size_t(n), 0.0f);
  }

  const Tensor& in(int i) const { return values_[op_->inputs[i].index]; }
  Tensor& out(int i = 0) { return values_[op_->results[i].index]; }

  // The vector in an optional slot, or null.
  const float* vector(std::string_view slot) {
    auto use = op_->one(slot);
    return use ? vector(use->weight) : nullptr;
  }

  // Small weights are always kept.
  const float* vector(WeightId id) {
    auto& w = in_.weights_[id.index];
    if (w.empty()) {
      w.resize(size_t(g_.weight(id).shape.back()));
      in_.make_row(id, 0, w.data());
    }
    return w.data();
  }

  void eval() {
    const Op& op = *op_;
    switch (op.kind) {
      case OpKind::embed:
        return embed();
      case OpKind::embed_position:
        return embed_position();
      case OpKind::rms_norm:
        return each_row([&, w = vector("weight")](const float* x, float* y, int64_t n) {
          rms_norm(x, w, op.f32(AttrName::eps), n, y);
        });
      case OpKind::layer_norm:
        return each_row([&, w = vector("weight"), b = vector("bias")](const float* x, float* y, int64_t n) {
          layer_norm(x, w, b, op.f32(AttrName::eps), n, y);
        });
      case OpKind::matmul:
        return matmul();
      case OpKind::slice:
        return slice();
      case OpKind::heads:
      case OpKind::merge_heads:
        out().data = in(0).data;
        return;
      case OpKind::rope:
        return rope();
      case OpKind::scale:
        return each([by = float(op.f32(AttrName::by))](float x) { return x * by; });
      case OpKind::weigh:
        return weigh();
      case OpKind::shift:
        return each_row([w = vector("weight")](const float* x, float* y, int64_t n) {
          for (int64_t i = 0; i < n; i++) y[i] = x[i] + w[i];
        });
      case OpKind::clamp:
        return each([limit = float(op.f32(AttrName::limit)), upper = op.i64_or(AttrName::upper, 0) != 0](
                        float x) { return upper ? std::min(x, limit) : std::clamp(x, -limit, limit); });
      case OpKind::temper:
        return temper();
      case OpKind::add:
        return each2([](float a, float b) { return a + b; });
      case OpKind::mul:
        return each2([](float a, float b) { return a * b; });
      case OpKind::mul_heads:
        return mul_heads();
      case OpKind::act:
        return each([fn = op.fn()](float x) { return apply(fn, x); });
      case OpKind::softcap:
        return each([cap = op.f32(AttrName::cap)](float x) { return cap_of(x, cap); });
      case OpKind::matmul_heads:
        return matmul_heads();
      case OpKind::slice_heads:
        return slice();
      case OpKind::concat_heads:
        return concat_heads();
      case OpKind::attention:
        return attention();
      case OpKind::attention_again:
        return attention_again();
      case OpKind::mix:
        for (int64_t t = 0; t < in(1).rows(); t++)
          mix_row(in(0).row(t * in(0).dims[1]), in(1).row(t), op.f32_or(AttrName::plus, 0), in(0).dims[1],
                  out().dims[1], out().last(), out().row(t * out().dims[1]));
        return;
      case OpKind::rescale:
        for (int64_t i = 0, heads = in(1).dims[1]; i < in(1).rows(); i++)
          rescale_row(in(0).row(i / heads), in(1).row(i), in(1).last(), out().row(i));
        return;
      case OpKind::add_heads:
        for (int64_t i = 0, heads = in(0).dims[1]; i < in(0).rows(); i++) {
          const bool adds = i % heads >= op.i64(AttrName::begin);
          for (int64_t j = 0; j < in(0).last(); j++)
            out().row(i)[j] = in(0).row(i)[j] + (adds ? in(1).row(i / heads)[j] : 0);
        }
        return;
      case OpKind::sparsify:
        return each_row(
            [&](const float* x, float* y, int64_t n) { sparsify_row(x, op.f32(AttrName::by), n, y); });
      case OpKind::conv:
      case OpKind::ssm_scan:
      case OpKind::delta_rule:
      case OpKind::decay_attention:
        return recur();
      case OpKind::concat:
        return concat();
      case OpKind::select:
        for (size_t r = 0; r < outputs_.size(); r++) copy_outer(in(0), outputs_[r], out(), int64_t(r));
        return;
      case OpKind::route:
        return each_row([&, bias = vector("bias")](const float* x, float* y, int64_t n) {
          route_row(op, x, bias, n, y);
        });
      case OpKind::experts_in:
        return experts_in();
      case OpKind::experts_out:
        return experts_out();
      case OpKind::quantize:
        out().data = in(0).data;
        return quantize_in_place(out());
      case OpKind::glu:
        return each2([fn = op.fn()](float a, float b) { return apply(fn, a) * b; });
      case OpKind::residual_norm:
        return residual_norm();
      case OpKind::matmul_glu:
        return matmul_glu();
      case OpKind::attn_block:
        return attn_block();
    }
  }

  template <class F>
  void each(F f) {
    for (size_t i = 0; i < out().data.size(); i++) out().data[i] = f(in(0).data[i]);
  }
  template <class F>
  void each2(F f) {
    for (size_t i = 0; i < out().data.size(); i++) out().data[i] = f(in(0).data[i], in(1).data[i]);
  }
  template <class F>
  void each_row(F f) {
    for (int64_t i = 0; i < in(0).rows(); i++) f(in(0).row(i), out().row(i), in(0).last());
  }

  // Copies slice `from` of the outermost dimension of a to slice `to` of b's.
  static void copy_outer(const Tensor& a, int64_t from, Tensor& b, int64_t to) {
    int64_t n = int64_t(a.data.size()) / a.dims[0];
    std::copy_n(a.data.begin() + from * n, n, b.data.begin() + to * n);
  }

  void embed() {
    WeightId table = op_->one("table")->weight;
    float scale = float(op_->f32_or(AttrName::scale, 1));
    for (size_t t = 0; t < rows_.size(); t++) {
      int64_t token = rows_[t].token;
      if (token < 0 || token >= g_.weight(table).shape[0])
        throw_user("token ", token, " is not in the vocabulary");
      in_.read_row(table, token, out().row(int64_t(t)));
      for (int64_t i = 0; i < out().last(); i++) out().row(int64_t(t))[i] *= scale;
    }
  }

  void embed_position() {
    WeightId table = op_->one("table")->weight;
    for (size_t t = 0; t < rows_.size(); t++) {
      int64_t position = rows_[t].position;
      if (position < 0 || position >= g_.weight(table).shape[0])
        throw_user("position ", position, " is past the table of positions");
      in_.read_row(table, position, out().row(int64_t(t)));
    }
  }

  void weigh() {
    WeightId id = op_->one("weight")->weight;
    const float* w = vector(id);
    const bool inverse = op_->i64_or(AttrName::inverse, 0) != 0;
    const int64_t n = in(0).last(), neighbours = n / g_.weight(id).shape[0];
    for (int64_t r = 0; r < in(0).rows(); r++)
      for (int64_t i = 0; i < n; i++) {
        const float by = w[i / neighbours];
        out().row(r)[i] = inverse ? in(0).row(r)[i] / by : in(0).row(r)[i] * by;
      }
  }

  void temper() {
    const int64_t period = op_->i64(AttrName::period), offset = op_->i64_or(AttrName::offset, 0);
    const int64_t each = int64_t(in(0).data.size()) / in(0).dims[0];
    for (size_t t = 0; t < rows_.size(); t++) {
      const int64_t periods = (rows_[t].position + offset) / period;
      const float by = float(1 + op_->f32(AttrName::by) * std::log(1 + double(periods)));
      for (int64_t i = int64_t(t) * each; i < int64_t(t + 1) * each; i++) out().data[i] = in(0).data[i] * by;
    }
  }

  void mul_heads() {
    const int64_t d = in(0).last();
    for (size_t i = 0; i < out().data.size(); i++) out().data[i] = in(0).data[i] * in(1).data[i / size_t(d)];
  }

  // y[t, first + n] = rows[n] . x[t], then the next segment.
  void multiply(const Tensor& x, const std::vector<WeightUse>& segments, Tensor& y) {
    int64_t first = 0;
    for (const WeightUse& use : segments) {
      multiply_segment(x, use, y, first);
      first += row_count(g_, use);
    }
  }

  void multiply_segment(const Tensor& x, const WeightUse& use, Tensor& y, int64_t first) {
    int64_t k = x.last(), count = row_count(g_, use);
    const float* all = in_.cached(use.weight);
    std::vector<float> buffer(all ? 0 : size_t(kRowsAtOnce * k));
    for (int64_t n = 0; n < count; n += kRowsAtOnce) {
      int64_t here = std::min<int64_t>(kRowsAtOnce, count - n);
      const float* w = all ? all + (use.row_begin + n) * k : nullptr;
      if (!all) {
        for (int64_t i = 0; i < here; i++) in_.read_row(use.weight, use.row_begin + n + i, &buffer[i * k]);
        w = buffer.data();
      }
      for (int64_t t = 0; t < x.rows(); t++) {
        float* to = y.row(t) + first + n;
        if (here == kRowsAtOnce) {
          dot4(x.row(t), w, k, to);
        } else {
          for (int64_t i = 0; i < here; i++) to[i] = dot(x.row(t), w + i * k, k);
        }
      }
    }
  }

  void matmul() {
    auto rows = op_->slot("rows"), bias = op_->slot("bias");
    multiply(in(0), rows, out());
    int64_t first = 0;
    for (size_t s = 0; s < bias.size(); s++) {
      int64_t n = row_count(g_, rows[s]);
      if (bias[s].weight.valid()) {
        const float* b = vector(bias[s].weight) + bias[s].row_begin;
        for (int64_t t = 0; t < out().rows(); t++)
          for (int64_t i = 0; i < n; i++) out().row(t)[first + i] += b[i];
      }
      first += n;
    }
  }

  void matmul_glu() {
    Tensor gate = out();
    multiply(in(0), op_->slot("gate"), gate);
    multiply(in(0), op_->slot("up"), out());
    Fn fn = op_->fn();
    for (size_t i = 0; i < gate.data.size(); i++) out().data[i] *= apply(fn, gate.data[i]);
  }

  // y[n] = rows [row, row + count) of a stack of matrices . x
  void multiply_rows(WeightId id, int64_t row, int64_t count, const float* x, std::vector<float>& y) {
    const int64_t k = g_.weight(id).shape.back();
    const float* all = in_.cached(id);
    std::vector<float> buffer(all ? 0 : size_t(k));
    y.resize(size_t(count));
    for (int64_t n = 0; n < count; n++) {
      if (!all) in_.read_row(id, row + n, buffer.data());
      y[n] = dot(x, all ? all + (row + n) * k : buffer.data(), k);
    }
  }

  // An expert's product of x with its bias, in the slots of these names.
  void multiply_expert(std::string_view matrix, std::string_view bias, int64_t expert, const float* x,
                       std::vector<float>& y) {
    const WeightId id = op_->one(matrix)->weight;
    const int64_t rows = g_.weight(id).shape[1];
    multiply_rows(id, expert * rows, rows, x, y);
    auto b = op_->one(bias);
    if (!b) return;
    std::vector<float> add(static_cast<size_t>(rows));
    in_.read_row(b->weight, expert, add.data());
    for (int64_t i = 0; i < rows; i++) y[i] += add[i];
  }

  void experts_in() {
    const Tensor& routing = in(1);
    const int64_t used = out().dims[1];
    for (int64_t t = 0; t < in(0).rows(); t++) {
      int64_t j = 0;
      for (int64_t e = 0; e < routing.last() && j < used; e++)
        if (routing.row(t)[e] != 0) expert_in(e, in(0).row(t), routing.row(t)[e], out().row(t * used + j++));
    }
  }

  void expert_in(int64_t expert, const float* x, float weight, float* y) {
    const bool joined = op_->i64_or(AttrName::joined, 0) != 0;
    const bool gated = joined || op_->one("gate"), limited = op_->has(AttrName::limit);
    const float by = op_->i64_or(AttrName::weigh, 0) ? weight : 1;
    const float limit = float(op_->f32_or(AttrName::limit, 0)), add = float(op_->f32_or(AttrName::up_add, 0));
    std::vector<float> up, gate;
    multiply_expert("up", "up_bias", expert, x, up);
    if (joined) {
      gate.assign(up.begin(), up.begin() + std::ptrdiff_t(up.size() / 2));
      up.erase(up.begin(), up.begin() + std::ptrdiff_t(gate.size()));
    } else if (gated) {
      multiply_expert("gate", "gate_bias", expert, x, gate);
    }
    for (size_t i = 0; i < up.size(); i++) {
      float u = by * up[i];
      if (!gated) {
        y[i] = apply(op_->fn(), u);
        continue;
      }
      float g = by * gate[i];
      if (limited) g = std::min(g, limit), u = std::clamp(u, -limit, limit);
      y[i] = apply(op_->fn(), g) * (u + add);
    }
  }

  void experts_out() {
    const Tensor& routing = in(1);
    const int64_t used = in(0).dims[1];
    const bool weigh = op_->i64_or(AttrName::weigh, 0) != 0;
    std::vector<float> part;
    for (int64_t t = 0; t < routing.rows(); t++) {
      int64_t j = 0;
      for (int64_t e = 0; e < routing.last() && j < used; e++) {
        const float w = routing.row(t)[e];
        if (w == 0) continue;
        multiply_expert("down", "bias", e, in(0).row(t * used + j++), part);
        for (size_t i = 0; i < part.size(); i++) out().row(t)[i] += (weigh ? w : 1) * part[i];
      }
    }
  }

  void slice() {
    int64_t begin = op_->i64(AttrName::begin), n = out().last();
    for (int64_t i = 0; i < out().rows(); i++) std::copy_n(in(0).row(i) + begin, n, out().row(i));
  }

  void concat() {
    int64_t a = in(0).last(), b = in(1).last();
    for (int64_t i = 0; i < out().rows(); i++) {
      std::copy_n(in(0).row(i), a, out().row(i));
      std::copy_n(in(1).row(i), b, out().row(i) + a);
    }
  }

  void matmul_heads() {
    const WeightId id = op_->one("matrices")->weight;
    const int64_t heads = in(0).dims[1], n = out().last();
    std::vector<float> y;
    for (int64_t h = 0; h < heads; h++)
      for (int64_t t = 0; t < in(0).dims[0]; t++) {
        multiply_rows(id, h * n, n, in(0).row(t * heads + h), y);
        std::copy_n(y.data(), n, out().row(t * heads + h));
      }
  }

  void concat_heads() {
    const int64_t a = in(0).last(), b = in(1).last(), heads = out().dims[1];
    const auto row = [&](int i, int64_t at) { return in(i).row(in(i).dims[1] == heads ? at : at / heads); };
    for (int64_t i = 0; i < out().rows(); i++) {
      std::copy_n(row(0, i), a, out().row(i));
      std::copy_n(row(1, i), b, out().row(i) + a);
    }
  }

  void residual_norm() {
    const float *post = vector("post"), *pre = vector("pre");
    double eps = op_->f32(AttrName::eps);
    int64_t n = in(0).last();
    std::vector<float> branch(static_cast<size_t>(n));
    for (int64_t t = 0; t < in(0).rows(); t++) {
      std::copy_n(in(1).row(t), n, branch.data());
      if (post) rms_norm(in(1).row(t), post, eps, n, branch.data());
      for (int64_t i = 0; i < n; i++) out(0).row(t)[i] = in(0).row(t)[i] + branch[i];
      rms_norm(out(0).row(t), pre, eps, n, out(1).row(t));
    }
  }

  // Whether the op's positions turn by what holds for long contexts.
  bool long_tables() const {
    const auto fine = op_->one("rope_fine");
    const int64_t most =
        fine ? g_.weight(fine->weight).rope.short_context : op_->i64_or(AttrName::rope_short, 0);
    return most > 0 && in_.context_ > most;
  }

  // (cos, sin) of the op's RoPE at a position: from its tables, or directly.
  std::vector<float> angles(int64_t position, int64_t dims) {
    std::vector<float> cos_sin(static_cast<size_t>(dims));
    auto fine = op_->one("rope_fine");
    if (!fine) {
      auto factors = op_->one(long_tables() ? "long_factors" : "factors");
      std::span<const float> f;
      if (factors) f = {vector(factors->weight), size_t(dims / 2)};
      const int64_t limit = op_->i64_or(AttrName::rope_limit, 0);
      if (limit > 0 && position >= limit)
        throw_user("position ", position, " is past the limit of RoPE, ", limit);
      const RopeParams rope{op_->f32(AttrName::rope_base),
                            op_->f32(AttrName::rope_scale),
                            dims,
                            op_->f32_or(AttrName::rope_low, -1),
                            op_->f32_or(AttrName::rope_high, -1),
                            op_->f32_or(AttrName::rope_magnitude, 1)};
      rope_row(rope, f, position, cos_sin.data());
      return cos_sin;
    }
    WeightId coarse = op_->one("rope_coarse")->weight;
    const int64_t n = g_.weight(fine->weight).table_rows(), m = g_.weight(coarse).table_rows();
    if (position / n >= m) throw_user("position ", position, " is past the RoPE tables");
    std::vector<float> c(static_cast<size_t>(dims));
    in_.read_row(fine->weight, (long_tables() ? n : 0) + position % n, cos_sin.data());
    in_.read_row(coarse, (long_tables() ? m : 0) + position / n, c.data());
    for (int64_t i = 0; i < dims; i += 2) {
      float re = cos_sin[i] * c[i] - cos_sin[i + 1] * c[i + 1];
      cos_sin[i + 1] = cos_sin[i] * c[i + 1] + cos_sin[i + 1] * c[i];
      cos_sin[i] = re;
    }
    return cos_sin;
  }

  void turn_heads(float* x, int64_t heads, int64_t head_dim, int64_t dims,
                  const std::vector<float>& cos_sin) {
    for (int64_t h = 0; h < heads; h++)
      turn(x + h * head_dim, cos_sin.data(), dims, op_->i64(AttrName::rope_neox));
  }

  void rope() {
    int64_t dims = op_->i64(AttrName::rope_dims), heads = in(0).dims[1], d = in(0).last();
    out().data = in(0).data;
    for (int64_t t = 0; t < in(0).dims[0]; t++)
      turn_heads(out().row(t * heads), heads, d, dims, angles(rows_[t].position, dims));
  }

  // Shapes of the attention at hand, from the op's attributes or operands.
  struct Heads {
    int64_t q, kv, d, dv;
  };

  void attention() {
    Heads h{in(0).dims[1], in(1).dims[1], in(0).last(), in(2).last()};
    attend(in(0).data.data(), in(1).data.data(), in(2).data.data(), h);
  }

  void attention_again() {
    const State& s = g_.state(op_->state);
    attend_rows(in(0).data.data(), {in(0).dims[1], s.heads, s.k_dim, s.v_dim});
  }

  void attn_block() {
    Heads h{op_->i64(AttrName::heads), op_->i64(AttrName::kv_heads), op_->i64(AttrName::head_dim),
            op_->i64(AttrName::v_dim)};
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
    if (op_->one("rope_fine")) {
      int64_t dims = op_->i64(AttrName::rope_dims);
      for (int64_t t = 0; t < count; t++) {
        auto cos_sin = angles(rows_[t].position, dims);
        turn_heads(&q[t * nq], h.q, h.d, dims, cos_sin);
        turn_heads(&k[t * nk], h.kv, h.d, dims, cos_sin);
      }
    }
    attend(q.data(), k.data(), v.data(), h);
  }

  void norm_heads(std::vector<float>& x, std::string_view slot, int64_t d) {
    const float* w = vector(slot);
    if (!w) return;
    for (size_t i = 0; i < x.size(); i += size_t(d)) rms_norm(&x[i], w, op_->f32(AttrName::eps), d, &x[i]);
  }

  // q: [T, heads, d], k: [T, kv_heads, d], v: [T, kv_heads, dv]; every row is appended before any attends.
  void attend(const float* q, const float* k, const float* v, const Heads& h) {
    for (size_t t = 0; t < rows_.size(); t++) {
      Cache& cache = cache_of(rows_[t]);
      int64_t p = rows_[t].position;
      if (p < 0 || p > cache.length)
        throw_user("position ", p, " of a sequence of ", cache.length, " tokens");
      cache.length = p + 1;
      cache.k.resize(size_t(cache.length * h.kv * h.d));
      cache.v.resize(size_t(cache.length * h.kv * h.dv));
      std::copy_n(k + t * h.kv * h.d, h.kv * h.d, cache.k.end() - h.kv * h.d);
      std::copy_n(v + t * h.kv * h.dv, h.kv * h.dv, cache.v.end() - h.kv * h.dv);
    }
    attend_rows(q, h);
  }

  void attend_rows(const float* q, const Heads& h) {
    for (size_t t = 0; t < rows_.size(); t++)
      for (int64_t head = 0; head < h.q; head++)
        attend_head(q + (t * h.q + head) * h.d, cache_of(rows_[t]), rows_[t].position, head, h,
                    out().data.data() + (t * h.q + head) * h.dv);
  }

  void attend_head(const float* q, const Cache& cache, int64_t position, int64_t head, const Heads& h,
                   float* y) {
    int64_t window = op_->i64(AttrName::window), kv = head / (h.q / h.kv);
    int64_t first = window > 0 ? std::max<int64_t>(0, position + 1 - window) : 0;
    double scale = op_->f32(AttrName::scale), cap = op_->f32_or(AttrName::cap, 0);
    double alibi = op_->f32_or(AttrName::alibi, 0);
    double slope = alibi == 0 ? 0 : alibi_slope(alibi, head, h.q);
    const float* sinks = vector("sinks");
    const int64_t last = op_->i64_or(AttrName::ahead, 0) ? cache.length - 1 : position;
    std::vector<float> score;
    for (int64_t p = first; p <= last; p++)
      score.push_back(float(cap_of(float(scale * dot(q, &cache.k[(p * h.kv + kv) * h.d], h.d)), cap) -
                            slope * std::abs(double(position - p))));
    float top = *std::max_element(score.begin(), score.end());
    if (sinks) top = std::max(top, sinks[head]);
    double sum = sinks ? std::exp(double(sinks[head]) - top) : 0;
    for (float& s : score) sum += s = std::exp(s - top);
    for (int64_t p = first; p <= last; p++) {
      float share = float(score[p - first] / sum);
      const float* value = &cache.v[(p * h.kv + kv) * h.dv];
      for (int64_t i = 0; i < h.dv; i++) y[i] += share * value[i];
    }
  }

  // ---- Recurrences: row by row, over the states of the rows' sequences ----

  void recur() {
    Recurrence r{.op = *op_, .out = &out()};
    for (size_t i = 0; i < op_->inputs.size(); i++) r.in.push_back(&in(int(i)));
    for (const WeightUse& use : op_->weights) r.weights[slots(op_->kind)[use.slot].name] = whole(use.weight);
    if (op_->kind == OpKind::ssm_scan) r.decay_of_states = g_.weight(op_->one("a")->weight).shape.size() == 2;
    const State& state = g_.state(op_->state);
    for (size_t t = 0; t < rows_.size(); t++) {
      Cache& cache = cache_of(rows_[t]);
      const int64_t p = rows_[t].position;
      if (p != cache.length && p != 0)
        throw_user("position ", p, " of a sequence of ", cache.length,
                   " tokens: a recurrent state goes on, or begins anew");
      if (p == 0) cache.k.assign(size_t(state.recurrent_size()), 0);
      cache.length = p + 1;
      recur_row(r, state, int64_t(t), cache.k.data());
    }
  }

  // All of a weight of any shape; small ones, which are always kept.
  const float* whole(WeightId id) {
    auto& w = in_.weights_[id.index];
    const Weight& weight = g_.weight(id);
    const int64_t n = weight.shape.back();
    int64_t rows = 1;
    for (size_t i = 0; i + 1 < weight.shape.size(); i++) rows *= weight.shape[i];
    if (w.size() == size_t(rows * n)) return w.data();
    w.resize(size_t(rows * n));
    for (int64_t r = 0; r < rows; r++) in_.make_row(id, r, w.data() + r * n);
    return w.data();
  }

  Cache& cache_of(const Row& row) { return in_.caches_[{op_->state.index, row.sequence}]; }

  Interpreter& in_;
  const Graph& g_;
  std::span<const Row> rows_;
  std::vector<int64_t> outputs_;  // rows asked for
  std::vector<Tensor> values_;
  const Op* op_ = nullptr;
};

Interpreter::Interpreter(const Graph& g, ReadRow read, int64_t cache_bytes)
    : g_(g),
      read_(std::move(read)),
      cache_left_(cache_bytes),
      last_use_(g.values.size(), -1),
      weights_(g.weights.size()) {
  for (size_t i = 0; i < g.ops.size(); i++)
    for (ValueId v : g.ops[i].inputs) last_use_[v.index] = int32_t(i);
  for (ValueId v : g.outputs) last_use_[v.index] = int32_t(g.ops.size());
}

const float* Interpreter::cached(WeightId id) {
  auto& all = weights_[id.index];
  if (!all.empty()) return all.data();
  const Weight& w = g_.weight(id);
  int64_t n = w.shape.back(), rows = 1;
  for (size_t i = 0; i + 1 < w.shape.size(); i++) rows *= w.shape[i];
  if (rows > cache_left_ / 4 / n) return nullptr;
  cache_left_ -= rows * n * 4;
  all.resize(size_t(rows * n));
  for (int64_t r = 0; r < rows; r++) make_row(id, r, all.data() + r * n);
  return all.data();
}

void Interpreter::read_row(WeightId id, int64_t row, float* out) {
  const auto& all = weights_[id.index];
  if (all.empty()) return make_row(id, row, out);
  int64_t n = g_.weight(id).shape.back();
  std::copy_n(all.data() + row * n, n, out);
}

void Interpreter::make_row(WeightId id, int64_t row, float* out) {
  const Weight& w = g_.weight(id);
  if (w.source == Weight::Source::Tensor) return read_(w, row, out);
  std::vector<float> factors;
  const bool of_long = row >= w.table_rows();
  if (of_long) row -= w.table_rows();
  if (const std::string& name = of_long ? w.rope.long_factors : w.rope.factors; !name.empty()) {
    factors.resize(size_t(w.rope.dims / 2));
    read_({.name = name, .format = Format::F32, .shape = {w.rope.dims / 2}}, 0, factors.data());
  }
  int64_t step = w.source == Weight::Source::RopeCoarse ? w.rope.fine : 1;
  rope_row(w.rope.params(w.source), factors, row * step, out);
}

std::vector<Tensor> Interpreter::run(std::span<const Row> rows, const See& see) {
  if (rows.empty()) throw_user("a step needs a token");
  return Step(*this, rows).run(see);
}

}  // namespace gc::ir
