#include "codegen_cuda/emit.h"

#include <algorithm>

#include "codegen_cuda/backend.h"
#include "compiler/base/error.h"

namespace gc::cuda {

ir::ValueId Emit::root(ir::ValueId id) const {
  for (;;) {
    const ir::Op& op = graph().ops[static_cast<size_t>(graph().value(id).def)];
    if (!ir::is_view(op.kind)) return id;
    id = op.inputs[0];
  }
}

std::int64_t Emit::stride(ir::ValueId id) const {
  const ir::Type& t = type(root(id));
  // What experts make are rows of their own within the token's.
  if (graph().ops[static_cast<size_t>(graph().value(root(id)).def)].kind == ir::OpKind::experts_in)
    return t.dims[1].size * CudaBackend().row_bytes(t.elem, t.dims[2].size);
  return CudaBackend().row_bytes(t.elem, columns_of(t));
}

bool Emit::is_output(ir::ValueId id) const {
  return std::find(graph().outputs.begin(), graph().outputs.end(), id) != graph().outputs.end();
}

bool Emit::over_outputs(ir::ValueId id) const {
  const ir::Type& t = type(id);
  return !t.dims.empty() && t.dims[0].kind == ir::Dim::Kind::Outputs;
}

const char* name_of(ir::Fn fn) { return ir::name(fn); }  // base.cuh has the same names

std::string slopes(double alibi, std::int64_t heads) {
  std::int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  const std::string n = literal(static_cast<float>(power));
  return cat("static __device__ float slope(int head) { return exp2f(", literal(static_cast<float>(-alibi)),
             " * (head < ", power, " ? float(head + 1) : float(head - ", power, ") + 0.5f) / ", n, "); }");
}

Launch launch_of(const Emit& e, std::int32_t op) {
  Launch launch;
  launch.op = op;
  launch.outputs = e.over_outputs(e.graph().ops[static_cast<size_t>(op)].results[0]);
  return launch;
}

}  // namespace gc::cuda
