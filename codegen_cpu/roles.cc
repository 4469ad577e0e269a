#include "codegen_cpu/roles.h"

#include <algorithm>

#include "codegen_cpu/kernels/matmul/tile_matmul.h"
#include "compiler/base/error.h"

namespace gc::cpu {
namespace {

using ir::Elem;
using ir::Graph;
using ir::Op;
using ir::OpKind;

// Rows asked for are integers in either role: they are few as a rule, for which tiles are slow, and the head may choose
// by proof.
bool over_outputs(const Graph& graph, const Op& op) {
  const auto& dims = graph.value(op.results[0]).type.dims;
  return !dims.empty() && dims[0].kind == ir::Dim::Kind::Outputs;
}

bool can_take_tiles(const Graph& graph, const Op& op) {
  if (over_outputs(graph, op)) return false;
  const auto all = [&](std::initializer_list<const char*> slots) {
    for (const char* slot : slots)
      for (const ir::WeightUse& use : op.slot(slot))
        if (!has_tile_matmul(graph.weight(use.weight).format)) return false;
    return true;
  };
  switch (op.kind) {
    case OpKind::matmul:
      return all({"rows"});
    case OpKind::matmul_glu:
      return all({"gate", "up"});
    default:  // experts read integers; other ops don't read what products do
      return false;
  }
}

}  // namespace

Elem prompt_form(const Isa& isa, const Graph& graph, ir::ValueId value) {
  const Elem elem = graph.value(value).type.elem;
  if (elem != Elem::Q16 || !isa.roles_differ()) return elem;
  if (ir::is_view(graph.ops[graph.value(value).def].kind)) return elem;
  bool read = false;
  for (const Op& op : graph.ops) {
    if (std::find(op.inputs.begin(), op.inputs.end(), value) == op.inputs.end()) continue;
    if (!can_take_tiles(graph, op)) return elem;
    read = true;
  }
  return read ? Elem::BF16 : elem;
}

bool multiplies_on_tiles(const Isa& isa, const Graph& graph, const Op& op) {
  const bool product = op.kind == OpKind::matmul || op.kind == OpKind::matmul_glu;
  if (product && prompt_form(isa, graph, op.inputs[0]) == Elem::BF16) return true;
  return rounds_for_tiles(isa, graph, op);
}

bool rounds_for_tiles(const Isa& isa, const Graph& graph, const Op& op) {
  if (op.kind != OpKind::matmul && op.kind != OpKind::matmul_glu) return false;
  const ir::Type& x = graph.value(op.inputs[0]).type;
  return isa.has_amx && x.elem == Elem::F32 && x.dims.size() == 2 && x.dims[1].size % 32 == 0 &&
         can_take_tiles(graph, op);
}

bool glu_joins_on_tiles(const Isa& isa, const Graph& graph, const Op& op) {
  if (!isa.has_amx || op.kind != OpKind::matmul_glu || !multiplies_on_tiles(isa, graph, op)) return false;
  const auto format = [&](const char* slot) { return graph.weight(op.slot(slot)[0].weight).format; };
  return format("gate") == format("up") && prompt_form(isa, graph, op.results[0]) == Elem::BF16;
}

}  // namespace gc::cpu
