// A matrix in a block format multiplies 16-bit block-quantized activations (q16), one in a float format f32 ones. A
// value is quantized once, before its first reader. A joined matrix that mixes both kinds is cut into runs of one kind,
// whose products are put together again.
#include <map>
#include <utility>

#include "compiler/base/strings.h"
#include "compiler/passes/edit.h"
#include "compiler/passes/pass.h"

namespace gc::passes {

using namespace ir;

namespace {

class Quantizer {
 public:
  explicit Quantizer(Graph g) : e_(std::move(g)) {}

  Graph run() {
    for (int32_t i = 0; i < e_.op_count(); i++) {
      const Op& op = e_.op(i);
      bool product = op.kind == OpKind::matmul || op.kind == OpKind::matmul_glu ||
                     op.kind == OpKind::experts_in || op.kind == OpKind::experts_out ||
                     op.kind == OpKind::matmul_heads;
      if (!product || e_.graph().value(op.inputs[0]).type.elem != Elem::F32) continue;
      bool experts = op.kind == OpKind::experts_in || op.kind == OpKind::experts_out;
      if (is_mixed(op)) {
        if (!experts) split(i);  // a gate and an up of different kinds are left to the backend to refuse
      } else if (is_block(op.weights[0])) {
        Op with = op;
        with.inputs[0] = quantized(i, op.inputs[0]);
        e_.replace(i, {with});
      }
    }
    return e_.take();
  }

 private:
  bool is_block(const WeightUse& use) const {
    return gc::info(e_.graph().weight(use.weight).format).kind == FormatKind::kBlock;
  }

  bool is_mixed(const Op& op) const {
    bool block = false, plain = false;
    for (const Slot& slot : slots(op.kind)) {
      if (slot.name.ends_with("bias")) continue;
      for (const WeightUse& use : op.slot(slot.name)) (is_block(use) ? block : plain) = true;
    }
    return block && plain;
  }

  ValueId quantized(int32_t before, ValueId x) {
    auto [at, is_new] = quantized_.try_emplace(x.index);
    if (is_new) {
      Op q{OpKind::quantize, {x}};
      q.results = {at->second = e_.new_value(cat(e_.graph().value(x).name, ".q16"))};
      e_.insert_before(before, q);
    }
    return at->second;
  }

  void split(int32_t i) {
    Op op = e_.op(i);
    std::vector<Op> with;
    if (op.kind == OpKind::matmul) {
      parts(i, op.slot("rows"), op.slot("bias"), op.results[0], with);
    } else {
      std::string name = e_.graph().value(op.results[0]).name;
      ValueId gate = e_.new_value(cat(name, ".gate")), up = e_.new_value(cat(name, ".up"));
      parts(i, op.slot("gate"), {}, gate, with);
      parts(i, op.slot("up"), {}, up, with);
      Op glu{OpKind::glu, {gate, up}};
      glu.attrs = op.attrs;
      glu.results = op.results;
      with.push_back(glu);
    }
    e_.replace(i, std::move(with));
  }

  // Products of the runs of one kind, put together as `result`.
  void parts(int32_t i, const std::vector<WeightUse>& rows, const std::vector<WeightUse>& bias,
             ValueId result, std::vector<Op>& with) {
    std::string name = e_.graph().value(result).name;
    ValueId x = e_.op(i).inputs[0], so_far;
    for (size_t begin = 0, end; begin < rows.size(); begin = end) {
      Op run{OpKind::matmul};
      for (end = begin; end < rows.size() && is_block(rows[end]) == is_block(rows[begin]); end++)
        run.weights.push_back(
            {slot_index(run.kind, "rows"), rows[end].weight, rows[end].row_begin, rows[end].row_end});
      if (!bias.empty()) run.weights.insert(run.weights.end(), bias.begin() + begin, bias.begin() + end);
      drop_empty_biases(run);
      run.inputs = {is_block(rows[begin]) ? quantized(i, x) : x};
      bool whole = begin == 0 && end == rows.size();
      run.results = {whole ? result : e_.new_value(cat(name, ".part"))};
      with.push_back(run);
      if (so_far.valid()) {
        Op both{OpKind::concat, {so_far, run.results[0]}};
        both.results = {end == rows.size() ? result : e_.new_value(cat(name, ".parts"))};
        with.push_back(both);
      }
      so_far = with.back().results[0];
    }
  }

  static void drop_empty_biases(Op& run) {
    uint8_t bias = slot_index(run.kind, "bias");
    bool any = false;
    for (const WeightUse& use : run.weights) any |= use.slot == bias && use.weight.valid();
    if (!any) std::erase_if(run.weights, [&](const WeightUse& use) { return use.slot == bias; });
  }

  Edit e_;
  std::map<int32_t, ValueId> quantized_;  // by value
};

}  // namespace

Graph quantize_activations(Graph g) { return Quantizer(std::move(g)).run(); }

}  // namespace gc::passes
