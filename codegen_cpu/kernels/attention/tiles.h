// The arithmetic of one block of 64 positions for several queries that share it: the heads of a group, of one row or of
// many. Scores as an outer product (queries x 16-position vectors of accumulators over k_dim), then max, exp and sum of
// each query, then values as an outer product (queries x 16-dimension vectors of accumulators over the positions).
//
// Tiles are as many accumulators as the ISA has registers for besides the operands; they decide speed only, since each
// accumulator sees its own products in the same order whatever the tile.
//
// A masked position has the score -inf and the weight 0, which is neutral to the bit: sums begin at +0, so none is ever
// -0. A block of masked positions alone is neutral too.
#pragma once

#include <vector>

#include "codegen_cpu/kernels/attention/attention.h"
#include "codegen_cpu/vec/vec.h"

namespace gc::cpu {

class Tiles {
 public:
  using Value = llvm::Value;
  using Values = Emitter::Values;

  // Over keys and values of `kv_type`, of `queries` queries at most.
  Tiles(Vec& v, const AttnSpec& spec, int kv_type, std::int64_t queries);

  // Queries of a tile, of `queries` in all.
  static std::int64_t queries_of(std::int64_t queries);
  std::int64_t queries() const { return queries_; }

  // p[n][64] = q[n][k_dim] . k, all 64 positions; n <= queries().
  void scores(Value* q, Value* keys, Value* p, int n);
  // o[n][v_dim] = o * alpha[n] + sum of p[n][64] v over positions [begin, end).
  void weigh(Value* o, Value* p, Value* alpha, Value* values, Value* begin, Value* end, int n);

  // p[n][64]: cap tanh(p / cap).
  void cap(Value* p, Value* n);
  // p[group][64] of one row -= slope (pos - key), the block's first key at `first` (i64) from the row's position.
  void alibi(Value* p, Value* kv_head, Value* first);
  // p[n][64] = exp(p - m) with m and l brought up to date, and alpha: the factor of what was summed before.
  // m, l, alpha and the scratch `tops` and `sums` have n f32, padded to 16.
  struct Softmax {
    Value *p, *m, *l, *alpha, *tops, *sums;
  };
  void softmax(const Softmax& s, Value* n);

 private:
  void weigh_part(Value* o, Value* p, Value* alpha, Value* values, Value* begin, Value* end, int n, Value* at,
                  const std::vector<int>& counts);

  Vec& v_;
  Emitter& e_;
  llvm::IRBuilder<>& b_;
  const AttnSpec& s_;
  const int kv_type_;
  const std::int64_t element_, queries_, vectors_;  // bytes; the largest tile
};

}  // namespace gc::cpu
