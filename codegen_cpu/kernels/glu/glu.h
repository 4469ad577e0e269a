// Gated unit: y = fn(gate) * up, elementwise over rows of n. Functions: vec/math.h.
#pragma once

#include "codegen_cpu/emitter.h"
#include "compiler/ir/ir.h"

namespace gc::cpu {

struct GluSpec {
  ir::Fn fn;
  std::int64_t n;
  ir::Elem out = ir::Elem::F32;  // Q16: n a multiple of 32
};
// void(gate, i64 gs, up, i64 us, y, i64 ys, i64 rows)
llvm::Function* glu(Emitter& e, const GluSpec& spec);

}  // namespace gc::cpu
