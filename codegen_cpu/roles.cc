#include "codegen_cpu/roles.h"

#include <algorithm>

#include "codegen_cpu/kernels/matmul/prompt_way.h"
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

bool multiplies_prompts(const Isa& isa, const Graph& graph, const Op& op) {
  if (over_outputs(graph, op)) return false;
  const auto all = [&](std::initializer_list<const char*> slots) {
    for (const char* slot : slots)
      for (const ir::WeightUse& use : op.slot(slot))
        if (!has_prompt_matmul(prompt_way(isa), graph.weight(use.weight).format)) return false;
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
    if (!multiplies_prompts(isa, graph, op)) return elem;
    read = true;
  }
  return read ? Elem::BF16 : elem;
}

std::optional<PromptWay> prompt_way_of(const Isa& isa, const Graph& graph, const Op& op) {
  if (rounds_for_tiles(isa, graph, op)) return PromptWay::Tiles;
  if (!multiplies_prompts(isa, graph, op)) return std::nullopt;
  const PromptWay way = prompt_way(isa);
  if (prompt_form(isa, graph, op.inputs[0]) != prompt_input(way)) return std::nullopt;
  return way;
}

bool rounds_for_tiles(const Isa& isa, const Graph& graph, const Op& op) {
  if (prompt_way(isa) != PromptWay::Tiles || !multiplies_prompts(isa, graph, op)) return false;
  const ir::Type& x = graph.value(op.inputs[0]).type;
  return x.elem == Elem::F32 && x.dims.size() == 2 && x.dims[1].size % 32 == 0;
}

bool glu_joins_on_tiles(const Isa& isa, const Graph& graph, const Op& op) {
  if (op.kind != OpKind::matmul_glu || prompt_way_of(isa, graph, op) != PromptWay::Tiles) return false;
  const auto format = [&](const char* slot) { return graph.weight(op.slot(slot)[0].weight).format; };
  return format("gate") == format("up") && prompt_form(isa, graph, op.results[0]) == Elem::BF16;
}

}  // namespace gc::cpu
