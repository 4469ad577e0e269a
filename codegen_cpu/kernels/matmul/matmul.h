// y[t, n] = sum over k of x[t, k] * w[n, k], w packed in panels of 16 rows (compiler/quant/layouts.h).
//
// Contract, the same bits on every ISA and for any number of rows or split into panels:
//   block formats, x quantized (act_layout.h): for each block of one scale (each 32 columns of a longer one), in order of columns,
//       y = fma(float(isum - offset * xsum), scale * d, y), then with a min y = fma(min, d * float(xsum), y)
//     where isum, xsum are exact integers, scale and min the block's as f32 (K-quants: their f32 products, min
//     negative), d the activation block's, and y starts at +0.
//   float formats, x in f32: y = fma(w[k], x[k], y) in order of k.
// reference.h is the contract as scalar code.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "codegen_cpu/emitter.h"
#include "compiler/ir/ir.h"
#include "compiler/quant/formats.h"

namespace gc::cpu {

struct MatmulSpec {
  Format format;
  std::int64_t k;
  ir::Elem input;  // Q16 or F32, as matmul_input says
};

// Formats that have kernels (kernels.def).
std::span<const Format> matmul_formats();
// What a product with weights of the format reads: Q16 for block formats (K a multiple of 32), F32 for float formats.
ir::Elem matmul_input(Format format);
// "matmul_q4_k_q16_640".
std::string matmul_name(const MatmulSpec& spec);

// void(panels, x, i64 x_stride, y, i64 y_stride, i64 n_panels, i64 n_rows): y[t][0 .. 16 n_panels) f32 for n_rows rows
// of x; strides in bytes, x and y 64-byte aligned with strides that are multiples of 64 (x in f32: of 4 suffices).
llvm::Function* matmul(Emitter& e, const MatmulSpec& spec);

// The same bits from a matrix of Q8_0 in two streams (compiler/quant/two_streams.h): void(upper, lower, x, i64 x_stride, y,
// i64 y_stride, i64 n_panels, i64 n_rows). From so many rows on it is faster than putting panels together first.
inline constexpr std::int64_t kTwoStreamRows = 2;
llvm::Function* two_stream_matmul(Emitter& e, std::int64_t k);

}  // namespace gc::cpu
