// Exact integer products of packed weights with the quantized activation: the part of the vector vocabulary in which
// ISAs differ.
//
// The unit is a step: 16 rows x 4 columns of unsigned bytes (64 bytes, byte 4 r + c) times 4 activations of 16 bits,
// summed into 16 lanes of i32, one a row. An ISA multiplies in passes over the steps of a block:
//
//   acc = 0;  for each pass { if it isn't the first: acc <<= 8;  for each step: acc = mac(acc, weights, activation) }
//
//   two passes   int8 dot products (vpdpbusd): the high plane of the activations, then the low one. One chain of sums
//                in place of two and a join costs nothing but the shift, and halves the registers.
//   one pass     pmaddwd: even and odd bytes of a step widened to 16 bits, times pairs of 16-bit activations. (8-bit
//                products of pmaddubsw would saturate.)
//
// All give the same sums: |sum| <= 32 * 255 * 32512 < 2^28.
#pragma once

#include <memory>

#include "codegen_cpu/emitter.h"

namespace gc::cpu {

class Dot {
 public:
  using Value = llvm::Value;
  using Values = Emitter::Values;

  // What the ISA of `e` does best; `generic` is plain LLVM IR, right everywhere. `e` must outlive it.
  static std::unique_ptr<Dot> make(Emitter& e);
  static std::unique_ptr<Dot> generic(Emitter& e);

  explicit Dot(Emitter& e) : e_(e) {}
  virtual ~Dot();

  virtual int passes() const = 0;
  // The 64-byte vectors that mac() takes for a step's weights: their number and type.
  virtual int operands() const = 0;
  virtual llvm::Type* operand_type() = 0;
  // From a step as it is unpacked, <64 x i8>.
  virtual Values weights(Value* step) = 0;
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
  // The two halves of the store for ISAs that multiply 16-bit pairs: s16 [8 steps][x0, x2, x1, x3].
  void store_pairs(Value* q, Value* block);
  Values even_odd(Value* step);
  Values load_pairs(Value* block, int step);

  Emitter& e_;
};

// One a file.
std::unique_ptr<Dot> make_dot_avx2(Emitter& e);    // pmaddwd on ymm
std::unique_ptr<Dot> make_dot_avx512(Emitter& e);  // pmaddwd on zmm
std::unique_ptr<Dot> make_dot_vnni(Emitter& e);    // vpdpbusd on ymm or zmm

}  // namespace gc::cpu
