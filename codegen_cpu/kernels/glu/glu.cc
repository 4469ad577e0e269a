#include "codegen_cpu/kernels/glu/glu.h"

#include "codegen_cpu/kernels/row_out/row_out.h"
#include "codegen_cpu/vec/math.h"
#include "codegen_cpu/vec/vec.h"
#include "compiler/base/strings.h"

namespace gc::cpu {

using llvm::Value;

llvm::Function* glu(Emitter& e, const GluSpec& spec) {
  const std::string name = cat("glu_", ir::name(spec.fn), "_", spec.n, elem_suffix(spec.out));
  const std::vector<Arg> args = {in("gate"), i64("gs"), in("up"),   i64("us"),
                                 out("y"),   i64("ys"), i64("rows")};
  return e.function(name, args, [&, spec](const Args& a) {
    Vec v(e);
    e.for_range(e.i64(0), a["rows"], 1, [&](Value* row) {
      Value* gate = e.at(a["gate"], row, a["gs"]);
      Value* up = e.at(a["up"], row, a["us"]);
      emit_row(v, spec.out, e.at(a["y"], row, a["ys"]), spec.n, [&](Value* i, int count) {
        Value* g = activation(v, spec.fn, v.load(e.at(gate, i, std::int64_t{4}), count));
        return v.mul(g, v.load(e.at(up, i, std::int64_t{4}), count));
      });
    });
  });
}

}  // namespace gc::cpu
