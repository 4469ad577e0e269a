// How keys and values lie in memory; the one place that says so. A KV block holds GC_KV_BLOCK = 64 consecutive
// positions of one state (runtime/abi/program.h), from the state's offset on:
//
//   for each kv head:   K [k_dim][64 positions], then V [64 positions][v_dim]
//
// in the KV type's elements, nothing between. Keys have the position innermost, so that 16 scores are 16 lanes and no
// product is summed across lanes; values have the dimension innermost for the same reason.
//
// A physical block of a group: pools[group] + blocks[entry] * block_bytes, entry = logical block (mod n of a ring).
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/abi/program.h"

namespace gc::cpu {

// Bytes of an element; 0 where there are no kernels for the type.
constexpr std::int64_t kv_element_bytes(int kv_type) {
  switch (kv_type) {
    case GC_KV_F32:
      return 4;
    case GC_KV_F16:
    case GC_KV_BF16:
      return 2;
    default:
      return 0;  // q8_0: blocks of 32 and their scales need a layout of their own
  }
}

constexpr std::string_view kv_type_name(int kv_type) {
  constexpr std::string_view names[GC_KV_TYPES] = {"f32", "f16", "bf16", "q8_0"};
  return names[kv_type];
}

// Of the K part, of one head, of a whole state in a block.
constexpr std::int64_t kv_keys_bytes(std::int64_t k_dim, int kv_type) {
  return GC_KV_BLOCK * k_dim * kv_element_bytes(kv_type);
}
constexpr std::int64_t kv_head_bytes(std::int64_t k_dim, std::int64_t v_dim, int kv_type) {
  return GC_KV_BLOCK * (k_dim + v_dim) * kv_element_bytes(kv_type);
}
constexpr std::int64_t kv_state_bytes(std::int64_t heads, std::int64_t k_dim, std::int64_t v_dim,
                                      int kv_type) {
  return heads * kv_head_bytes(k_dim, v_dim, kv_type);
}

}  // namespace gc::cpu
