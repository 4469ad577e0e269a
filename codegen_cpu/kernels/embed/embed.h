// Embedding lookup: y[t] = scale * matrix[rows[t].token], from the packed panels that a tied head multiplies with.
// Tokens have been checked by the runtime: 0 <= token < rows of the matrix.
#pragma once

#include "codegen_cpu/emitter.h"
#include "compiler/quant/formats.h"

namespace gc::cpu {

struct EmbedSpec {
  Format format;
  std::int64_t k;
  float scale = 1;
};
// void(rows, matrix, y, i64 ys, i64 n_rows): rows is gc_row[n_rows], y f32.
llvm::Function* embed(Emitter& e, const EmbedSpec& spec);
// The same by rows[t].pos: learned positions. The planner limits positions to the table's rows.
llvm::Function* embed_position(Emitter& e, const EmbedSpec& spec);

}  // namespace gc::cpu
