// Ops with matrices: products, of all rows or of the experts that routing weights name.
#include <algorithm>
#include <string_view>
#include <vector>

#include "compiler/base/error.h"
#include "compiler/ir/interpret_step.h"
#include "compiler/ir/row_math.h"

namespace gc::ir {
namespace {

constexpr int kRowsAtOnce = 4;

class Products : StepOps {
 public:
  using StepOps::StepOps;

  void matmul() {
    auto rows = op_.slot("rows"), bias = op_.slot("bias");
    multiply(in(0), rows, out());
    int64_t first = 0;
    for (size_t s = 0; s < bias.size(); s++) {
      int64_t n = row_count(g_, rows[s]);
      if (bias[s].weight.valid()) {
        const float* b = step_.whole(bias[s].weight) + bias[s].row_begin;
        for (int64_t t = 0; t < out().rows(); t++)
          for (int64_t i = 0; i < n; i++) out().row(t)[first + i] += b[i];
      }
      first += n;
    }
  }

  void matmul_glu() {
    Tensor gate = out();
    multiply(in(0), op_.slot("gate"), gate);
    multiply(in(0), op_.slot("up"), out());
    Fn fn = op_.fn();
    for (size_t i = 0; i < gate.data.size(); i++) out().data[i] *= apply(fn, gate.data[i]);
  }

  void matmul_heads() {
    const WeightId id = op_.one("matrices")->weight;
    const int64_t heads = in(0).dims[1], n = out().last();
    std::vector<float> y;
    for (int64_t h = 0; h < heads; h++)
      for (int64_t t = 0; t < in(0).dims[0]; t++) {
        multiply_rows(id, h * n, n, in(0).row(t * heads + h), y);
        std::copy_n(y.data(), n, out().row(t * heads + h));
      }
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

  void experts_out() {
    const Tensor& routing = in(1);
    const int64_t used = in(0).dims[1];
    const bool weigh = op_.i64_or(AttrName::weigh, 0) != 0;
    std::vector<float> part;
    for (int64_t t = 0; t < routing.rows(); t++) {
      int64_t j = 0;
      for (int64_t e = 0; e < routing.last() && j < used; e++) {
        const float w = routing.row(t)[e];
        if (w == 0) continue;
        multiply_expert("down", "", "bias", e, in(0).row(t * used + j++), part);
        for (size_t i = 0; i < part.size(); i++) out().row(t)[i] += (weigh ? w : 1) * part[i];
      }
    }
  }

 private:
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
    const float* all = step_.cached(use.weight);
    std::vector<float> buffer(all ? 0 : size_t(kRowsAtOnce * k));
    for (int64_t n = 0; n < count; n += kRowsAtOnce) {
      int64_t here = std::min<int64_t>(kRowsAtOnce, count - n);
      const float* w = all ? all + (use.row_begin + n) * k : nullptr;
      if (!all) {
        for (int64_t i = 0; i < here; i++) step_.read_row(use.weight, use.row_begin + n + i, &buffer[i * k]);
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

  // y[n] = rows [row, row + count) of a stack of matrices . x
  void multiply_rows(WeightId id, int64_t row, int64_t count, const float* x, std::vector<float>& y) {
    const int64_t k = g_.weight(id).shape.back();
    const float* all = step_.cached(id);
    std::vector<float> buffer(all ? 0 : size_t(k));
    y.resize(size_t(count));
    for (int64_t n = 0; n < count; n++) {
      if (!all) step_.read_row(id, row + n, buffer.data());
      y[n] = dot(x, all ? all + (row + n) * k : buffer.data(), k);
    }
  }

  // An expert's product of x with its factor (scale may be "") and its bias, in the slots of these names.
  void multiply_expert(std::string_view matrix, std::string_view scale, std::string_view bias, int64_t expert,
                       const float* x, std::vector<float>& y) {
    const WeightId id = op_.one(matrix)->weight;
    const int64_t rows = g_.weight(id).shape[1];
    multiply_rows(id, expert * rows, rows, x, y);
    if (auto s = scale.empty() ? std::nullopt : op_.one(scale)) {
      const float by = step_.whole(s->weight)[size_t(expert)];
      for (float& v : y) v *= by;
    }
    auto b = op_.one(bias);
    if (!b) return;
    std::vector<float> add(static_cast<size_t>(rows));
    step_.read_row(b->weight, expert, add.data());
    for (int64_t i = 0; i < rows; i++) y[i] += add[i];
  }

  void expert_in(int64_t expert, const float* x, float weight, float* y) {
    const bool joined = op_.i64_or(AttrName::joined, 0) != 0;
    const bool gated = joined || op_.one("gate"), limited = op_.has(AttrName::limit);
    const bool behind = op_.i64_or(AttrName::limit_out, 0) != 0;
    const float by = op_.i64_or(AttrName::weigh, 0) ? weight : 1;
    const float limit = float(op_.f32_or(AttrName::limit, 0)), add = float(op_.f32_or(AttrName::up_add, 0));
    const double gate_cap = op_.f32_or(AttrName::gate_cap, 0), up_cap = op_.f32_or(AttrName::up_cap, 0);
    std::vector<float> up, gate;
    multiply_expert("up", "up_scale", "up_bias", expert, x, up);
    if (joined) {
      gate.assign(up.begin(), up.begin() + std::ptrdiff_t(up.size() / 2));
      up.erase(up.begin(), up.begin() + std::ptrdiff_t(gate.size()));
    } else if (gated) {
      multiply_expert("gate", "gate_scale", "gate_bias", expert, x, gate);
    }
    for (size_t i = 0; i < up.size(); i++) {
      float u = by * up[i];
      if (!gated) {
        y[i] = apply(op_.fn(), u);
        continue;
      }
      float g = by * gate[i];
      if (limited) u = std::clamp(u, -limit, limit);
      if (limited && !behind) g = std::min(g, limit);
      u = cap_of(u, up_cap);
      g = (gate_cap > 0 ? cap_of(g, gate_cap) : 1) * apply(op_.fn(), g);
      if (limited && behind) g = std::min(g, limit);
      y[i] = g * (u + add);
    }
  }
};

}  // namespace

void interpret_product(Interpreter::Step& step) {
  Products products(step);
  const OpKind kind = step.op().kind;
  if (kind == OpKind::matmul) return products.matmul();
  if (kind == OpKind::matmul_glu) return products.matmul_glu();
  if (kind == OpKind::matmul_heads) return products.matmul_heads();
  if (kind == OpKind::experts_in) return products.experts_in();
  GC_CHECK(kind == OpKind::experts_out, "no product: ", info(kind).name);
  products.experts_out();
}

}  // namespace gc::ir
