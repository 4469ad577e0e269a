#include "codegen_cpu/kernels/embed/embed.h"

#include <cstddef>

#include "codegen_cpu/kernels/row_decode/row_decode.h"
#include "codegen_cpu/kernels/row_out/row_out.h"
#include "compiler/base/strings.h"
#include "runtime/abi/program.h"

namespace gc::cpu {

using llvm::Value;

llvm::Function* embed(Emitter& e, const EmbedSpec& spec) {
  const std::string name =
      cat("embed_", info(spec.format).text_name, "_", spec.k, "_scale", float_name(spec.scale));
  llvm::Function* decode = row_decode(e, spec.format, spec.k);
  const std::vector<Arg> args = {in("rows"), in("matrix"), out("y"), i64("ys"), i64("n_rows")};
  return e.function(name, args, [&, spec](const Args& a) {
    e.for_range(e.i64(0), a["n_rows"], 1, [&](Value* t) {
      Value* row = e.at(a["rows"], t, std::int64_t{sizeof(gc_row)});
      Value* token = e.b().CreateSExt(e.member_i32(row, offsetof(gc_row, token)), e.b().getInt64Ty());
      e.b().CreateCall(decode, {a["matrix"], token, e.at(a["y"], t, a["ys"]), e.f32(spec.scale)});
    });
  });
}

}  // namespace gc::cpu
