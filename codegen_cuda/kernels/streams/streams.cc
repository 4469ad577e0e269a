// The literals of kernels/streams/streams.cuh.
#include "codegen_cuda/backend.h"
#include "codegen_cuda/emit.h"

namespace gc::cuda {

using ir::AttrName;
using ir::OpKind;

Launch emit_streams(Emit& e, std::int32_t at) {
  const ir::Op& op = e.graph().ops[static_cast<size_t>(at)];
  const ir::ValueId y = op.results[0];
  const bool two = op.inputs.size() > 1;
  const std::int64_t dim = op.kind == OpKind::sinkhorn ? op.i64(AttrName::heads) : e.type(y).dims.back().size;
  Launch launch = launch_of(e, at);
  Fields spec;
  spec.number("kDim", dim).number("kTo", columns_of(e.type(y)) / dim).flag("kTwo", two);
  spec.number("kStride0", e.stride(op.inputs[0])).number("kStride1", two ? e.stride(op.inputs[1]) : 0);
  spec.number("kOutStride", e.stride(y));
  std::string shared, more;
  if (op.kind == OpKind::mix)
    spec.number("kFrom", e.type(op.inputs[0]).dims[1].size).real("kPlus", op.f32_or(AttrName::plus, 0));
  if (op.kind == OpKind::add_heads) spec.number("kBegin", op.i64(AttrName::begin));
  if (op.kind == OpKind::sparsify) {
    spec.real("kBy", op.f32(AttrName::by));
    shared = "  __shared__ float sums[kWarps];\n", more = ", sums";
  }
  if (op.kind == OpKind::sinkhorn) {
    spec.number("kRounds", op.i64(AttrName::rounds)).real("kEps", op.f32(AttrName::eps));
    shared = "  __shared__ float m[@::kDim * @::kDim];\n", more = ", m";
  }
  for (const ir::ValueId input : op.inputs) launch.values.push_back(e.place(input));
  launch.values.push_back(e.place(y));
  const char* name = ir::info(op.kind).name;
  launch.kernel =
      e.source.kernel(cat(name, "_", dim), spec, cat(shared, "  ", name, "<@>(s, a", more, ");\n"));
  return launch;
}

}  // namespace gc::cuda
