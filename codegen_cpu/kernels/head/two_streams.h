// A head in two streams (compiler/quant/two_streams.h): greedy and top-k tokens from three quarters of its bytes, the
// same as from all of them, by proof.
//
// With x the activations of a row (integers q_i times d, in blocks of 32) and w a row of weights (s times u_i, integers),
// the upper bits give u_i to within 1.5 of their middle. So the logit lies within
//
//     reach = 1.5 * sum over blocks of |s| * d * sum_i |q_i|
//
// of the coarse one, c = sum over blocks of s * d * sum_i (coarse u_i) * q_i, whose integer sums are exact. The pass over
// the upper stream gives c - reach and c + reach for each row; the k-th greatest c - reach of all is a limit that k
// logits reach; only panels with a c + reach at the limit or above are put together and multiplied, by the kernel that
// multiplies whole matrices, so that their logits have its bits.
//
// The sum of |q_i| bounds the lower bits' product to within 7 % of the norms' product |x_b| |r_b| (Gaussian x: 6.77 |x_b|
// against 6.32), and needs no norms stored: 416 bytes of 544 are read a block of a panel, where norms would add 16.
//
// Float rounding is inside the proof. With u = 2^-24 and n blocks, either logit, summed in f32, is within
// (n + 3) u (1 + small) A of its real value, A = sum |s| d |isum| <= 128 / 1.5 reach since |u_i| <= 128; adding reach
// rounds once more. All errors are below 200 (n + 4) u reach, by which reach is widened (1e-30 stands for what is
// subnormal).
#pragma once

#include "codegen_cpu/emitter.h"

namespace gc::cpu {

// Panels put together at a time: a few hundred KB that stay in the second-level cache.
inline constexpr std::int64_t kJoinedPanels = 8;
// Panels whose bounds are given at a time: 4 KB.
inline constexpr std::int64_t kBoundPanels = 64;

// Bytes in a worker's scratch. What is behind `bytes` is free.
struct TwoStreamScratch {
  TwoStreamScratch(std::int64_t k, std::int64_t panels);
  std::int64_t joined, logits, reach, least, most, bytes;
};

// void(upper, lower, i64 panels, out): panels of the whole matrix from those of the streams, side by side.
llvm::Function* join_panels(Emitter& e, std::int64_t k);

// void(choice, i64 worker, upper, x, i64 lo, i64 hi, scratch): the bounds of panels [lo, hi) for the one row at x. `upper`:
// the stream's first panel.
llvm::Function* bound_logits(Emitter& e, std::int64_t k, std::int64_t panels);

// void(choice, i64 worker, upper, lower, x, i64 lo, i64 hi, scratch): after bound_logits() and a meeting, gives the logits
// of panels that can matter.
llvm::Function* take_logits(Emitter& e, std::int64_t k, std::int64_t panels);

// void(rows, upper, lower, y, i64 y_stride, i64 n_rows, scratch): row_decode() of the rows' tokens, times `scale`.
llvm::Function* embed_two_streams(Emitter& e, std::int64_t k, float scale);

}  // namespace gc::cpu
