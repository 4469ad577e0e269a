// What ops do to one row, in plain f32: the arithmetic under the interpreter.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/ir.h"

namespace gc::ir {

// out[i] = x . w[i] for the four rows of w: [4, n].
void dot4(const float* x, const float* w, int64_t n, float* out);
float dot(const float* x, const float* y, int64_t n);
// Weights and biases may be null.
void rms_norm(const float* x, const float* weight, double eps, int64_t n, float* y);
void layer_norm(const float* x, const float* weight, const float* bias, double eps, int64_t n, float* y);
// Turns the leading pairs of one head by the angles' (cos, sin).
void turn(float* x, const float* cos_sin, int64_t dims, bool neox);
// x in place: exp(x - max) / sum
void softmax(std::vector<float>& x);
// Of op route, whose y is 0: a token's logits over n experts.
void route_row(const Op& op, const float* x, const float* bias, int64_t n, float* y);
// Of op route_by_token: `experts` is the token's row of the table.
void route_by_token_row(const Op& op, const float* x, const float* experts, int64_t n, float* y);
// y[j] = sum over i < from of (factors[j * from + i] + plus) * x[i], for j < to, rows of n.
void mix_row(const float* x, const float* factors, double plus, int64_t from, int64_t to, int64_t n,
             float* y);
// x, as long as `like`.
void rescale_row(const float* like, const float* x, int64_t n, float* y);
// n rows of n logits, see ops.def.
void sinkhorn_row(const float* x, int64_t n, double eps, int64_t rounds, float* y);
// max(0, x - mean - by * deviation)
void sparsify_row(const float* x, double by, int64_t n, float* y);
// cap * tanh(x / cap); without a cap x
float cap_of(float x, double cap);

}  // namespace gc::ir
