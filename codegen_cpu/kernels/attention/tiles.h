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

#include <functional>
#include <vector>

#include "codegen_cpu/kernels/attention/attention.h"
#include "codegen_cpu/vec/vec.h"

namespace gc::cpu {

class Tiles {
 public:
  using Value = llvm::Value;
  using Values = Emitter::Values;

  // Of `queries` queries at most, of `many` rows or of one. Of many, and of types with scales, a few dimensions of a block
  // at a time are made f32 in scratch, which stay in the first-level cache for all tiles; else tiles read the elements where
  // they are.
  Tiles(Vec& v, const AttnSpec& spec, bool many, std::int64_t queries);
  // Of the scratch `wide`.
  static std::int64_t wide_bytes(const AttnSpec& spec);

  // A block's keys: body(keys of dimension 0, begin, end, fresh) for ranges of dimensions in order, as scores() wants
  // them.
  using Keys = std::function<void(Value* keys, Value* begin, Value* end, bool fresh)>;
  void over_keys(Value* keys, Value* wide, const Keys& body);

  // Queries of a widened tile, of `queries` in all.
  static std::int64_t queries_of(std::int64_t queries);
  std::int64_t queries() const { return queries_; }

  // What is read next: its lines are asked for evenly while a block is multiplied. Hardware that follows a stream stops
  // at the end of a page, and a block is a few pages.
  struct Ahead {
    Value* base = nullptr;  // null: nothing
    std::int64_t bytes = 0;
  };

  // p[n][64] = q[n][k_dim] . k, all 64 positions, over dimensions [begin, end); added to what p has unless `fresh`.
  // n <= queries().
  void scores(Value* q, Value* keys, Value* p, int n, Value* begin, Value* end, bool fresh, Ahead ahead);

  // Dimensions of the values that a tile takes at once: the first (i64), how many of each vector of 16, where those of
  // position 0 are, and bytes from position to position (of pairs: half of what is from pair to pair).
  struct Columns {
    Value* at;
    std::vector<int> counts;
    Value* values;
    std::int64_t stride;
  };
  // A block's values at positions [begin, end), all dimensions.
  void over_values(Value* values, Value* wide, Value* begin, Value* end,
                   const std::function<void(const Columns&)>& body);
  // o[n][v_dim] = o * alpha[n] + sum of p[n][64] v over positions [begin, end), in these columns.
  struct Weigh {
    Value *o, *p, *alpha;
  };
  void weigh(const Columns& columns, const Weigh& w, Value* begin, Value* end, int n, Ahead ahead);

  // p[n][64]: cap tanh(p / cap).
  void cap(Value* p, Value* n);
  // p[group][64] of one row -= slope (pos - key), the block's first key at `first` (i64) from the row's position.
  void alibi(Value* p, Value* kv_head, Value* first);
  // p[group][64] of one row += its heads' biases of the block's distances, f32[group][kBiasFloats].
  void bias(Value* p, Value* of_distances, Value* first);
  // p[n][64] = exp(p - m) with m and l brought up to date, and alpha: the factor of what was summed before.
  // m, l, alpha and the scratch `tops` and `sums` have n f32, padded to 16.
  struct Softmax {
    Value *p, *m, *l, *alpha, *tops, *sums;
  };
  void softmax(const Softmax& s, Value* n);

 private:
  Values wide_values(Value* values, Value* slot, Value* at, int count);
  void prefetch(Value* base, Value* step, std::int64_t bytes);

  Vec& v_;
  Emitter& e_;
  llvm::IRBuilder<>& b_;
  const AttnSpec& s_;
  const bool widened_;
  const int kv_type_;                               // of what tiles read
  const std::int64_t element_, queries_, vectors_;  // bytes; the largest tile
};

}  // namespace gc::cpu
