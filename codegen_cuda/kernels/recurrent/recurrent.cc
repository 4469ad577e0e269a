// The literals of kernels/recurrent/recurrent.cuh.
#include "codegen_cuda/emit.h"
#include "compiler/base/error.h"

namespace gc::cuda {
namespace {

using ir::AttrName;
using ir::OpKind;

constexpr std::int64_t kThreads = GC_CUDA_THREADS;

// One block a kThreads of columns, over all rows.
Launch over_columns(const Emit& e, std::int32_t at, std::int64_t columns) {
  const ir::Op& op = e.graph().ops[static_cast<size_t>(at)];
  Launch launch = launch_of(e, at);
  launch.state = op.state.index;
  launch.blocks = (columns + kThreads - 1) / kThreads;
  launch.rows_at_once = INT32_MAX;
  for (const ir::ValueId input : op.inputs) launch.values.push_back(e.place(input));
  launch.values.push_back(e.place(op.results[0]));
  return launch;
}

Launch emit_conv(Emit& e, std::int32_t at) {
  const ir::Op& op = e.graph().ops[static_cast<size_t>(at)];
  const ir::State& state = e.graph().state(op.state);
  const std::int64_t n = state.v_dim, dilation = op.i64_or(AttrName::dilation, 1);
  Launch launch = over_columns(e, at, n);
  const auto bias = op.one("bias");
  Fields spec;
  spec.number("kColumns", n).number("kKept", state.window).number("kDilation", dilation);
  spec.flag("kBias", bias.has_value());
  spec.number("kStride0", e.stride(op.inputs[0])).number("kOutStride", e.stride(op.results[0]));
  const std::string y = op.has(AttrName::fn) ? cat("apply<Fn::", name_of(op.fn()), ">(y)") : "y";
  spec.line(cat("static __device__ float finish(float y) { return ", y, "; }"));
  launch.weights.push_back(e.weight(*op.one("taps")));
  if (bias) launch.weights.push_back(e.weight(*bias));
  launch.kernel = e.source.kernel(cat("conv_", n), spec, "  conv<@>(s, a);\n");
  return launch;
}

Launch emit_shift(Emit& e, std::int32_t at) {
  const ir::Op& op = e.graph().ops[static_cast<size_t>(at)];
  const std::int64_t n = e.graph().state(op.state).v_dim;
  const auto mix = op.one("mix");
  Launch launch = over_columns(e, at, n);
  Fields spec;
  spec.number("kColumns", n).number("kMixes", mix ? e.graph().weight(mix->weight).shape[0] : 0);
  spec.number("kStride0", e.stride(op.inputs[0])).number("kOutStride", e.stride(op.results[0]));
  if (mix) launch.weights.push_back(e.weight(*mix));
  launch.kernel = e.source.kernel(cat("token_shift_", n), spec, "  token_shift<@>(s, a);\n");
  return launch;
}

// The function of recurrent.cuh's Column that an op is.
const char* advance_of(OpKind kind) {
  switch (kind) {
    case OpKind::ssm_scan:
      return "ssm";
    case OpKind::delta_rule:
      return "delta";
    case OpKind::decay_attention:
      return "decay";
    case OpKind::wkv:
      return "wkv";
    case OpKind::wkv7:
      return "wkv7";
    default:
      throw_internal("no scan: ", ir::info(kind).name);
  }
}

// What the kinds differ in.
void add_kind(const Emit& e, const ir::Op& op, Fields& spec) {
  const auto dims = [&](size_t input) { return e.type(op.inputs[input]).dims; };
  spec.flag("kInTurn", op.i64_or(AttrName::in_turn, 0) != 0);
  spec.real("kScale", op.f32_or(AttrName::scale, 1));
  if (op.kind == OpKind::ssm_scan) {
    spec.flag("kOfStates", e.graph().weight(op.one("a")->weight).shape.size() == 2);
    spec.flag("kDtBias", op.one("dt_bias").has_value()).flag("kD", op.one("d").has_value());
  }
  if (op.kind == OpKind::delta_rule) spec.flag("kOfKeys", dims(3).size() == 3);
  if (op.kind == OpKind::wkv)
    spec.flag("kBonus", op.one("bonus").has_value()).flag("kLeaky", op.i64_or(AttrName::leaky, 0) != 0);
  if (op.kind != OpKind::decay_attention) return;
  spec.real("kBy", op.f32(AttrName::by));
  spec.line(slopes(op.f32(AttrName::alibi), e.graph().state(op.state).heads));
}

Launch emit_scan(Emit& e, std::int32_t at) {
  const ir::Op& op = e.graph().ops[static_cast<size_t>(at)];
  const ir::State& state = e.graph().state(op.state);
  const bool ssm = op.kind == OpKind::ssm_scan;
  // States of channels' own decays: [keys][channels], as one head.
  const bool of_states = ssm && e.graph().weight(op.one("a")->weight).shape.size() == 2;
  const std::int64_t heads = of_states ? 1 : state.heads, values = of_states ? state.heads : state.v_dim;
  const std::int64_t groups = e.type(op.inputs[ssm ? 2 : op.kind == OpKind::wkv ? 1 : 0]).dims[1].size;
  Launch launch = over_columns(e, at, heads * values);
  Fields spec;
  spec.number("kHeads", heads).number("kGroups", groups).number("kKeys", state.k_dim);
  spec.number("kValues", values).number("kInputs", static_cast<std::int64_t>(op.inputs.size()));
  std::string strides;
  for (const ir::ValueId input : op.inputs) strides += cat(strides.empty() ? "" : ", ", e.stride(input));
  spec.line(
      cat("static __device__ i64 stride(int i) { constexpr i64 all[] = {", strides, "}; return all[i]; }"));
  spec.number("kOutStride", e.stride(op.results[0]));
  add_kind(e, op, spec);
  spec.line(cat(
      "template <class C>\n  static __device__ float advance(const C& c, i64 t, float* state, bool first) "
      "{ return c.",
      advance_of(op.kind), "(t, state, first); }"));
  for (const char* slot : {"a", "dt_bias", "d"})
    if (const auto use = ssm ? op.one(slot) : std::nullopt) launch.weights.push_back(e.weight(*use));
  if (const auto bonus = op.kind == OpKind::wkv ? op.one("bonus") : std::nullopt)
    launch.weights.push_back(e.weight(*bonus));
  launch.kernel = e.source.kernel(cat(ir::info(op.kind).name, "_", heads, "x", state.k_dim, "x", values),
                                  spec, "  scan<@>(s, a);\n");
  return launch;
}

}  // namespace

Launch emit_recurrent(Emit& e, std::int32_t at) {
  const OpKind kind = e.graph().ops[static_cast<size_t>(at)].kind;
  if (kind == OpKind::conv) return emit_conv(e, at);
  if (kind == OpKind::token_shift) return emit_shift(e, at);
  return emit_scan(e, at);
}

}  // namespace gc::cuda
