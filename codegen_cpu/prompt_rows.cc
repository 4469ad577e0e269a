#include "codegen_cpu/prompt_rows.h"

namespace gc::cpu {

using llvm::Value;

Value* row_at(Emitter& e, ir::Elem elem, Value* base, Value* t, Value* stride) {
  if (elem != ir::Elem::BF16) return e.at(base, t, stride);
  auto& b = e.b();
  Value* block = e.at(base, b.CreateLShr(t, 4), stride);
  return e.at(block, b.CreateAnd(t, e.i64(kBlockRows - 1)), kPieceRow);
}

}  // namespace gc::cpu
