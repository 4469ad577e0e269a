// The literals of kernels/rows/rows.cuh, and each op's arithmetic on one value as a line of device code.
#include "codegen_cuda/backend.h"
#include "codegen_cuda/emit.h"
#include "compiler/base/error.h"

namespace gc::cuda {
namespace {

using ir::AttrName;
using ir::OpKind;

std::string real(double x) { return literal(static_cast<float>(x)); }

// y of element i of the row, from rows x0 and x1, the weights w and the row's position.
std::string value_of(const Emit& e, const ir::Op& op) {
  const auto last = [&](size_t input) { return e.type(op.inputs[input]).dims.back().size; };
  const std::int64_t n = e.type(op.results[0]).dims.back().size;
  switch (op.kind) {
    case OpKind::scale:
      return cat("x0[i] * ", real(op.f32(AttrName::by)));
    case OpKind::add:
      return "x0[i] + x1[i]";
    case OpKind::mul:
      return "x0[i] * x1[i]";
    case OpKind::mul_heads:
      return cat("x0[i] * x1[i / ", n, "]");
    case OpKind::dot_heads:
      return cat("dot<", last(0), ">(x0 + i * ", last(0), ", x1 + i * ", last(0), ")");
    case OpKind::temper:
      return cat("x0[i] * (1 + ", real(op.f32(AttrName::by)), " * logf(1 + float((pos + ",
                 op.i64_or(AttrName::offset, 0), ") / ", op.i64(AttrName::period), ")))");
    case OpKind::act:
      return cat("apply<Fn::", name_of(op.fn()), ">(x0[i])");
    case OpKind::glu:
      return cat("apply<Fn::", name_of(op.fn()), ">(x0[i]) * x1[i]");
    case OpKind::softcap:
      return cat(real(op.f32(AttrName::cap)), " * tanhf(x0[i] / ", real(op.f32(AttrName::cap)), ")");
    case OpKind::clamp: {
      const std::string limit = real(op.f32(AttrName::limit));
      if (op.i64_or(AttrName::upper, 0) != 0) return cat("fminf(x0[i], ", limit, ")");
      return cat("fmaxf(-", limit, ", fminf(x0[i], ", limit, "))");
    }
    case OpKind::weigh: {
      const std::int64_t each = n / e.graph().weight(op.one("weight")->weight).shape[0];
      return cat("x0[i] ", op.i64_or(AttrName::inverse, 0) != 0 ? "/" : "*", " w[i % ", n, " / ", each, "]");
    }
    case OpKind::shift:
      return cat("x0[i] + w[i % ", n, "]");
    case OpKind::quantize:
      return "x0[i]";
    case OpKind::concat:
    case OpKind::concat_heads: {  // [x0 | x1] of each head; an operand of one head gives it to all
      const std::int64_t a = last(0), b = last(1);
      const auto one = [&](size_t input) {
        const auto& dims = e.type(op.inputs[input]).dims;
        return op.kind == OpKind::concat_heads && dims.size() == 3 && dims[1].size == 1;
      };
      const std::string head = cat("i / ", n, " * "), column = cat("i % ", n);
      return cat(column, " < ", a, " ? x0[", one(0) ? "" : cat(head, a, " + "), column, "] : x1[",
                 one(1) ? "" : cat(head, b, " + "), column, " - ", a, "]");
    }
    case OpKind::slice_heads:
      return cat("x0[i / ", n, " * ", last(0), " + ", op.i64(AttrName::begin), " + i % ", n, "]");
    default:
      throw_internal("no value-by-value op: ", ir::info(op.kind).name);
  }
}

Launch emit_each(Emit& e, std::int32_t at) {
  const ir::Op& op = e.graph().ops[static_cast<size_t>(at)];
  const ir::ValueId y = op.results[0];
  Launch launch = launch_of(e, at);
  const bool two = op.inputs.size() > 1;
  Fields spec;
  spec.flag("kPosition", op.kind == OpKind::temper);
  spec.number("kColumns", columns_of(e.type(y))).flag("kTwo", two).flag("kQuantizeOut", e.is_q16(y));
  spec.number("kStride0", e.stride(op.inputs[0])).number("kStride1", two ? e.stride(op.inputs[1]) : 0);
  spec.number("kOutStride", e.stride(y));
  spec.line(
      cat("static __device__ float value(const float* x0, const float* x1, const float* w, int i, int pos) { "
          "return ",
          value_of(e, op), "; }"));
  for (const ir::ValueId input : op.inputs) launch.values.push_back(e.place(input));
  launch.values.push_back(e.place(y));
  if (op.kind == OpKind::weigh || op.kind == OpKind::shift)
    launch.weights.push_back(e.weight(*op.one("weight")));
  launch.kernel =
      e.source.kernel(cat(ir::info(op.kind).name, "_", columns_of(e.type(y))), spec, "  each<@>(s, a);\n");
  return launch;
}

Launch emit_embed(Emit& e, std::int32_t at) {
  const ir::Op& op = e.graph().ops[static_cast<size_t>(at)];
  const ir::WeightUse table = *op.one("table");
  const ir::Weight& w = e.graph().weight(table.weight);
  Launch launch = launch_of(e, at);
  Fields spec;
  spec.number("kColumns", w.shape.back()).number("kOutStride", e.stride(op.results[0]));
  spec.flag("kPosition", op.kind == OpKind::embed_position).real("kScale", op.f32_or(AttrName::scale, 1));
  spec.line(cat("using F = ", e.source.format(w.format), ";"));
  launch.values = {e.place(op.results[0])};
  launch.weights = {e.weight(table)};
  launch.kernel =
      e.source.kernel(cat(ir::info(op.kind).name, "_", info(w.format).text_name, "_", w.shape.back()), spec,
                      "  embed<@>(s, a);\n");
  return launch;
}

Launch emit_select(Emit& e, std::int32_t at) {
  const ir::Op& op = e.graph().ops[static_cast<size_t>(at)];
  const ir::Type& type = e.type(op.results[0]);
  Launch launch = launch_of(e, at);
  const std::int64_t words = type.elem == ir::Elem::Q16 ? e.stride(op.results[0]) / 4 : columns_of(type);
  Fields spec;
  spec.number("kWords", words).number("kStride0", e.stride(op.inputs[0]));
  spec.number("kOutStride", e.stride(op.results[0]));
  launch.values = {e.place(op.inputs[0]), e.place(op.results[0])};
  launch.kernel = e.source.kernel(cat("select_", words), spec, "  select<@>(s, a);\n");
  return launch;
}

Launch emit_cap_logits(Emit& e, std::int32_t at) {
  constexpr std::int64_t kAtOnce = 4096;
  const ir::Op& op = e.graph().ops[static_cast<size_t>(at)];
  const std::int64_t n = columns_of(e.type(op.results[0]));
  Launch launch = launch_of(e, at);
  launch.blocks = (n + kAtOnce - 1) / kAtOnce;
  Fields spec;
  spec.number("kColumns", n).number("kAtOnce", kAtOnce).real("kCap", op.f32(AttrName::cap));
  launch.kernel = e.source.kernel("cap_logits", spec, "  cap_logits<@>(s, a);\n");
  return launch;
}

}  // namespace

Launch emit_rows(Emit& e, std::int32_t at) {
  const ir::Op& op = e.graph().ops[static_cast<size_t>(at)];
  if (op.kind == OpKind::embed || op.kind == OpKind::embed_position) return emit_embed(e, at);
  if (op.kind == OpKind::select) return emit_select(e, at);
  if (op.kind == OpKind::softcap && e.is_output(op.results[0])) return emit_cap_logits(e, at);
  return emit_each(e, at);
}

}  // namespace gc::cuda
