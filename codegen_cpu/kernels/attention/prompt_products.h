// The two products of prompt.cc, of bf16 with sums in f32: on matrix tiles (AMX), else by vdpbf16ps. What differs between
// the two is here and nowhere else; they sum in different orders, so an ISA has one of them.
#pragma once

#include "codegen_cpu/emitter.h"

namespace gc::cpu {

inline constexpr std::int64_t kStrip = 32;      // queries
inline constexpr std::int64_t kKeys = 32;       // of a group
inline constexpr std::int64_t kAttnRun = 256;   // positions that a sum is as long as
inline constexpr std::int64_t kLinesAhead = 8;  // prefetched with 32 dimensions of a group's keys
// A line more than the keys: strides that are powers of two would share sets of the cache.
inline constexpr std::int64_t kScoreStride = kAttnRun * 4 + 64, kWeightStride = kAttnRun * 2 + 64;
inline constexpr std::int64_t kProductBytes = kStrip * 32 * 4;

// Queries come in whole numbers of these: what the products take at once.
std::int64_t prompt_query_step(const Isa& isa);

// "attn_prompt_scores_DIM": void(q, keys, s, i64 queries, ahead, i64 stride): s, f32 kScoreStride apart, are the scores of the
// first queries of a strip, bf16 [32][k_dim], and a group of keys as they lie in a block. Meanwhile every `stride` bytes of
// what is ahead are prefetched.
llvm::Function* prompt_scores(Emitter& e, std::int64_t k_dim);

// "attn_prompt_values_DIM": void(p, values, i64 at, i64 n, i64 queries, product, o, alpha): 32 dimensions of o, f32
// [32][v_dim], become o alpha + the weights of a strip, bf16 kWeightStride apart, for `n` groups times their values: rows of
// the first queries. `values`: where those of each group lie and one pointer more; `at`: bytes to the first dimension;
// `product`: kProductBytes of scratch.
llvm::Function* prompt_values(Emitter& e, std::int64_t v_dim);

}  // namespace gc::cpu
