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
//   Bytes  vpdpbusd on quads of bytes, for programs told to be coarse: the high plane of the activations, 8 bits of each 32
//          columns, and weights as 8 bits of each 32 columns. As fast as integer products get, and as coarse as what
//          others do by default.
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

  // Sums of products and results of a tile are vectors of 16 rows of weights; a sum begins as start() says for each panel.
  virtual Value* start(Value* factors) = 0;
  virtual llvm::Type* operand_type() = 0;
  virtual Value* mac(Value* acc, Value* w, Value* x) = 0;
  // y + what the sum stands for; `scale`: of the row, nullptr where there is none.
  virtual Value* finish(Value* y, Value* acc, Value* factors, Value* scale) = 0;

 protected:
  Dots(Emitter& e, PromptWay way) : e_(e), b_(e.b()), shape_(dot_shape(e.isa(), way)) {}
  Value* line(Value* group, Value* block, int i);
  Emitter& e_;
  llvm::IRBuilder<>& b_;
  const DotShape shape_;
};

}  // namespace gc::cpu
