// How keys and values lie in memory; the one place that says so. A KV block holds GC_KV_BLOCK = 64 consecutive
// positions of one state (runtime/abi/program.h), from the state's offset on:
//
//   for each kv head:   K [k_dim][64 positions], then V [64 positions][v_dim]
//
// in the KV type's elements, nothing between. Keys have the position innermost, so that 16 scores are 16 lanes and no
// product is summed across lanes; values have the dimension innermost for the same reason.
//
// bf16: in pairs of what is summed over, K [k_dim / 2][64 positions][2 dimensions], V [32][v_dim][2 positions], as
// instructions that multiply bf16 want their second operand: 16 rows of 64 bytes are a matrix tile as they lie. The two
// positions of a pair may be written by two workers at a time, so a value is stored element by element (or by masked
// stores), never as a changed pair.
//
// q8_0: 32 dimensions of one position share an f16 scale; a value is scale x (byte - 128), the byte unsigned. In quads of
// what is summed over, K u8[ceil(k_dim / 4)][64 positions][4 dimensions], V u8[16][v_dim][4 positions], as integer products
// want their weights (codegen_cpu/vec/dot.h: 64 bytes are a step). The scales lie behind the elements of each part, of keys
// and of values f16[ceil(dim / 32)][64 positions]: apart, so that both are read as whole vectors.
//
// A physical block of a group: pools[group] + blocks[entry] * block_bytes, entry = logical block (mod n of a ring).
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/abi/program.h"

namespace gc::cpu {

inline constexpr std::int64_t kKvScaleBlock = 32;  // dimensions of a scale

// Bytes of an element, without its share of a scale.
constexpr std::int64_t kv_element_bytes(int kv_type) {
  constexpr std::int64_t bytes[GC_KV_TYPES] = {4, 2, 2, 1};
  return bytes[kv_type];
}

constexpr std::string_view kv_type_name(int kv_type) {
  constexpr std::string_view names[GC_KV_TYPES] = {"f32", "f16", "bf16", "q8_0"};
  return names[kv_type];
}

// How many elements of what is summed over lie together.
constexpr std::int64_t kv_together(int kv_type) {
  constexpr std::int64_t elements[GC_KV_TYPES] = {1, 1, 2, 4};
  return elements[kv_type];
}
constexpr bool kv_in_pairs(int kv_type) { return kv_together(kv_type) == 2; }

// What a byte of q8_0 is more than its value.
inline constexpr int kKvByteOffset = 128;

// Scales of one position's key or value; 0 for types without.
constexpr std::int64_t kv_scales(std::int64_t dim, int kv_type) {
  return kv_type == GC_KV_Q8_0 ? (dim + kKvScaleBlock - 1) / kKvScaleBlock : 0;
}
// Where the scales of a part begin.
constexpr std::int64_t kv_scales_offset(std::int64_t dim, int kv_type) {
  const std::int64_t whole = kv_scales(dim, kv_type) == 0 ? dim : (dim + 3) / 4 * 4;
  return GC_KV_BLOCK * whole * kv_element_bytes(kv_type);
}

// Of the K part or the V part, of one head, of a whole state in a block.
constexpr std::int64_t kv_part_bytes(std::int64_t dim, int kv_type) {
  return kv_scales_offset(dim, kv_type) + GC_KV_BLOCK * 2 * kv_scales(dim, kv_type);
}
constexpr std::int64_t kv_head_bytes(std::int64_t k_dim, std::int64_t v_dim, int kv_type) {
  return kv_part_bytes(k_dim, kv_type) + kv_part_bytes(v_dim, kv_type);
}
constexpr std::int64_t kv_state_bytes(std::int64_t heads, std::int64_t k_dim, std::int64_t v_dim,
                                      int kv_type) {
  return heads * kv_head_bytes(k_dim, v_dim, kv_type);
}

}  // namespace gc::cpu
