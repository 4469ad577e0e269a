// Matrices that multiply one value and whose products meet in one op become a single matmul of row segments, with a
// slice for each: q, k and v meet in attention, gate and up in their product. One pass over the activation, one
// barrier, and row shares that balance over all of them.
//
// "Meet in one op" keeps apart what only shares its input: in a parallel block one norm feeds q, k, v and gate, up;
// these are two groups. Segments keep their own formats: real files mix types inside q, k, v. Their order is that of
// the op's operands, which is what attn_block and matmul_glu expect. All but the last are whole panels of rows, since
// kernels write whole panels.
#include <algorithm>
#include <map>

#include "compiler/base/strings.h"
#include "compiler/ir/infer.h"
#include "compiler/passes/edit.h"
#include "compiler/passes/pass.h"
#include "compiler/quant/layouts.h"

namespace gc::passes {

using namespace ir;

namespace {

// Where a product arrives: the op and the position among its operands.
struct Arrival {
  int32_t op = -1;
  size_t operand = 0;
};

// Follows a value through ops of one operand, while nothing else uses it, to the first op that has several.
Arrival arrival(const Edit& e, ValueId v) {
  while (e.use_count(v) == 1 && !e.is_output(v)) {
    int32_t user = e.users(v)[0];
    const Op& op = e.op(user);
    if (op.inputs.size() > 1)
      return {user, size_t(std::find(op.inputs.begin(), op.inputs.end(), v) - op.inputs.begin())};
    if (op.kind == OpKind::matmul || op.results.size() != 1) break;
    v = op.results[0];
  }
  return {};
}

// "blk.0.ffn_gate", "blk.0.ffn_up" -> "blk.0.ffn_gate_up"; "blk.0.q", "blk.0.k", "blk.0.v" -> "blk.0.qkv".
std::string joined_name(const std::vector<std::string>& names) {
  size_t common = names[0].size();
  for (const std::string& s : names)
    common = std::min<size_t>(
        common, std::mismatch(names[0].begin(), names[0].end(), s.begin(), s.end()).first - names[0].begin());
  size_t word = names[0].find_last_of("._", common == 0 ? 0 : common - 1);
  word = common == 0 || word == std::string::npos ? 0 : word + 1;
  std::string out = names[0];
  bool letters = true;
  for (const std::string& s : names) letters &= s.size() == word + 1;
  for (size_t i = 1; i < names.size(); i++) out += cat(letters ? "" : "_", names[i].substr(word));
  return out;
}

void join(Edit& e, const std::vector<int32_t>& ops) {
  const Graph& g = e.graph();
  Op joined{OpKind::matmul, e.op(ops[0]).inputs};
  std::vector<WeightUse> biases;
  std::vector<std::string> names;
  bool any_bias = false;
  for (int32_t i : ops) {
    auto rows = e.op(i).slot("rows"), bias = e.op(i).slot("bias");
    any_bias |= !bias.empty();
    bias.resize(rows.size(), WeightUse{slot_index(OpKind::matmul, "bias"), {}});
    joined.weights.insert(joined.weights.end(), rows.begin(), rows.end());
    biases.insert(biases.end(), bias.begin(), bias.end());
    names.push_back(g.value(e.op(i).results[0]).name);
  }
  if (any_bias) joined.weights.insert(joined.weights.end(), biases.begin(), biases.end());
  joined.results = {e.new_value(joined_name(names))};
  std::vector<Op> with = {joined};
  int64_t begin = 0;
  for (int32_t i : ops) {
    int64_t size = last_dim(e.graph().value(e.op(i).results[0]).type);
    Op slice{OpKind::slice, joined.results};
    slice.set_i64(AttrName::begin, begin);
    slice.set_i64(AttrName::size, size);
    slice.results = e.op(i).results;
    with.push_back(slice);
    begin += size;
  }
  int32_t first = *std::min_element(ops.begin(), ops.end());
  for (int32_t i : ops)
    if (i != first) e.erase(i);
  e.replace(first, with);
}

}  // namespace

Graph join_matmuls(Graph g) {
  Edit e(std::move(g));
  struct Group {
    std::map<size_t, int32_t> by_operand;
    bool ambiguous = false;
  };
  std::map<std::pair<int32_t, int32_t>, Group> groups;  // (input value, op that they meet in)
  for (int32_t i = 0; i < e.op_count(); i++) {
    if (e.op(i).kind != OpKind::matmul) continue;
    Arrival at = arrival(e, e.op(i).results[0]);
    if (at.op < 0 || e.layer_of(at.op) != e.layer_of(i)) continue;
    Group& group = groups[{e.op(i).inputs[0].index, at.op}];
    group.ambiguous |= !group.by_operand.emplace(at.operand, i).second;
  }
  for (const auto& [key, group] : groups) {
    if (group.by_operand.size() < 2 || group.ambiguous) continue;
    std::vector<int32_t> ops;
    bool whole_panels = true;
    for (const auto& [operand, op] : group.by_operand) {
      whole_panels &=
          ops.empty() || last_dim(e.graph().value(e.op(ops.back()).results[0]).type) % kPanelRows == 0;
      ops.push_back(op);
    }
    if (whole_panels) join(e, ops);
  }
  return e.take();
}

}  // namespace gc::passes
