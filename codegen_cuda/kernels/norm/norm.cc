// The literals of kernels/norm/norm.cuh.
#include "codegen_cuda/backend.h"
#include "codegen_cuda/emit.h"

namespace gc::cuda {

using ir::OpKind;

bool is_norm(OpKind kind) {
  return kind == OpKind::rms_norm || kind == OpKind::layer_norm || kind == OpKind::residual_norm;
}

void add_norm(const Emit& e, const ir::Op& norm, Fields& spec, Launch& launch) {
  const bool residual = norm.kind == OpKind::residual_norm, layer = norm.kind == OpKind::layer_norm;
  const auto pre = norm.one(residual ? "pre" : "weight");
  const auto post = residual ? norm.one("post") : layer ? norm.one("bias") : std::nullopt;
  spec.named("Norm", "kNorm", residual ? "Norm::Residual" : layer ? "Norm::Layer" : "Norm::Rms");
  spec.number("kColumns", e.type(norm.results.back()).dims.back().size);
  spec.real("kEps", norm.f32(ir::AttrName::eps))
      .flag("kPre", pre.has_value())
      .flag("kPost", post.has_value());
  spec.number("kStride0", e.stride(norm.inputs[0]));
  spec.number("kStride1", residual ? e.stride(norm.inputs[1]) : 0);
  spec.number("kResidualStride", residual ? e.stride(norm.results[0]) : 0);
  for (const ir::ValueId input : norm.inputs) launch.values.push_back(e.place(input));
  if (residual) launch.values.push_back(e.place(norm.results[0]));
  if (pre) launch.weights.push_back(e.weight(*pre));
  if (post) launch.weights.push_back(e.weight(*post));
}

Launch emit_norm(Emit& e, std::int32_t op) {
  const ir::Op& norm = e.graph().ops[static_cast<size_t>(op)];
  const ir::ValueId result = norm.results.back();
  Launch launch = launch_of(e, op);
  Fields spec;
  add_norm(e, norm, spec, launch);
  launch.values.push_back(e.place(result));
  launch.blocks = columns_of(e.type(result)) / e.type(result).dims.back().size;
  spec.number("kOutStride", e.stride(result)).flag("kQuantize", e.is_q16(result));
  launch.kernel = e.source.kernel(cat(ir::info(norm.kind).name, "_", e.type(result).dims.back().size), spec,
                                  "  __shared__ float sums[kWarps];\n  norm<@>(s, a, sums);\n");
  return launch;
}

}  // namespace gc::cuda
