#include "codegen_cpu/kernels/embed/embed.h"

#include <cstddef>

#include "codegen_cpu/kernels/row_decode/row_decode.h"
#include "codegen_cpu/kernels/row_out/row_out.h"
#include "compiler/base/strings.h"
#include "runtime/abi/program.h"

namespace gc::cpu {

using llvm::Value;

namespace {

llvm::Function* look_up(Emitter& e, const char* kind, const EmbedSpec& spec, std::int64_t member) {
  const std::string name =
      cat(kind, "_", info(spec.format).text_name, "_", spec.k, "_scale", float_name(spec.scale));
  llvm::Function* decode = row_decode(e, spec.format, spec.k);
  const std::vector<Arg> args = {in("rows"), in("matrix"), out("y"), i64("ys"), i64("n_rows")};
  return e.function(name, args, [&, spec, member](const Args& a) {
    e.for_range(e.i64(0), a["n_rows"], 1, [&](Value* t) {
      Value* row = e.at(a["rows"], t, std::int64_t{sizeof(gc_row)});
      Value* index = e.b().CreateSExt(e.member_i32(row, member), e.b().getInt64Ty());
      e.b().CreateCall(decode, {a["matrix"], index, e.at(a["y"], t, a["ys"]), e.f32(spec.scale)});
    });
  });
}

}  // namespace

llvm::Function* embed(Emitter& e, const EmbedSpec& spec) {
  return look_up(e, "embed", spec, offsetof(gc_row, token));
}

llvm::Function* embed_position(Emitter& e, const EmbedSpec& spec) {
  return look_up(e, "embed_position", spec, offsetof(gc_row, pos));
}

}  // namespace gc::cpu
