#include "codegen_cpu/kernels/row_out/row_out.h"

#include <cstdio>

#include "codegen_cpu/act_layout.h"
#include "codegen_cpu/prompt_rows.h"
#include "compiler/base/error.h"

namespace gc::cpu {

using llvm::Value;

void emit_row_part(Vec& v, ir::Elem elem, Value* row, std::int64_t columns, Value* begin, std::int64_t n,
                   const std::function<Value*(Value*, int)>& value) {
  Emitter& e = v.e();
  if (elem == ir::Elem::F32) {
    Value* part = e.at(row, begin, std::int64_t{4});
    v.over(n, [&](Value* i, int count) { v.store(value(i, count), e.at(part, i, std::int64_t{4}), count); });
    return;
  }
  GC_CHECK((elem == ir::Elem::Q16 || elem == ir::Elem::BF16) && n % 32 == 0 && columns % 32 == 0, "rows of ",
           columns, ", parts of ", n);
  e.for_range(0, n, 32, [&](Value* i) {
    Value* second = e.b().CreateAdd(i, e.i64(16));
    Value* x0 = value(i, Vec::kLanes);
    Value* x1 = value(second, Vec::kLanes);
    if (elem == ir::Elem::BF16) {
      Value* at = e.b().CreateAdd(begin, i);
      std::vector<int> order;
      for (int c = 0; c < 32; ++c) order.push_back(piece_order(c));
      Value* piece = e.b().CreateShuffleVector(v.bf16_joined(x0, x1), order);
      e.store(piece, e.at(row, at, kPieceBytes / 32), 64);
      return;
    }
    Value* block = e.b().CreateLShr(e.b().CreateAdd(begin, i), 5);
    emit_quantize_block(e, row, columns, block, x0, x1);
  });
}

void emit_row(Vec& v, ir::Elem elem, Value* row, std::int64_t n,
              const std::function<Value*(Value*, int)>& value) {
  emit_row_part(v, elem, row, n, v.e().i64(0), n, value);
}

llvm::Function* round_rows(Emitter& e, ir::Elem elem, std::int64_t n) {
  return e.function("round_" + std::to_string(n) + elem_suffix(elem),
                    {in("x"), i64("xs"), out("y"), i64("ys"), i64("rows")}, [&](const Args& a) {
                      Vec v(e);
                      e.for_range(e.i64(0), a["rows"], 1, [&](Value* t) {
                        Value* x = e.at(a["x"], t, a["xs"]);
                        emit_row(v, elem, e.at(a["y"], t, a["ys"]), n, [&](Value* i, int count) {
                          return v.load(e.at(x, i, std::int64_t{4}), count);
                        });
                      });
                    });
}

std::string float_name(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", x);
  return text;
}

std::string elem_suffix(ir::Elem elem) {
  switch (elem) {
    case ir::Elem::F32:
      return "";
    case ir::Elem::Q16:
      return "_q16";
    case ir::Elem::BF16:
      return "_bf16";
    case ir::Elem::F16:
    case ir::Elem::I32:
      break;
  }
  throw_internal("no kernel writes rows of ", ir::name(elem));
}

}  // namespace gc::cpu
