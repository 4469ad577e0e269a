// The residual stream's sum and the norm that reads it become one op, with the norm of the branch where there is one:
//
//   r = add(x, rms_norm(b) * post); n = rms_norm(r) * pre   ->   r, n = residual_norm(x, b)
//
// Three passes over the row become one that keeps it in registers. At a layer's end the sum belongs to one layer and
// the norm to the next: the fused op goes to the next, whose input stays the sum, its first result.
#include <algorithm>

#include "compiler/passes/edit.h"
#include "compiler/passes/pass.h"

namespace gc::passes {

using namespace ir;

namespace {

// The first norm that reads the sum, or -1.
int32_t norm_of(const Edit& e, ValueId sum) {
  for (int32_t user : e.users(sum))
    if (e.op(user).kind == OpKind::rms_norm && !e.touched(user) && !e.op(user).has(AttrName::out))
      return user;
  return -1;
}

// The norm of the branch, if it can be part of an op with this eps, else -1.
int32_t post_of(const Edit& e, ValueId branch, double eps) {
  int32_t post = e.sole(branch, OpKind::rms_norm);
  if (post < 0 || e.is_output(branch) || e.is_layer_input(branch)) return -1;
  const Op& op = e.op(post);
  bool fits = op.one("weight") && !op.has(AttrName::out) && op.f32(AttrName::eps) == eps;
  return fits ? post : -1;
}

// Whether an op between two others reads the value.
bool read_between(const Edit& e, ValueId v, int32_t after, int32_t before) {
  return std::any_of(e.users(v).begin(), e.users(v).end(),
                     [&](int32_t u) { return u > after && u < before; });
}

// Where a value comes from, through selects, which are placed anywhere.
int32_t made(const Edit& e, ValueId v) {
  const Op& op = e.op(e.def(v));
  return op.kind == OpKind::select ? made(e, op.inputs[0]) : e.def(v);
}

// Whether a sum may go over its layer's end: only as the opening of the next, and not if it opens its own.
bool moves_on(const Edit& e, int32_t add, int32_t norm) {
  const auto& input = e.graph().layer_input;
  ValueId r = e.op(add).results[0];
  int from = e.layer_of(add);
  return input[e.layer_of(norm)] == r && (from < 0 || input[from] != r);
}

void fuse(Edit& e, int32_t add) {
  const Op& sum = e.op(add);
  ValueId r = sum.results[0];
  int32_t norm = norm_of(e, r);
  if (norm < 0 || e.graph().value(r).type.dims.size() != 2) return;
  int apart = e.layer_of(norm) - e.layer_of(add);
  bool early = read_between(e, r, add, norm);
  if (apart > 1 || (apart == 1 && (early || !moves_on(e, add, norm)))) return;

  double eps = e.op(norm).f32(AttrName::eps);
  Op fused{OpKind::residual_norm, sum.inputs};
  int32_t post = post_of(e, sum.inputs[1], eps);
  if (post < 0) {
    post = post_of(e, sum.inputs[0], eps);
    // The stream comes first: without a norm to tell, the branch is the operand that was made later.
    bool swapped = post >= 0 || made(e, sum.inputs[0]) > made(e, sum.inputs[1]);
    if (swapped) std::swap(fused.inputs[0], fused.inputs[1]);
  }
  if (post >= 0) {
    fused.inputs[1] = e.op(post).inputs[0];
    fused.weights.push_back({slot_index(fused.kind, "post"), e.op(post).one("weight")->weight});
  }
  if (auto pre = e.op(norm).one("weight"))
    fused.weights.push_back({slot_index(fused.kind, "pre"), pre->weight});
  fused.set_f32(AttrName::eps, eps);
  fused.results = {r, e.op(norm).results[0]};
  if (post >= 0) e.erase(post);
  e.erase(early ? norm : add);
  e.replace(early ? add : norm, {fused});
}

}  // namespace

Graph fuse_residual(Graph g) {
  Edit e(std::move(g));
  for (int32_t i = 0; i < e.op_count(); i++)
    if (e.op(i).kind == OpKind::add && !e.touched(i)) fuse(e, i);
  return e.take();
}

}  // namespace gc::passes
