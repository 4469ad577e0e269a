#include "compiler/ir/interpret.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "compiler/base/error.h"
#include "compiler/ir/interpret_step.h"
#include "compiler/ir/row_math.h"
#include "compiler/quant/activation.h"
#include "compiler/quant/rope_table.h"

namespace gc::ir {
namespace {

void quantize_in_place(Tensor& t) {
  for (size_t i = 0; i < t.data.size(); i += kActBlock) {
    ActBlock32 b = quantize_block32(&t.data[i]);
    for (int j = 0; j < kActBlock; j++) t.data[i + j] = b.d * b.q[j];
  }
}

// Ops of rows, without matrices or states.
class RowOps : StepOps {
 public:
  using StepOps::StepOps;

  void eval() {
    const Op& op = op_;
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
      case OpKind::slice:
        return slice();
      case OpKind::heads:
      case OpKind::merge_heads:
        out().data = in(0).data;
        return;
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
      case OpKind::dot_heads:
        for (int64_t i = 0; i < in(0).rows(); i++)
          out().data[size_t(i)] = dot(in(0).row(i), in(1).row(i), in(0).last());
        return;
      case OpKind::act:
        return each([fn = op.fn()](float x) { return apply(fn, x); });
      case OpKind::softcap:
        return each([cap = op.f32(AttrName::cap)](float x) { return cap_of(x, cap); });
      case OpKind::slice_heads:
        return slice();
      case OpKind::concat_heads:
        return concat_heads();
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
      case OpKind::sinkhorn:
        return each_row([&](const float* x, float* y, int64_t) {
          sinkhorn_row(x, op.i64(AttrName::heads), op.f32(AttrName::eps), op.i64(AttrName::rounds), y);
        });
      case OpKind::sparsify:
        return each_row(
            [&](const float* x, float* y, int64_t n) { sparsify_row(x, op.f32(AttrName::by), n, y); });
      case OpKind::concat:
        return concat();
      case OpKind::select:
        for (size_t r = 0; r < step_.outputs().size(); r++)
          copy_outer(in(0), step_.outputs()[r], out(), int64_t(r));
        return;
      case OpKind::route:
        return each_row([&, bias = vector("bias")](const float* x, float* y, int64_t n) {
          route_row(op, x, bias, n, y);
        });
      case OpKind::route_by_token:
        return route_by_token();
      case OpKind::quantize:
        out().data = in(0).data;
        return quantize_in_place(out());
      case OpKind::glu:
        return each2([fn = op.fn()](float a, float b) { return apply(fn, a) * b; });
      case OpKind::residual_norm:
        return residual_norm();
      case OpKind::matmul:
      case OpKind::matmul_heads:
      case OpKind::matmul_glu:
      case OpKind::experts_in:
      case OpKind::experts_out:
        return interpret_product(step_);
      case OpKind::rope:
      case OpKind::attention:
      case OpKind::attention_again:
      case OpKind::attention_sums:
      case OpKind::attention_chosen:
      case OpKind::choose_positions:
      case OpKind::attn_block:
      case OpKind::ngram_embed:
      case OpKind::compress:
      case OpKind::conv:
      case OpKind::ssm_scan:
      case OpKind::delta_rule:
      case OpKind::decay_attention:
      case OpKind::token_shift:
      case OpKind::wkv:
      case OpKind::wkv7:
        return interpret_state(step_);
    }
  }

 private:
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
    WeightId table = op_.one("table")->weight;
    float scale = float(op_.f32_or(AttrName::scale, 1));
    for (size_t t = 0; t < rows_.size(); t++) {
      int64_t token = rows_[t].token;
      if (token < 0 || token >= g_.weight(table).shape[0])
        throw_user("token ", token, " is not in the vocabulary");
      step_.read_row(table, token, out().row(int64_t(t)));
      for (int64_t i = 0; i < out().last(); i++) out().row(int64_t(t))[i] *= scale;
    }
  }

  void embed_position() {
    WeightId table = op_.one("table")->weight;
    for (size_t t = 0; t < rows_.size(); t++) {
      int64_t position = rows_[t].position;
      if (position < 0 || position >= g_.weight(table).shape[0])
        throw_user("position ", position, " is past the table of positions");
      step_.read_row(table, position, out().row(int64_t(t)));
    }
  }

  void route_by_token() {
    WeightId table = op_.one("table")->weight;
    std::vector<float> experts(size_t(op_.i64(AttrName::used)));
    for (size_t t = 0; t < rows_.size(); t++) {
      const int64_t token = rows_[t].token;
      if (token < 0 || token >= g_.weight(table).shape[0])
        throw_user("token ", token, " is not in the table of experts");
      step_.read_row(table, token, experts.data());
      route_by_token_row(op_, in(0).row(int64_t(t)), experts.data(), in(0).last(), out().row(int64_t(t)));
    }
  }

  void weigh() {
    WeightId id = op_.one("weight")->weight;
    const float* w = step_.whole(id);
    const bool inverse = op_.i64_or(AttrName::inverse, 0) != 0;
    const int64_t n = in(0).last(), neighbours = n / g_.weight(id).shape[0];
    for (int64_t r = 0; r < in(0).rows(); r++)
      for (int64_t i = 0; i < n; i++) {
        const float by = w[i / neighbours];
        out().row(r)[i] = inverse ? in(0).row(r)[i] / by : in(0).row(r)[i] * by;
      }
  }

  void temper() {
    const int64_t period = op_.i64(AttrName::period), offset = op_.i64_or(AttrName::offset, 0);
    const int64_t each = int64_t(in(0).data.size()) / in(0).dims[0];
    for (size_t t = 0; t < rows_.size(); t++) {
      const int64_t periods = (rows_[t].position + offset) / period;
      const float by = float(1 + op_.f32(AttrName::by) * std::log(1 + double(periods)));
      for (int64_t i = int64_t(t) * each; i < int64_t(t + 1) * each; i++) out().data[i] = in(0).data[i] * by;
    }
  }

  void mul_heads() {
    const int64_t d = in(0).last();
    for (size_t i = 0; i < out().data.size(); i++) out().data[i] = in(0).data[i] * in(1).data[i / size_t(d)];
  }

  void slice() {
    int64_t begin = op_.i64(AttrName::begin), n = out().last();
    for (int64_t i = 0; i < out().rows(); i++) std::copy_n(in(0).row(i) + begin, n, out().row(i));
  }

  void concat() {
    int64_t a = in(0).last(), b = in(1).last();
    for (int64_t i = 0; i < out().rows(); i++) {
      std::copy_n(in(0).row(i), a, out().row(i));
      std::copy_n(in(1).row(i), b, out().row(i) + a);
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
    double eps = op_.f32(AttrName::eps);
    int64_t n = in(0).last();
    std::vector<float> branch(static_cast<size_t>(n));
    for (int64_t t = 0; t < in(0).rows(); t++) {
      std::copy_n(in(1).row(t), n, branch.data());
      if (post) rms_norm(in(1).row(t), post, eps, n, branch.data());
      for (int64_t i = 0; i < n; i++) out(0).row(t)[i] = in(0).row(t)[i] + branch[i];
      rms_norm(out(0).row(t), pre, eps, n, out(1).row(t));
    }
  }
};

}  // namespace

Interpreter::Step::Step(Interpreter& in, std::span<const Row> rows)
    : in_(in), rows_(rows), values_(in.g_.values.size()) {
  for (size_t i = 0; i < rows.size(); i++)
    if (rows[i].output) outputs_.push_back(int64_t(i));
}

std::vector<Tensor> Interpreter::Step::run(const See& see) {
  for (size_t i = 0; i < graph().ops.size(); i++) {
    op_ = &graph().ops[i];
    for (ValueId v : op_->results) make(v);
    eval();
    if (op_->out() == Elem::Q16) quantize_in_place(values_[op_->results.back().index]);
    for (ValueId v : op_->results)
      if (see) see(graph().value(v).name, values_[v.index]);
    for (ValueId v : op_->inputs)
      if (in_.last_use_[v.index] == int32_t(i)) values_[v.index] = {};
  }
  std::vector<Tensor> out;
  out.reserve(graph().outputs.size());
  for (ValueId v : graph().outputs) out.push_back(values_[v.index]);
  return out;
}

int64_t Interpreter::Step::size(const Dim& d) const {
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

void Interpreter::Step::make(ValueId v) {
  Tensor& t = values_[v.index];
  int64_t n = 1;
  for (const Dim& d : graph().value(v).type.dims) {
    t.dims.push_back(size(d));
    n *= t.dims.back();
  }
  t.data.assign(size_t(n), 0.0f);
}

void Interpreter::Step::eval() { RowOps(*this).eval(); }

const float* Interpreter::Step::whole(WeightId id) {
  auto& w = in_.weights_[id.index];
  const Weight& weight = graph().weight(id);
  const int64_t n = weight.shape.back();
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < weight.shape.size(); i++) rows *= weight.shape[i];
  if (w.size() == size_t(rows * n)) return w.data();
  w.resize(size_t(rows * n));
  for (int64_t r = 0; r < rows; r++) in_.make_row(id, r, w.data() + r * n);
  return w.data();
}

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
