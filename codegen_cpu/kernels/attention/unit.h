// What the attention kernels share: the type's name, rows and blocks of the step, elements of the KV type, and the
// record of a range.
#pragma once

#include "codegen_cpu/kernels/attention/attention.h"

namespace gc::cpu {

// The result of a range of one unit, for the heads of its group:
//   m [padded group], l [padded group], o [group][v_dim], all f32; padded to 16.
struct PartialLayout {
  std::int64_t l, o, bytes;  // offsets
};
PartialLayout partial_layout(const AttnSpec& spec);

// "attn_4x256_kv1x256_w512_..." without what doesn't matter to `kernel`.
std::string attn_name(const char* kernel, const AttnSpec& spec);

// A unit of the step: i64 values.
struct Unit {
  llvm::Value* row;      // index
  llvm::Value* kv_head;  // index
  llvm::Value* pos;
  llvm::Value* lo;   // the first position seen
  llvm::Value* seq;  // index
};
Unit emit_unit(Emitter& e, const AttnSpec& spec, llvm::Value* step, llvm::Value* unit);

// The blocks of a unit's sequence and head.
struct Blocks {
  llvm::Value* table;  // u32[n]
  llvm::Value* n;      // i64
  llvm::Value* base;   // of the head in physical block 0
  llvm::Value* bytes;  // i64, from block to block
};
Blocks emit_blocks(Emitter& e, const AttnSpec& spec, const Args& a, const Unit& unit);
// The head's memory in logical block `block` (i64).
llvm::Value* emit_block(Emitter& e, const AttnSpec& spec, const Blocks& blocks, llvm::Value* block);

// 16 elements of the KV type as f32.
llvm::Value* load_kv(Vec& v, int kv_type, llvm::Value* p, int count = Vec::kLanes);
void store_kv(Vec& v, int kv_type, llvm::Value* x, llvm::Value* p, int count = Vec::kLanes);
// Lane i to p + i * stride, as elements of the KV type.
void scatter_kv(Vec& v, int kv_type, llvm::Value* x, llvm::Value* p, std::int64_t stride, int count);

// y[dim] = turned(norm(x)) * by; norm_w null: no norm; by null: 1.
void emit_head(Vec& v, const AttnSpec& spec, const Angles& angles, llvm::Value* x, llvm::Value* norm_w,
               llvm::Value* y, llvm::Value* by);

// void(q, p, partial, table, i64 n, base, i64 block_bytes, i64 lo, i64 hi, i64 pos, i64 kv_head): the record of positions
// [lo, hi), which lie in one range, for the row at pos. q: f32[group][k_dim] ready for the product; p: f32[group][64]
// scratch.
llvm::Function* attn_range(Emitter& e, const AttnSpec& spec);

}  // namespace gc::cpu
