// Gated feed-forward networks.
//
//   mul(act(a), b)                              ->  glu(a, b)
//   glu(slice(m), slice(m)), m = matmul(x)      ->  matmul_glu(x): the halves of m are gate and up
//   glu(matmul(x, gate), matmul(x, up))         ->  matmul_glu(x), where the matrices were not joined
//
// In matmul_glu a panel of gate and the same panel of up are computed together, so the product that goes to memory is
// half as wide and has the activation function in it. Matrices with biases, or of no whole panels, keep to matmul + glu.
#include <algorithm>
#include <optional>

#include "compiler/passes/edit.h"
#include "compiler/passes/pass.h"
#include "compiler/quant/layouts.h"

namespace gc::passes {

using namespace ir;

namespace {

Graph fuse_activations(Graph g) {
  Edit e(std::move(g));
  for (int32_t i = 0; i < e.op_count(); i++) {
    const Op& mul = e.op(i);
    if (mul.kind != OpKind::mul) continue;
    for (int side = 0; side < 2; side++) {
      int32_t act = e.sole(mul.inputs[side], OpKind::act);
      if (act < 0) continue;
      Op glu{OpKind::glu, {e.op(act).inputs[0], mul.inputs[1 - side]}};
      glu.set_i64(AttrName::fn, int64_t(e.op(act).fn()));
      glu.results = mul.results;
      e.erase(act);
      e.replace(i, {glu});
      break;
    }
  }
  return e.take();
}

// A side of glu: columns [begin, begin + size) of a matmul without biases, read here alone.
struct Side {
  int32_t matmul = -1, slice = -1;
  int64_t begin = 0, size = 0;
};

std::optional<Side> side_of(const Edit& e, ValueId v) {
  Side s;
  s.size = e.graph().value(v).type.dims.back().size;
  if (s.slice = e.sole(v, OpKind::slice); s.slice >= 0) {
    s.begin = e.op(s.slice).i64(AttrName::begin);
    v = e.op(s.slice).inputs[0];
  }
  s.matmul = e.graph().value(v).def;
  const Op& matmul = e.op(s.matmul);
  bool fits = matmul.kind == OpKind::matmul && !e.touched(s.matmul) && matmul.slot("bias").empty() &&
              !e.is_output(v) && !e.is_layer_input(v);
  return fits ? std::optional(s) : std::nullopt;
}

// Whether nothing but the two sides reads their matrices' products.
bool only_readers(const Edit& e, const Side& gate, const Side& up) {
  if (gate.matmul != up.matmul)
    return e.op(gate.matmul).inputs == e.op(up.matmul).inputs &&
           e.use_count(e.op(gate.matmul).results[0]) == 1 && e.use_count(e.op(up.matmul).results[0]) == 1;
  return gate.slice >= 0 && up.slice >= 0 && e.use_count(e.op(gate.matmul).results[0]) == 2;
}

}  // namespace

Graph fuse_glu(Graph g) {
  Edit e(fuse_activations(std::move(g)));
  const Graph& from = e.graph();
  for (int32_t i = 0; i < e.op_count(); i++) {
    const Op& glu = e.op(i);
    if (glu.kind != OpKind::glu) continue;
    auto gate = side_of(e, glu.inputs[0]), up = side_of(e, glu.inputs[1]);
    if (!gate || !up || !only_readers(e, *gate, *up) || gate->size % kPanelRows != 0) continue;
    Op fused{OpKind::matmul_glu, e.op(gate->matmul).inputs};
    fused.weights = segments_of(from, e.op(gate->matmul), "rows", gate->begin, gate->size,
                                slot_index(OpKind::matmul_glu, "gate"));
    auto ups = segments_of(from, e.op(up->matmul), "rows", up->begin, up->size,
                           slot_index(OpKind::matmul_glu, "up"));
    fused.weights.insert(fused.weights.end(), ups.begin(), ups.end());
    fused.set_i64(AttrName::fn, int64_t(glu.fn()));
    fused.results = glu.results;
    e.erase({gate->slice, up->slice, gate->matmul});
    if (up->matmul != gate->matmul) e.erase(up->matmul);
    e.replace(i, {fused});
  }
  return e.take();
}

}  // namespace gc::passes
