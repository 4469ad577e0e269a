// Elements of the KV types (codegen_cpu/kv_layout.h): one position in, 16 of them or a whole block out.
//
// Elements are widened to f32 before any product, q8_0 with its scale, which is exact (11 x 7 bits): in registers by
// kernels of a row, in scratch by kernels of many rows, which pay for it once for all of them, and of q8_0 by all. The
// products see the same values either way. (Integer products read q8_0 as it lies: int_products.h.)
#pragma once

#include <utility>

#include "codegen_cpu/kernels/attention/attention.h"
#include "codegen_cpu/vec/vec.h"

namespace gc::cpu {

// In quads, with scales.
constexpr bool kv_has_scales(int kv_type) { return kv_type == GC_KV_Q8_0; }

// 16 elements as f32; `count` < 16: the first of them, the others 0. Only for types whose elements lie alone.
llvm::Value* load_kv(Vec& v, int kv_type, llvm::Value* p, int count = Vec::kLanes);

// 16 pairs as f32: their first elements and their second ones.
std::pair<llvm::Value*, llvm::Value*> load_pairs(Vec& v, llvm::Value* p, int count = Vec::kLanes);

// 16 quads as f32, before their scales: first elements, second ones, ...
Vec::Values load_quads(Vec& v, llvm::Value* p, int count = Vec::kLanes);
// Where the scales of 32 dimensions of a part of keys or values of `dim` are, from dimension `first` on: f16[64].
llvm::Value* kv_scales_at(Emitter& e, llvm::Value* part, std::int64_t dim, llvm::Value* first);
// The values of positions slot .. slot + 3 of a type with scales, `slot` a multiple of 4, from dimension `at` on.
Vec::Values load_scaled_values(Vec& v, const AttnSpec& spec, llvm::Value* values, llvm::Value* slot,
                               llvm::Value* at, int count = Vec::kLanes);

// The key x [k_dim] or value x [v_dim], f32, of position `slot` of a block into its part.
void store_key(Vec& v, const AttnSpec& spec, llvm::Value* x, llvm::Value* keys, llvm::Value* slot);
void store_value(Vec& v, const AttnSpec& spec, llvm::Value* x, llvm::Value* values, llvm::Value* slot);

// void(table, base, i64 block_bytes, chosen, i64 n, out): keys and values of the positions f32 chosen[n], n <= 64, as
// positions 0 to n - 1 of a head's block at `out`. table, base and block_bytes are those of Blocks (unit.h), not of a ring.
llvm::Function* attn_gather(Emitter& e, const AttnSpec& spec);

// void(keys, begin, end, wide): dimensions [begin, end) of a block's keys as f32 [end - begin][64]; begin is a multiple
// of 32.
llvm::Function* attn_widen_keys(Emitter& e, const AttnSpec& spec);

}  // namespace gc::cpu
