#include "compiler/passes/raise_select.h"

#include <algorithm>
#include <utility>

#include "compiler/base/strings.h"
#include "compiler/passes/edit.h"

namespace gc::passes {

using namespace ir;

namespace {

// Whether an op treats each row of its operands on its own and has one result.
bool is_row_wise(OpKind kind) {
  switch (kind) {
    case OpKind::rms_norm:
    case OpKind::layer_norm:
    case OpKind::matmul:
    case OpKind::slice:
    case OpKind::scale:
    case OpKind::weigh:
    case OpKind::shift:
    case OpKind::clamp:
    case OpKind::add:
    case OpKind::mul:
    case OpKind::act:
    case OpKind::softcap:
    case OpKind::sinkhorn:
    case OpKind::sparsify:
    case OpKind::concat:
    case OpKind::glu:
    case OpKind::quantize:
    case OpKind::matmul_glu:
    case OpKind::route:
    case OpKind::experts_in:
    case OpKind::experts_out:
      return true;
    case OpKind::embed:
    case OpKind::embed_position:
    case OpKind::ngram_embed:
    case OpKind::temper:
    case OpKind::mul_heads:
    case OpKind::dot_heads:
    case OpKind::mix:
    case OpKind::rescale:
    case OpKind::add_heads:
    case OpKind::heads:
    case OpKind::merge_heads:
    case OpKind::matmul_heads:
    case OpKind::slice_heads:
    case OpKind::concat_heads:
    case OpKind::rope:
    case OpKind::attention:
    case OpKind::attention_again:
    case OpKind::attention_sums:
    case OpKind::attention_chosen:
    case OpKind::choose_positions:
    case OpKind::compress:
    case OpKind::conv:
    case OpKind::ssm_scan:
    case OpKind::delta_rule:
    case OpKind::decay_attention:
    case OpKind::token_shift:
    case OpKind::wkv:
    case OpKind::wkv7:
    case OpKind::route_by_token:
    case OpKind::select:
    case OpKind::residual_norm:
    case OpKind::attn_block:
      return false;
  }
  return false;
}

// Moves one select over the op that makes its operand; false when none can move.
bool move_one(Graph& g, Reach reach) {
  Edit e(std::move(g));
  bool moved = false;
  for (int32_t i = 0; i < e.op_count() && !moved; i++) {
    const Op& select = e.op(i);
    if (select.kind != OpKind::select || e.is_output(select.inputs[0])) continue;
    ValueId x = select.inputs[0];
    int32_t at = e.def(x);
    const Op& f = e.op(at);
    if (!is_row_wise(f.kind) || e.use_count(x) != 1) continue;
    auto packed = [&](ValueId v) { return e.graph().value(v).type.elem != Elem::F32; };
    if (std::any_of(f.inputs.begin(), f.inputs.end(), packed)) continue;
    int head = int(e.graph().layer_begin.size()) - 1;
    bool in_layer = head > 0 && e.layer_of(at) != head;
    bool matrix = f.kind == OpKind::matmul || f.kind == OpKind::matmul_glu || f.kind == OpKind::experts_in ||
                  f.kind == OpKind::experts_out;
    if (in_layer && (e.layer_of(at) != head - 1 || (matrix && reach == Reach::Head))) continue;
    // A value that enters a layer is whole; only what enters the head may be of the rows asked for.
    const auto& entering = e.graph().layer_input;
    bool enters_head =
        head >= 0 && entering[head] == x && std::count(entering.begin(), entering.end(), x) == 1;
    if (e.is_layer_input(x) && !enters_head) continue;
    if (enters_head && reach == Reach::Head && f.kind != OpKind::add) continue;
    std::vector<Op> with;
    Op below = f;
    for (ValueId& v : below.inputs) {
      auto known = std::find_if(with.begin(), with.end(), [&](const Op& o) { return o.inputs[0] == v; });
      if (known == with.end()) {
        Op s{OpKind::select, {v}};
        s.results = {e.new_value(cat(e.graph().value(v).name, ".asked"))};
        with.push_back(s);
        known = with.end() - 1;
      }
      v = known->results[0];
    }
    // The result keeps the name that the dumps know: the graph's output's, else that of the value it is.
    if (e.is_output(select.results[0]) && !enters_head) {
      below.results = select.results;
    } else {
      e.rename(select.results[0], x);
    }
    with.push_back(below);
    // Ops of the head and the sum that enters it run there; those of the last layer stay where they were.
    int32_t place = in_layer && reach == Reach::LastLayer ? at : i;
    e.erase(place == at ? i : at);
    e.replace(place, std::move(with));
    moved = true;
  }
  g = e.take();
  return moved;
}

// Two selects of one value become one.
Graph share_selects(Graph g) {
  Edit e(std::move(g));
  std::vector<int32_t> seen;
  for (int32_t i = 0; i < e.op_count(); i++) {
    if (e.op(i).kind != OpKind::select) continue;
    auto same =
        std::find_if(seen.begin(), seen.end(), [&](int32_t s) { return e.op(s).inputs == e.op(i).inputs; });
    if (same == seen.end() || e.is_output(e.op(i).results[0])) {
      seen.push_back(i);
      continue;
    }
    e.rename(e.op(i).results[0], e.op(*same).results[0]);
    e.erase(i);
  }
  return e.take();
}

}  // namespace

Graph raise_selects(Graph g, Reach reach) {
  do {
    g = share_selects(std::move(g));
  } while (move_one(g, reach));
  return g;
}

}  // namespace gc::passes
