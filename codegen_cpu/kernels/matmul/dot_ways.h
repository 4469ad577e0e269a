// Ways of multiplying prompt rows by dot products of vectors: what dot_matmul.cc, which walks rows and panels, doesn't know.
// A way has its form of weights (unpacked once for many rows), its form of activations, the instruction that multiplies
// them, and what becomes of its sums.
//
//   Bf16   vdpbf16ps on pairs of bf16: prompt rows as they are (codegen_cpu/prompt_rows.h), weights rounded to bf16, f32 sums
//          of each 256 columns.
//   Pairs  vpdpwssd, else pmaddwd, on pairs of 16-bit integers. Rows and weights of 256 columns are brought to one scale
//          each, of 13 and of 12 bits, so that 32 bits hold the exact sum of 256 products: a conversion, a scale and an FMA
//          for 128 products. With the scales of the formats themselves, each 32 columns, these stand behind every 16
//          products, which then get no more than 0.84 of the issue slots, 0.80 with mins. What is lost is less than what
//          bf16 loses (weights to 2^-12 of the largest of 256, where bf16 is up to 2^-9 of each off).
//          aarch64 has no instruction that multiplies such pairs and adds them. Where it multiplies bytes (sdot, smmla)
//          the same integers are two signed bytes each, and three passes sum their four products: the same bits.
//   Bytes  vpdpbusd on quads of bytes, for programs told to be coarse: the high plane of the activations, 8 bits of each 32
//          columns, and weights as 8 bits of each 32 columns. As fast as integer products get, and as coarse as what
//          others do by default.
//
// (On a Zen 4 all three instructions start once a cycle on 512 bits, 236 GOPS a core of the first two at 3.7 GHz and 472 of
// vpdpbusd. Q8_0 and Q4_K of 2560 columns, 512 rows, 2026-11-30: Bf16 221, Pairs 213, Bytes 334 to 346 GOPS. So Bf16,
// where the ISA has it, is the fastest of those that are exact enough, and needs no conversion of rows. Bytes on one scale of
// 256 columns, as Pairs have, are too coarse: a mean KL of 0.026 for Gemma 3 270M, where a scale of 32 columns has 0.004 and
// llama.cpp 0.011; and 357 GOPS of Q4_K are no more.)
#pragma once

#include <memory>

#include "codegen_cpu/emitter.h"
#include "codegen_cpu/kernels/matmul/prompt_way.h"
#include "compiler/quant/layouts.h"

namespace gc::cpu {

// How a tile of rows x panels lies in registers, and what it reads.
struct DotShape {
  int rows, panels;
  int lines;           // of 64 bytes, a line the 16 weights of each of 2 or 4 columns: 32 columns of a panel
  std::int64_t x_row;  // bytes of 32 columns of a row
  std::int64_t x_block;      // from 32 columns of a tile's rows to the next
  std::int64_t panel_bytes;  // an unpacked group: lines, then `factors` vectors for each of `scales` scales
  int scales, factors;
};

DotShape dot_shape(const Isa& isa, PromptWay way);

class Dots {
 public:
  using Value = llvm::Value;
  using Values = Emitter::Values;

  static std::unique_ptr<Dots> make(Emitter& e, PromptWay way);
  virtual ~Dots();

  const DotShape& shape() const { return shape_; }
  virtual std::string_view name() const = 0;

  // Block `block` (i64, of 32 columns) of group `g` of a panel into `to`, an unpacked group. For all blocks of a group.
  virtual void unpack(const Layout& layout, std::int64_t k, Value* panel, Value* g, Value* to) = 0;
  // Group `g` of one quantized row of k columns: 32 columns x_block apart to `to`, and scales to `scales`, shape().rows
  // floats apart. Bf16 reads prompt rows in place.
  virtual void convert(std::int64_t k, Value* row, Value* g, Value* blocks32, Value* to, Value* scales);

  // Where row `r` (i64) of a tile's rows at `tile` begins.
  virtual Value* row_at(Value* tile, Value* r) { return e_.at(tile, r, shape_.x_row); }

  // The sums of a tile of shape().rows x `panels`, as the way has them in registers: sum() makes of them that of row r and
  // panel j, a vector of 16 rows of weights. By default each of them is one, [row][panel].
  virtual Values zero_sums(int panels) { return Values(shape_.rows * panels, start(nullptr)); }
  virtual Value* sum(const Values& acc, int r, int j, int panels) { return acc[r * panels + j]; }
  // acc plus the products of 32 columns: of the panels at w and panel_bytes behind it, and of the rows at x. A group is passed
  // over `passes` times, and sums of earlier passes count 2^8 times each.
  virtual int passes() const { return 1; }
  virtual Values add_products(Value* w, Value* x, int panels, int pass, Values acc);
  // y + what the sum stands for; `scale`: of the row, nullptr where there is none.
  virtual Value* finish(Value* y, Value* acc, Value* factors, Value* scale) = 0;
  // A sum begins as start() says for each panel.
  virtual Value* start(Value* factors) = 0;
  // The product of a line and a row's 32 bits in all lanes, added to a vector of 16 rows of weights.
  virtual llvm::Type* operand_type() = 0;
  virtual Value* mac(Value* acc, Value* w, Value* x) = 0;

 protected:
  Dots(Emitter& e, PromptWay way) : e_(e), b_(e.b()), shape_(dot_shape(e.isa(), way)) {}
  Value* line(Value* group, Value* block, int i);
  Emitter& e_;
  llvm::IRBuilder<>& b_;
  const DotShape shape_;
};

}  // namespace gc::cpu
