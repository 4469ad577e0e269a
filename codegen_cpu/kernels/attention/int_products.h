// Generated rows over keys and values in q8_0 by integer products.
//
// The bytes of a block are multiplied as they lie (codegen_cpu/kv_layout.h: quads are steps of codegen_cpu/vec/dot.h), by
// queries and weights of 16 bits; sums are exact, so the result depends on none of registers, ISA or tile:
//   scores  q is quantized as an activation, 32 dimensions a scale d. Of each 32 dimensions, in order,
//           s = fma(float(sum of q k) * scale of the key, d, s);
//   values  for a block and 32 dimensions of it: t[p] = scale of position p / the largest of the block, r = 32512 / the
//           head's largest weight of the block, w[p] = round(weight[p] r t[p]),
//           o = fma(float(sum over the block of w v), largest scale / r, o alpha).
// Both roundings are of 15 bits below the largest of 32 or 64 neighbours; keys and values have 7.
//
// Widening to f32 instead takes an FMA for 16 elements of each head, where a product of 16-bit pairs takes 32, and
// conversions beside them. One core of a Zen 4 at 8192 positions, four heads of 256 and of 64: 19 and 14 GB/s, widened 11 and
// 9 (f16: 25 and 23, twice the bytes); two cores read 55.
#pragma once

#include "codegen_cpu/kernels/attention/tiles.h"
#include "codegen_cpu/vec/dot.h"

namespace gc::cpu {

class IntProducts {
 public:
  using Value = llvm::Value;
  using Values = Emitter::Values;

  // `scratch`: scratch_bytes(), 64-byte aligned, in which quantize_queries() has been.
  IntProducts(Vec& v, const AttnSpec& spec, Value* scratch);
  static std::int64_t scratch_bytes(const AttnSpec& spec);
  // Of queries f32[group][k_dim], once for all ranges of a row.
  static void quantize_queries(Emitter& e, const AttnSpec& spec, Value* q, Value* scratch);

  // p[group][64] = q . k of a block's keys, all 64 positions.
  void scores(Value* keys, Value* p, Tiles::Ahead ahead);
  // o[group][v_dim] = o * alpha[group] + sum of p[group][64] v over positions [begin, end) of a block; p is 0 elsewhere.
  void weigh(Value* values, Value* begin, Value* end, Value* o, Value* p, Value* alpha, Tiles::Ahead ahead);

 private:
  // Sums of a tile: heads x vectors of 16 lanes.
  using Tile = std::vector<Values>;
  // Where 64 bytes of weights are, and the 32 activations beside them.
  using WeightsAt = std::function<Value*(int vector)>;
  using BlockOf = std::function<Value*(int head)>;

  void over_heads(const std::function<void(std::int64_t first, int n)>& body);
  // Adds the products of one step of a pass.
  void mac_step(Tile& sums, int pass, int step, const WeightsAt& weights, const BlockOf& block);
  // The exact sum, from what the passes gave and the sum of the activations.
  Value* exact(Value* sum, Value* of_activations);
  void prefetch(Tiles::Ahead ahead, Value* part, std::int64_t parts, int step, int steps);
  void scale_values(Value* values, Value* begin, Value* end);
  void scale_weights(Value* p);
  void weigh_columns(Value* values, Value* block, std::int64_t first, int n, Value* o, Value* alpha,
                     Tiles::Ahead ahead);

  Vec& v_;
  Emitter& e_;
  llvm::IRBuilder<>& b_;
  const AttnSpec& s_;
  const std::unique_ptr<Dot> dot_;
  std::int64_t heads_, vectors_;  // of a tile of scores
  // Scratch: queries as activations [group], t f32[v_dim / 32][64], largest scales f32[v_dim / 32], weights f32[group][64],
  // 1 / r f32[group], weights as activations [heads of a tile][2][64 bytes].
  Value *queries_, *t_, *largest_, *weights_, *factors_, *activations_;
};

}  // namespace gc::cpu
