// Where the result of a row-wise kernel goes: a row of f32, or a row for the matrix product that reads it, made while
// the values are still in registers: quantized (act_layout.h), or bf16 in pieces as prompt rows are
// (prompt_rows.h).
#pragma once

#include <functional>
#include <string>

#include "codegen_cpu/vec/vec.h"
#include "compiler/ir/ir.h"

namespace gc::cpu {

// value(i, count): elements i, i + 1, ... of the row of n; n is a multiple of 32 where elem isn't F32.
void emit_row(Vec& v, ir::Elem elem, llvm::Value* row, std::int64_t n,
              const std::function<llvm::Value*(llvm::Value* i, int count)>& value);

// The same for the part [begin, begin + n) of a row of `columns`; begin is an i64 and, where elem isn't F32, begin and
// n are multiples of 32.
void emit_row_part(Vec& v, ir::Elem elem, llvm::Value* row, std::int64_t columns, llvm::Value* begin,
                   std::int64_t n, const std::function<llvm::Value*(llvm::Value* i, int count)>& value);

// void round_N_ELEM(x, i64 xs, y, i64 ys, i64 rows): rows of n f32 to rows of elem.
llvm::Function* round_rows(Emitter& e, ir::Elem elem, std::int64_t n);

// A float in a function's name: distinct values, distinct texts.
std::string float_name(double x);
// "" for f32, "_q16", "_bf16".
std::string elem_suffix(ir::Elem elem);

}  // namespace gc::cpu
