// Attention in double over one sequence's tokens, from its definition (ops.def: attn_block), for tests. Keys and values
// are rounded to the KV type after norm and RoPE, as they are stored.
#pragma once

#include <vector>

#include "codegen_cpu/kernels/attention/attention.h"

namespace gc::cpu {

struct AttnWeights {
  const float* q_norm = nullptr;  // [k_dim]
  const float* k_norm = nullptr;
  const float* sinks = nullptr;  // [heads]
  const float* bias = nullptr;   // [buckets][heads]
  double rope_base = 10000;
};

// x: [tokens][heads k_dim | kv_heads k_dim | kv_heads v_dim] at positions 0, 1, ...; the result [tokens][heads v_dim], or with
// sums [tokens][heads v_dim | heads].
std::vector<double> attn_reference(const AttnSpec& spec, const AttnWeights& weights, const float* x,
                                   std::int64_t tokens);

// x[n] as it is read back from the KV type.
void kv_round(int kv_type, double* x, std::int64_t n);

}  // namespace gc::cpu
