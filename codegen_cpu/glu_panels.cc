#include "codegen_cpu/glu_panels.h"

#include "codegen_cpu/kernels/row_out/row_out.h"
#include "codegen_cpu/vec/math.h"
#include "compiler/base/error.h"

namespace gc::cpu {

llvm::Function* glu_panels(Emitter& e, const GluPanelsSpec& spec) {
  const std::int64_t unit = glu_unit(spec.out);
  GC_CHECK(spec.n % unit == 0, "a row of ", spec.n, " is no whole number of units of ", unit);
  const std::string name = cat("glu_panels_", ir::name(spec.fn), "_", spec.n, elem_suffix(spec.out));
  return e.function(name,
                    {in("gate"), i64("gs"), in("up"), i64("us"), out("y"), i64("ys"), i64("begin"),
                     i64("columns"), i64("rows")},
                    [&](const Args& a) {
                      Vec v(e);
                      e.for_range(e.i64(0), a["rows"], 1, [&](llvm::Value* t) {
                        llvm::Value* row = e.at(a["y"], t, a["ys"]);
                        e.for_range(e.i64(0), a["columns"], unit, [&](llvm::Value* c) {
                          llvm::Value* bytes = e.b().CreateShl(c, 2);
                          llvm::Value* gate = e.at(e.at(a["gate"], t, a["gs"]), bytes);
                          llvm::Value* up = e.at(e.at(a["up"], t, a["us"]), bytes);
                          emit_row_part(v, spec.out, row, spec.n, e.b().CreateAdd(a["begin"], c), unit,
                                        [&](llvm::Value* i, int count) {
                                          llvm::Value* at = e.b().CreateShl(i, 2);
                                          return v.mul(activation(v, spec.fn, v.load(e.at(gate, at), count)),
                                                       v.load(e.at(up, at), count));
                                        });
                        });
                      });
                    });
}

}  // namespace gc::cpu
