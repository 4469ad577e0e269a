// The literals of kernels/experts/experts.cuh.
#include "codegen_cuda/backend.h"
#include "codegen_cuda/emit.h"

namespace gc::cuda {
namespace {

using ir::AttrName;
using ir::OpKind;

bool flag(const ir::Op& op, AttrName name) { return op.i64_or(name, 0) != 0; }

Launch emit_route(Emit& e, std::int32_t at) {
  const ir::Op& op = e.graph().ops[static_cast<size_t>(at)];
  const std::int64_t experts = e.type(op.results[0]).dims.back().size;
  Launch launch = launch_of(e, at);
  const auto bias = op.one("bias");
  const bool softmax = !op.has(AttrName::fn);
  Fields spec;
  spec.number("kExperts", experts).number("kUsed", op.i64(AttrName::used));
  spec.number("kGroups", op.i64_or(AttrName::groups, 1))
      .number("kGroupsUsed", op.i64_or(AttrName::groups_used, 1));
  spec.flag("kSoftmax", softmax).named("Fn", "kFn", cat("Fn::", softmax ? "sigmoid" : name_of(op.fn())));
  spec.flag("kBias", bias.has_value()).flag("kNorm", flag(op, AttrName::norm));
  spec.flag("kChosen", flag(op, AttrName::chosen)).real("kBy", op.f32_or(AttrName::by, 1));
  spec.number("kStride0", e.stride(op.inputs[0])).number("kOutStride", e.stride(op.results[0]));
  launch.values = {e.place(op.inputs[0]), e.place(op.results[0])};
  if (bias) launch.weights = {e.weight(*bias)};
  launch.kernel =
      e.source.kernel(cat("route_", op.i64(AttrName::used), "_of_", experts), spec,
                      "  __shared__ float score[@::kExperts];\n  __shared__ float p[@::kExperts];\n"
                      "  route<@>(s, a, score, p);\n");
  return launch;
}

// What both products have.
Launch begin(const Emit& e, std::int32_t at, const ir::Weight& matrices, Fields& spec) {
  const ir::Op& op = e.graph().ops[static_cast<size_t>(at)];
  Launch launch = launch_of(e, at);
  const bool quantized = e.is_q16(op.inputs[0]);
  spec.number("kExperts", matrices.shape[0])
      .number("kColumns", matrices.shape[2])
      .flag("kQuantized", quantized);
  spec.line(quantized ? "using X = ActRow<kColumns>;" : "using X = F32Row;");
  spec.flag("kWeigh", flag(op, AttrName::weigh));
  spec.number("kStride0", e.stride(op.inputs[0])).number("kRoutingStride", e.stride(op.inputs[1]));
  spec.number("kOutStride", e.stride(op.results[0]));
  launch.values = {e.place(op.inputs[0]), e.place(op.inputs[1]), e.place(op.results[0])};
  return launch;
}

constexpr const char* kShared =
    "  __shared__ Expert expert;\n  __shared__ float part[kWarps][1][kPanelRows];\n";

Launch emit_in(Emit& e, std::int32_t at) {
  const ir::Op& op = e.graph().ops[static_cast<size_t>(at)];
  const ir::WeightUse up_use = *op.one("up");
  const ir::Weight& up = e.graph().weight(up_use.weight);
  const bool joined = flag(op, AttrName::joined);
  const auto gate = op.one("gate"), gate_bias = op.one("gate_bias"), up_bias = op.one("up_bias");
  const std::int64_t used = op.i64(AttrName::used), n = e.type(op.results[0]).dims.back().size;
  Fields spec;
  Launch launch = begin(e, at, up, spec);
  const auto next = [&](std::int64_t offset) {
    launch.weights.push_back(offset);
    return static_cast<std::int64_t>(launch.weights.size()) - 1;
  };
  if (gate) next(e.weight(*gate));
  spec.number("kUpAt", next(e.weight(up_use))).number("kN", n);
  const Format gate_format = gate ? e.graph().weight(gate->weight).format : up.format;
  spec.line(cat("using U = ", e.source.format(up.format), ";"));
  spec.line(cat("using G = ", e.source.format(gate_format), ";"));
  spec.flag("kGated", gate || joined).flag("kJoined", joined);
  const auto gate_scale = op.one("gate_scale"), up_scale = op.one("up_scale");
  spec.flag("kUpScale", up_scale.has_value()).number("kUpScaleAt", up_scale ? next(e.weight(*up_scale)) : 0);
  spec.flag("kGateScale", gate_scale.has_value())
      .number("kGateScaleAt", gate_scale ? next(e.weight(*gate_scale)) : 0);
  const auto& gates_bias = joined ? up_bias : gate_bias;
  spec.flag("kUpBias", up_bias.has_value()).number("kUpBiasAt", up_bias ? next(e.weight(*up_bias)) : 0);
  spec.flag("kGateBias", gates_bias.has_value())
      .number("kGateBiasAt", gates_bias ? next(e.weight(*gates_bias)) : 0);
  spec.flag("kLimited", op.has(AttrName::limit)).real("kLimit", op.f32_or(AttrName::limit, 0));
  spec.flag("kLimitOut", flag(op, AttrName::limit_out)).real("kUpAdd", op.f32_or(AttrName::up_add, 0));
  spec.real("kGateCap", op.f32_or(AttrName::gate_cap, 0)).real("kUpCap", op.f32_or(AttrName::up_cap, 0));
  spec.named("Fn", "kFn", cat("Fn::", name_of(op.fn()))).flag("kQuantizeOut", e.is_q16(op.results[0]));
  spec.number("kExpertStride", e.stride(op.results[0]) / used);
  launch.blocks = (n + 31) / 32;
  launch.deep = used;
  launch.kernel = e.source.kernel(cat("experts_in_", info(up.format).text_name, "_", n, "x", up.shape[2]),
                                  spec, cat(kShared, "  experts_in<@>(s, a, &expert, part);\n"));
  return launch;
}

Launch emit_out(Emit& e, std::int32_t at) {
  const ir::Op& op = e.graph().ops[static_cast<size_t>(at)];
  const ir::WeightUse down_use = *op.one("down");
  const ir::Weight& down = e.graph().weight(down_use.weight);
  const auto bias = op.one("bias");
  const std::int64_t used = e.type(op.inputs[0]).dims[1].size, n = down.shape[1];
  Fields spec;
  Launch launch = begin(e, at, down, spec);
  spec.line(cat("using D = ", e.source.format(down.format), ";"));
  spec.number("kN", n).number("kUsed", used).flag("kBias", bias.has_value());
  spec.number("kExpertStride", e.stride(op.inputs[0]) / used);
  launch.weights = {e.weight(down_use)};
  if (bias) launch.weights.push_back(e.weight(*bias));
  launch.blocks = n / 16;
  launch.kernel =
      e.source.kernel(cat("experts_out_", info(down.format).text_name, "_", n, "x", down.shape[2]), spec,
                      cat(kShared, "  experts_out<@>(s, a, &expert, part);\n"));
  return launch;
}

}  // namespace

Launch emit_experts(Emit& e, std::int32_t at) {
  const OpKind kind = e.graph().ops[static_cast<size_t>(at)].kind;
  return kind == OpKind::route        ? emit_route(e, at)
         : kind == OpKind::experts_in ? emit_in(e, at)
                                      : emit_out(e, at);
}

}  // namespace gc::cuda
