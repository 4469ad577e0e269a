// What the attention kernels share: the type's name, rows and blocks of the step, and the record of a range.
#pragma once

#include "codegen_cpu/kernels/attention/attention.h"

namespace gc::cpu {

// The result of a range for n queries, such as the heads of a unit's group:
//   m [padded n], l [padded n], o [n][v_dim], all f32; padded to 16.
struct PartialLayout {
  std::int64_t l, o, bytes;  // offsets
};
PartialLayout partial_layout(std::int64_t queries, std::int64_t v_dim);

// A head's biases by distance, from kBiasCentre before the query on: all within reach, with a block's room on either side
// for blocks beyond it.
inline constexpr std::int64_t kBiasCentre = ir::kBucketReach + GC_KV_BLOCK;
inline constexpr std::int64_t kBiasFloats = kBiasCentre + ir::kBucketReach + GC_KV_BLOCK;

// "attn_4x256_kv1x256_w512_..." without what doesn't matter to `kernel`.
std::string attn_name(const char* kernel, const AttnSpec& spec);

// A unit of the step: i64 values.
struct Unit {
  llvm::Value* row;        // index
  llvm::Value* kv_head;    // index
  llvm::Value* at;         // the row's position
  llvm::Value* pos;        // the same, or the last compressed row that is there; 0 where there is none:
  llvm::Value* none;       // i1, of compressed states
  llvm::Value *lo, *last;  // positions seen
  llvm::Value* seq;        // index
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

// y[dim] = turned(norm(x)) * by; norm_w null: no norm; by null: 1.
void emit_head(Vec& v, const AttnSpec& spec, const Angles& angles, llvm::Value* x, llvm::Value* norm_w,
               llvm::Value* y, llvm::Value* by);

// The unit's queries, ready for the product, into q [group][k_dim]. Args: q, qs, q_norm_w, rope_fine, rope_coarse.
void emit_queries(Vec& v, const AttnSpec& spec, const Args& a, const Unit& unit, const Angles& angles,
                  llvm::Value* q);

// void(total, part, i64 n): the first n of `queries` in the records: total becomes that of both, in this order.
llvm::Function* attn_join(Emitter& e, std::int64_t queries, std::int64_t v_dim);

// The unit's part of y: o / l, the sinks added to l, from a record's m, l and o of the group; and its sums, if the spec
// asks for them. Args: sinks, y, ys.
void emit_finish(Vec& v, const AttnSpec& spec, const Args& a, const Unit& unit, llvm::Value* maxima,
                 llvm::Value* sums, llvm::Value* values);

// void(q, p, partial, table, i64 n, base, i64 block_bytes, i64 lo, i64 hi, i64 pos, i64 kv_head, wide, bias, chosen): the
// record of positions [lo, hi), which lie in one range, for the row at pos; with spec.chosen [lo, hi) of those listed. q:
// f32[group][k_dim] ready for the product; p: f32[group][64] and wide: attn_wide_bytes() scratch, of spec.ints with the
// queries in it (int_products.h).
llvm::Function* attn_range(Emitter& e, const AttnSpec& spec);
std::int64_t attn_wide_bytes(const AttnSpec& spec);

}  // namespace gc::cpu
