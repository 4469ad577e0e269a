// Exact integer products of packed weights with the quantized activation: the part of the vector vocabulary in which
// ISAs differ.
//
// The unit is a step: 16 rows x 4 columns of unsigned bytes (64 bytes, byte 4 r + c) times 4 activations of 16 bits,
// summed into 16 lanes of i32, one a row. An ISA multiplies in passes over the steps of a block, each a sum of mac()s in
// any order; the block's sum is (sum of pass 0) * 2^8 + sum of pass 1 where there are two.
//
//   planes  int8 dot products (vpdpbusd, usdot, sdot) in two passes: the high plane of the activations, then the low one. Weights are
//           used as they are unpacked: best where they are used once.
//   pairs   products of 16-bit pairs in one pass (vpdpwssd, else pmaddwd and add): even and odd bytes of a step widened,
//           times 16-bit activations. As many products as planes take, but weights can have their offset taken off, so
//           that no shift and no correction is left in the sums: best where widening is paid once for many rows.
//
// All give the same sums: |sum| <= 32 * 255 * 32512 < 2^28.
#pragma once

#include <functional>
#include <memory>

#include "codegen_cpu/emitter.h"

namespace gc::cpu {

// The pointer, but LLVM can't tell that it is: what is loaded through it for one panel isn't kept in registers (and
// spilled) for the next, since a load that broadcasts is part of the product's instruction.
llvm::Value* opaque_pointer(Emitter& e, llvm::Value* p);

class Dot {
 public:
  using Value = llvm::Value;
  using Values = Emitter::Values;

  // What the ISA of `e` does best for weights used once, and for weights used for many rows; `generic` is plain LLVM IR,
  // right everywhere. `e` must outlive it.
  static std::unique_ptr<Dot> for_row(Emitter& e);
  static std::unique_ptr<Dot> for_tiles(Emitter& e);
  static std::unique_ptr<Dot> generic(Emitter& e);

  explicit Dot(Emitter& e) : e_(e) {}
  virtual ~Dot();

  // How activations lie in memory (act_layout.h).
  enum class Form { Pairs, Planes };
  virtual Form form() const = 0;
  virtual int passes() const = 0;
  // Cycles from one mac() to the next on the same sum.
  virtual int latency() const = 0;
  // The 64-byte vectors that mac() takes for a step's weights: their number and type.
  virtual int operands() const = 0;
  virtual llvm::Type* operand_type() = 0;
  // From a step as it is unpacked, <64 x i8>, unsigned. Pairs take `offset` off; planes have it 0, and take bias() off.
  virtual Values weights(Value* step, int offset) = 0;
  virtual int bias() const { return 0; }
  // Step `step` (0..7) of the activations of a block of 32 at `block`, in all lanes.
  virtual Values activation(Value* block, int pass, int step) = 0;
  virtual Value* mac(Value* acc, const Values& weights, const Values& activation) = 0;
  // Stores 32 activations (<32 x i32>, |q| <= 32512) as activation() reads them.
  virtual void store_activation(Value* q, Value* block) = 0;

  llvm::Type* acc_type();  // <16 x i32>

 protected:
  // The i32 at p in all lanes, as a vector of `type`.
  Value* load_splat(Value* p, llvm::Type* type);
  // f applied to parts of `bytes` bytes of 64-byte vectors, results joined. For intrinsics of one width.
  Value* by_parts(int bytes, const Values& whole, const std::function<Value*(const Values&)>& f);
  Emitter& e_;
};

// Dots of pairs differ in mac_pairs() alone.
class PairDot : public Dot {
 public:
  using Dot::Dot;
  Form form() const final { return Form::Pairs; }
  int passes() const final { return 1; }
  int operands() const final { return 2; }
  llvm::Type* operand_type() final;                      // <32 x i16>
  Values weights(Value* step, int offset) final;         // even bytes, odd bytes
  Values activation(Value* block, int, int step) final;  // (x0, x2), (x1, x3)
  void store_activation(Value* q, Value* block) final;   // s16 [8 steps][x0, x2, x1, x3]
  Value* mac(Value* acc, const Values& w, const Values& x) final;
  // Half a step: <32 x i16> times <32 x i16>, products of neighbours summed.
  virtual Value* mac_pairs(Value* acc, Value* w, Value* x) = 0;

 protected:
  // x, opaque to LLVM: of sums that are an instruction of their own it would make trees, more than registers hold.
  Value* kept(Value* x);
};

// Dots of planes differ in mac() and in what their products take for weights.
class PlaneDot : public Dot {
 public:
  using Dot::Dot;
  Form form() const final { return Form::Planes; }
  int passes() const final { return 2; }
  int operands() const final { return 1; }
  llvm::Type* operand_type() final;  // <64 x i8>
  Values weights(Value* step, int offset) override;
  Values activation(Value* block, int pass, int step) final;
  void store_activation(Value* q, Value* block) final;  // s8 [high 32][low 32]
};

// The best that the ISA has.
std::unique_ptr<PairDot> make_pair_dot(Emitter& e);
std::unique_ptr<PairDot> make_pair_dot_avx2(Emitter& e);    // pmaddwd on ymm
std::unique_ptr<PairDot> make_pair_dot_avx512(Emitter& e);  // pmaddwd on zmm
std::unique_ptr<PairDot> make_pair_dot_vnni(Emitter& e);    // vpdpwssd on ymm or zmm
std::unique_ptr<PairDot> make_pair_dot_neon(Emitter& e);    // smull, addp
std::unique_ptr<Dot> make_plane_dot_vnni(Emitter& e);       // vpdpbusd on ymm or zmm
std::unique_ptr<Dot> make_plane_dot_neon(Emitter& e);       // usdot or sdot

}  // namespace gc::cpu
