// The quantized activation (compiler/quant/activation.h: blocks of 32, value = d * q, |q| <= 32512) as kernels hold it
// in memory, and the code that makes it. A row of K values:
//
//   pairs   [K / 32][64 bytes]   s16[8 steps][x0, x2, x1, x3]: what products of 16-bit pairs want beside the even and
//                                the odd bytes of a step of the weights
//   meta    [K / 32] ActMeta
//   planes  [K / 32][64 bytes]   s8 high[32], s8 low[32], q = 256 * high + low: what products of bytes want. Only
//                                written (and read) on ISAs that have them
//
// rounded up to 64 bytes; the same size on every ISA. Both forms: codegen_cpu/vec/dot.h says which product wants which.
#pragma once

#include <cstdint>

#include "codegen_cpu/emitter.h"
#include "codegen_cpu/isa.h"

namespace gc::cpu {

struct ActMeta {
  float d;
  float d_sum;          // d * float(sum of the 32 q)
  std::int32_t sum[2];  // of q over columns 0-15 and 16-31
};
static_assert(sizeof(ActMeta) == 16);

// K is a multiple of 32.
constexpr std::int64_t act_meta_offset(std::int64_t k) { return k / 32 * 64; }
constexpr std::int64_t act_planes_offset(std::int64_t k) {
  return (act_meta_offset(k) + k / 32 * static_cast<std::int64_t>(sizeof(ActMeta)) + 63) / 64 * 64;
}
constexpr std::int64_t act_row_bytes(std::int64_t k) { return act_planes_offset(k) + k / 32 * 64; }

// Stores block `block` (i64, of a row of K values at `row`) from 32 f32 values in registers: x0 the first 16, x1 the
// others (<16 x float>, the vectors of codegen_cpu/vec).
void emit_quantize_block(Emitter& e, llvm::Value* row, std::int64_t k, llvm::Value* block, llvm::Value* x0,
                         llvm::Value* x1);

// void quantize_K(x, i64 x_stride, y, i64 y_stride, i64 rows): f32 rows to quantized rows; strides in bytes.
llvm::Function* quantize(Emitter& e, std::int64_t k);

}  // namespace gc::cpu
