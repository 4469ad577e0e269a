// The gated unit over a worker's panels: gate and up come out of the matrix products a chunk of columns at a time, and
// their joint, quantized for the product that follows, is written into that part of the row.
#pragma once

#include "codegen_cpu/emitter.h"
#include "compiler/ir/ir.h"

namespace gc::cpu {

struct GluPanelsSpec {
  ir::Fn fn;
  std::int64_t n;  // columns of the row
  ir::Elem out;
};

// Columns that are made together: a quantization block, or a panel.
constexpr std::int64_t glu_unit(ir::Elem out) { return out == ir::Elem::F32 ? 16 : 32; }

// void(gate, i64 gs, up, i64 us, y, i64 ys, i64 begin, i64 columns, i64 rows): y[t][begin + c] = fn(gate[t][c]) *
// up[t][c] for c < columns; begin and columns are multiples of glu_unit(), strides are bytes, y is the row's start.
llvm::Function* glu_panels(Emitter& e, const GluPanelsSpec& spec);

}  // namespace gc::cpu
