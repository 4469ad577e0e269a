// Removes ops none of whose results is used, then weights and states that no op uses. Appending to a state is no use of
// its own: nothing but the op that appends reads it.
#include "compiler/passes/edit.h"
#include "compiler/passes/pass.h"

namespace gc::passes {

using namespace ir;

namespace {

Graph drop_ops(Graph g) {
  std::vector<bool> used(g.values.size());
  for (ValueId v : g.outputs) used[v.index] = true;
  for (ValueId v : g.layer_input) used[v.index] = true;
  std::vector<int32_t> dead;
  for (int32_t i = int32_t(g.ops.size()) - 1; i >= 0; i--) {
    bool live = false;
    for (ValueId v : g.ops[i].results) live |= used[v.index];
    if (!live) dead.push_back(i);
    for (ValueId v : g.ops[i].inputs)
      if (live) used[v.index] = true;
  }
  Edit e(std::move(g));
  for (int32_t i : dead) e.erase(i);
  return e.take();
}

// Keeps the marked items; new_index: where each went.
template <class T>
void keep(std::vector<T>& items, const std::vector<bool>& marked, std::vector<int32_t>& new_index) {
  std::vector<T> kept;
  new_index.assign(items.size(), -1);
  for (size_t i = 0; i < items.size(); i++) {
    if (!marked[i]) continue;
    new_index[i] = int32_t(kept.size());
    kept.push_back(std::move(items[i]));
  }
  items = std::move(kept);
}

}  // namespace

Graph dead_values(Graph g) {
  g = drop_ops(std::move(g));
  std::vector<bool> weights(g.weights.size()), states(g.states.size());
  for (const Op& op : g.ops) {
    if (op.state.valid()) states[op.state.index] = true;
    for (const WeightUse& use : op.weights)
      if (use.weight.valid()) weights[use.weight.index] = true;
  }
  std::vector<int32_t> weight_at, state_at;
  keep(g.weights, weights, weight_at);
  keep(g.states, states, state_at);
  for (Op& op : g.ops) {
    if (op.state.valid()) op.state = {state_at[op.state.index]};
    for (WeightUse& use : op.weights)
      if (use.weight.valid()) use.weight = {weight_at[use.weight.index]};
  }
  return g;
}

}  // namespace gc::passes
