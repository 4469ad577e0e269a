#include "compiler/ir/verify.h"

#include <unordered_set>

#include "compiler/base/error.h"
#include "compiler/ir/infer.h"

namespace gc::ir {
namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& g) : g_(g) {}

  void run() {
    check_names();
    for (const Weight& w : g_.weights) check_weight(w);
    for (const State& s : g_.states) check_state(s);
    defined_.assign(g_.values.size(), false);
    state_user_.assign(g_.states.size(), -1);
    for (size_t i = 0; i < g_.ops.size(); i++) check_op(int32_t(i));
    for (size_t i = 0; i < g_.values.size(); i++)
      GC_CHECK(defined_[i], "value %", g_.values[i].name, " has no definition");
    check_layers();
    GC_CHECK(!g_.outputs.empty(), "there is no output");
    for (ValueId v : g_.outputs) GC_CHECK(in_range(v), "an output is no value of the graph");
  }

 private:
  bool in_range(ValueId v) const { return v.valid() && size_t(v.index) < g_.values.size(); }

  template <class List>
  static void unique_names(const List& list, const char* what) {
    std::unordered_set<std::string_view> seen;
    for (const auto& item : list) {
      GC_CHECK(!item.name.empty(), "a ", what, " has no name");
      GC_CHECK(seen.insert(item.name).second, "two ", what, "s are named '", item.name, "'");
    }
  }

  void check_names() const {
    unique_names(g_.weights, "weight");
    unique_names(g_.states, "state");
    unique_names(g_.values, "value");
  }

  static void check_weight(const Weight& w) {
    GC_CHECK(!w.shape.empty(), "weight '", w.name, "' has no dimensions");
    for (int64_t d : w.shape) GC_CHECK(d > 0, "weight '", w.name, "' has a dimension of ", d);
    GC_CHECK(is_whole_blocks(w.format, w.shape.back()), "weight '", w.name, "' of ",
             to_string(w.format, w.shape), " has rows of no whole number of blocks");
    if (w.source == Weight::Source::Tensor) return;
    const Weight::Rope& r = w.rope;
    const size_t n = w.shape.size(), expected = r.long_factors.empty() ? 3 : 4;
    GC_CHECK(w.format == Format::F32 && n == expected && w.shape[n - 2] == r.dims / 2 && w.shape[n - 1] == 2,
             "RoPE table '", w.name, "' is ", to_string(w.format, w.shape), " for ", r.dims, " dimensions");
    GC_CHECK(r.base > 0 && r.fine > 0 && r.dims > 0, "RoPE table '", w.name, "' has no parameters");
  }

  static void check_state(const State& s) {
    switch (s.kind) {
      case State::Kind::KvRing:
      case State::Kind::KvLatent:
        GC_CHECK(s.window > 0, "state ", s.name, " is a ", name(s.kind), " without a window");
        [[fallthrough]];
      case State::Kind::KvFull:  // v_dim 0: of keys alone
        GC_CHECK(s.heads > 0 && s.k_dim > 0 && s.v_dim >= 0, "state ", s.name, " has no sizes");
        return;
      case State::Kind::Conv:
        GC_CHECK(s.window > 0 && s.heads == 1 && s.k_dim > 0 && s.k_dim == s.v_dim, "state ", s.name,
                 " of a convolution needs a window, and one head of its channels");
        return;
      case State::Kind::Ssm:
        GC_CHECK(s.window == 0 && s.heads > 0 && s.k_dim > 0 && s.v_dim > 0, "state ", s.name,
                 " has no sizes");
        return;
      case State::Kind::Encoder:
        return;
    }
  }

  void check_op(int32_t index) {
    const Op& op = g_.ops[index];
    const std::string where = describe(op);
    for (ValueId v : op.inputs) {
      GC_CHECK(in_range(v), where, ": an operand is no value of the graph");
      GC_CHECK(defined_[v.index], where, ": operand %", g_.value(v).name, " is used before its definition");
    }
    for (const WeightUse& use : op.weights)
      GC_CHECK(!use.weight.valid() || size_t(use.weight.index) < g_.weights.size(), where,
               ": a weight is none of the graph");
    if (op.state.valid()) {
      GC_CHECK(size_t(op.state.index) < g_.states.size(), where, ": its state is none of the graph");
      int32_t& user = state_user_[op.state.index];
      const bool again = op.kind == OpKind::attention_again;
      GC_CHECK(!again || user >= 0, where, ": nothing has appended to state ", g_.state(op.state).name,
               " yet");
      GC_CHECK(again || user < 0, where, ": state ", g_.state(op.state).name, " already belongs to %",
               name_of(user));
      if (!again) user = index;
    }
    std::vector<Type> types;
    std::string error = infer(g_, op, types);
    GC_CHECK(error.empty(), where, ": ", error);
    check_matrices(op, where);
    check_results(index, types, where);
  }

  void check_matrices(const Op& op, const std::string& where) const {
    for (const WeightUse& use : op.weights) {
      if (!use.weight.valid()) continue;
      const Weight& w = g_.weight(use.weight);
      const bool numbers = op.kind == OpKind::route_by_token;
      GC_CHECK(numbers || info(w.format).kind != FormatKind::kInt, where, ": weight '", w.name,
               "' is of integers");
    }
  }

  void check_results(int32_t index, const std::vector<Type>& types, const std::string& where) {
    const Op& op = g_.ops[index];
    GC_CHECK(op.results.size() == types.size(), where, ": has ", op.results.size(), " results, should have ",
             types.size());
    for (size_t i = 0; i < types.size(); i++) {
      ValueId v = op.results[i];
      GC_CHECK(in_range(v), where, ": a result is no value of the graph");
      GC_CHECK(!defined_[v.index], where, ": %", g_.value(v).name, " is defined twice");
      GC_CHECK(g_.value(v).def == index, where, ": %", g_.value(v).name, " does not know its definition");
      GC_CHECK(g_.value(v).type == types[i], where, ": %", g_.value(v).name, " is ",
               to_string(g_.value(v).type), ", should be ", to_string(types[i]));
      defined_[v.index] = true;
    }
  }

  void check_layers() const {
    const auto& begin = g_.layer_begin;
    const auto& input = g_.layer_input;
    GC_CHECK(begin.size() == input.size(), begin.size(), " layer starts, ", input.size(), " layer inputs");
    GC_CHECK(begin.size() != 1, "one layer mark: the head's without a layer");
    for (size_t i = 0; i < begin.size(); i++) {
      GC_CHECK(begin[i] >= (i ? begin[i - 1] : 0) && size_t(begin[i]) <= g_.ops.size(), "layer ", i,
               " starts at op ", begin[i]);
      bool head = i + 1 == begin.size();
      GC_CHECK(in_range(input[i]), "the input of layer ", i, " is no value of the graph");
      const Value& v = g_.value(input[i]);
      bool whole = v.type.dims.size() == 2 && (v.type.dims[0] == Dim::tokens() || head);
      GC_CHECK(whole, "%", v.name, ", the input of layer ", i, ", is ", to_string(v.type));
      int32_t end = head ? int32_t(g_.ops.size()) : begin[i + 1];
      const Op& def = g_.ops[v.def];
      bool sum = def.kind == OpKind::residual_norm || def.kind == OpKind::add;
      bool opens = v.def >= begin[i] && v.def < end && sum && def.results[0] == input[i];
      GC_CHECK(v.def < begin[i] || opens, "%", v.name, ", the input of layer ", i,
               ", is neither made before it nor by the residual sum in it");
    }
  }

  std::string name_of(int32_t op) const {
    const auto& results = g_.ops[op].results;
    return results.empty() || !in_range(results[0]) ? "?" : g_.value(results[0]).name;
  }

  std::string describe(const Op& op) const {
    std::string name = op.results.empty() || !in_range(op.results[0]) ? "?" : g_.value(op.results[0]).name;
    return cat(g_.name, ": %", name, " = ", info(op.kind).name);
  }

  const Graph& g_;
  std::vector<bool> defined_;
  std::vector<int32_t> state_user_;
};

}  // namespace

void verify(const Graph& g) { Verifier(g).run(); }

}  // namespace gc::ir
