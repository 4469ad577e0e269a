// Attention over KV blocks (codegen_cpu/kv_layout.h), with the norms of q and k over each head and RoPE in front.
//
// For a row at position pos of its sequence and query head h of kv head h / group:
//   q = turned(norm(q)) * scale;  s[p] = cap(q . k[p]) - slope (pos - p);  y = sum_p softmax_p(s) v[p],
// lo <= p <= pos (with `ahead`: the last position of the sequence in the step), lo = max(0, pos - window + 1) with a window, else 0; slope: ALiBi's of h, or 0; a sink adds exp(sink)
// to the softmax' denominator.
//
// The order of the arithmetic is a function of pos alone, so a row has the same bits in any company, chunk or split:
//   - positions are cut into ranges of kAttnRange = 512, ranges into blocks of 64, at absolute multiples;
//   - a range gives (m, l, o[v_dim]): the largest score, sum of exp(s - m), sum of exp(s - m) v[p], online over its
//     blocks in order, each block's scores by f32 FMA over k_dim in order, its values by f32 FMA over p in order;
//     masked positions of a block have exp(-inf) = 0 and are neutral to the bit, masked blocks are skipped;
//   - ranges are merged in order: m' = max(m, n), l' = fma(l_n, exp(n - m'), l exp(m - m')), o' likewise.
// Query heads of a group share the loads of keys and values.
//
// Compressed states (`every`) keep one row of that many positions: position p above is then the number of such a row, and
// the row at pos stands at (pos + 1) / every - 1, the last one that is there. With `sums` a row of y has behind its values
// for each head log(l) + m, of the whole with the sink; where nothing is there yet values 0 and kNoSum.
//
// With `chosen` a row whose position is that or more sees only so many positions, listed for it (choose.h), which count as
// positions 0, 1, ... above: a block of 64 of them is gathered, side by side, before it is multiplied as any other. Rows
// before that see all, as without. Keys have the position innermost, so that a position's key is an element of 4 bytes
// (f16: 2) in each of many lines, of which gathering reads the whole: by count, not measured, a token at position 100,000
// that sees 2,048 reads a fifth (bf16) to a third (f16) of what all would be, and multiplies a fiftieth.
//
// With spec.bf16, for prompt rows, the order and the rounding are another (prompt.cc), and so are they with spec.ints, for
// generated rows, within a block (int_products.h); again a function of pos alone.
//
// Kernels: attn_append stores keys and values of the step's rows (all rows before any attention of the step, with a
// barrier between). attn does whole rows. For few rows, without spec.bf16, over long contexts attn_split does single ranges, on any
// workers, and attn_merge the rest: the bits are those of attn.
#pragma once

#include <algorithm>
#include <string>

#include "codegen_cpu/emitter.h"
#include "codegen_cpu/kernels/rope/rope.h"
#include "compiler/ir/ir.h"
#include "runtime/abi/program.h"

namespace gc::cpu {

inline constexpr std::int64_t kAttnRange = 512;
inline constexpr float kNoSum = -1e30f;

struct AttnSpec {
  std::int64_t heads, kv_heads, k_dim, v_dim;
  std::int64_t window = 0;  // 0: all
  float scale = 1;
  float cap = 0;  // 0: none
  bool ahead =
      false;  // rows see all positions of their sequence that the step has, later ones too: `window` of them either way
  float alibi = 0;           // largest exponent of ALiBi's slopes (ir::alibi_slope), 0: none
  std::int64_t buckets = 0;  // of distances (ir::distance_bucket), which the scores have biases of; 0: none
  bool q_norm = false, k_norm = false, sinks = false;
  float eps = 0;  // of the norms
  RopeSpec rope;  // dims 0: none
  int kv_type = GC_KV_F16;
  bool bf16 = false;        // prompt rows by products of bf16, where attn_has_bf16
  bool ints = false;        // generated rows by integer products, where attn_has_ints
  bool ring = false;        // the state's table is a ring
  bool sums = false;        // out is F32
  std::int64_t chosen = 0;  // positions that a row sees, of those before it; one kv head, no window; 0: all
  std::int64_t every = 0;   // of compressed states, without a window; 0: all positions are kept
  ir::Elem out = ir::Elem::F32;  // Q16: v_dim a multiple of 32

  std::int64_t group() const { return heads / kv_heads; }
};

// Whether prompt rows are multiplied in bf16, on matrix tiles or by vdpbf16ps: products follow the KV type, bf16 by bf16,
// others in f32. Heads whose size is no multiple of 32 take f32 FMA, as generated rows do.
bool attn_has_bf16(const Isa& isa, const AttnSpec& spec);

// Whether generated rows are multiplied as integers: over q8_0, of heads whose sizes are multiples of 32. Prompt rows take
// f32 FMA there: many rows share what is widened.
bool attn_has_ints(const AttnSpec& spec);

// Empty if there are kernels for it, else what is missing.
std::string attn_unsupported(const AttnSpec& spec);

// Where a state lies is the same in all kernels:
//   step          gc_step
//   group         i64, index of the state's group (gc_step.pools, gc_seq.tables)
//   block_bytes   i64, gc_group.block_bytes of the KV type
//   state_offset  i64, gc_state.offset of the KV type
// `rope_fine`, `rope_coarse`, `q_norm_w`, `k_norm_w`, `sinks` (f32[heads]) are read only where the spec has them; with
// `buckets`, which has no sinks, attn is given f32[buckets, heads] in their place.
// Units are rows x kv_heads: unit u is kv head u % kv_heads of row u / kv_heads.

// void(step, group, block_bytes, state_offset, qkv, i64 qs, k_norm_w, rope_fine, rope_coarse, i64 unit_begin,
//      i64 unit_end): qkv rows are [q heads x k_dim | k kv_heads x k_dim | v kv_heads x v_dim] f32, qs bytes apart.
llvm::Function* attn_append(Emitter& e, const AttnSpec& spec);

// The same with keys and values apart, for graphs whose attention isn't fused:
// void(step, group, block_bytes, state_offset, k, i64 ks, v, i64 vs, k_norm_w, rope_fine, rope_coarse, i64 unit_begin,
//      i64 unit_end)
llvm::Function* kv_append(Emitter& e, const AttnSpec& spec);

// void(step, group, block_bytes, state_offset, q, i64 qs, q_norm_w, rope_fine, rope_coarse, sinks, y, i64 ys,
//      i64 unit_begin, i64 unit_end, scratch): q rows begin with q [heads x k_dim] f32; y rows are [heads x v_dim].
llvm::Function* attn(Emitter& e, const AttnSpec& spec);

// As attn, with spec.chosen: `chosen` rows f32[spec.chosen], cs bytes apart, are the positions that a row sees, ascending.
// Rows that don't see all are multiplied in f32 in both roles.
// void(..., y, i64 ys, i64 unit_begin, i64 unit_end, scratch, chosen, i64 cs)
llvm::Function* attn_chosen(Emitter& e, const AttnSpec& spec);

// Of one worker, 64-byte aligned; for attn, attn_chosen and attn_split.
std::int64_t attn_scratch_bytes(const Isa& isa, const AttnSpec& spec);

// Ranges that the row at pos walks, and bytes of the partial result of one range of one unit.
constexpr std::int64_t attn_ranges(std::int64_t pos, std::int64_t window) {
  const std::int64_t lo = window > 0 ? std::max<std::int64_t>(0, pos - window + 1) : 0;
  return pos / kAttnRange - lo / kAttnRange + 1;
}
std::int64_t attn_partial_bytes(const AttnSpec& spec);

// i64(step, i64 n_rows): the largest attn_ranges() of the step's rows.
llvm::Function* attn_most_ranges(Emitter& e, const AttnSpec& spec);

// Items are units x ranges: item i is range i % ranges (from the row's first range on) of unit i / ranges, where
// `ranges` is at least attn_ranges() of every row; items past a row's last range do nothing. Item i's result is at
// partials + i * attn_partial_bytes.
// void(step, group, block_bytes, state_offset, q, i64 qs, q_norm_w, rope_fine, rope_coarse, partials, i64 ranges,
//      i64 item_begin, i64 item_end, scratch)
llvm::Function* attn_split(Emitter& e, const AttnSpec& spec);

// void(step, partials, i64 ranges, sinks, y, i64 ys, i64 unit_begin, i64 unit_end): overwrites partials.
llvm::Function* attn_merge(Emitter& e, const AttnSpec& spec);

}  // namespace gc::cpu
