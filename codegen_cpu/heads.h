// Products of each head with a matrix of its own: y[t, h] = matrices[h] . x[t, h].
#pragma once

#include <cstdint>

#include "codegen_cpu/emitter.h"
#include "compiler/ir/ir.h"
#include "compiler/quant/formats.h"

namespace gc::cpu {

struct HeadsSpec {
  std::int64_t heads, n,
      k;  // matrices [heads, n, k], n whole panels; k a multiple of 32 where the input is quantized
  Format format;
  ir::Elem input;
};

// void(x, i64 xs, matrices, y, i64 ys, i64 rows, i64 worker, i64 workers): this worker's share of the panels of all
// heads. A head's part of a quantized row is a row of its own (act_layout.h).
llvm::Function* matmul_heads(Emitter& e, const HeadsSpec& spec);

}  // namespace gc::cpu
