#include "compiler/passes/edit.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "compiler/base/error.h"
#include "compiler/ir/infer.h"

namespace gc::passes {

using namespace ir;

Edit::Edit(Graph g) : g_(std::move(g)) {
  users_.resize(g_.values.size());
  is_output_.resize(g_.values.size());
  renamed_.resize(g_.values.size());
  before_.resize(g_.ops.size());
  touched_.resize(g_.ops.size());
  for (int32_t i = 0; i < op_count(); i++) {
    for (ValueId v : g_.ops[i].inputs) users_[v.index].push_back(i);
    at_.push_back({g_.ops[i]});
  }
  for (ValueId v : g_.outputs) is_output_[v.index] = true;
}

bool Edit::is_layer_input(ValueId v) const {
  return std::find(g_.layer_input.begin(), g_.layer_input.end(), v) != g_.layer_input.end();
}

int32_t Edit::sole(ValueId v, OpKind kind) const {
  int32_t op = def(v);
  bool fits = op >= 0 && g_.ops[op].kind == kind && !touched_[op] && use_count(v) == 1 && !is_layer_input(v);
  return fits ? op : -1;
}

int Edit::layer_of(int32_t op) const {
  auto after = std::upper_bound(g_.layer_begin.begin(), g_.layer_begin.end(), op);
  return int(after - g_.layer_begin.begin()) - 1;
}

void Edit::erase(std::initializer_list<int32_t> ops) {
  for (int32_t op : ops)
    if (op >= 0) replace(op, {});
}

void Edit::replace(int32_t op, std::vector<Op> with) {
  GC_CHECK(!touched_[op], "a pass changes op ", op, " twice");
  touched_[op] = true;
  at_[op] = std::move(with);
}

void Edit::insert_before(int32_t op, Op added) { before_[op].push_back(std::move(added)); }
void Edit::rename(ValueId from, ValueId to) { renamed_[from.index] = to; }

ValueId Edit::new_value(std::string name) {
  auto taken = [&](const std::string& s) {
    return std::any_of(g_.values.begin(), g_.values.end(), [&](const Value& v) { return v.name == s; });
  };
  std::string unique = name;
  for (int i = 1; taken(unique); i++) unique = cat(name, ".", i);
  g_.values.push_back({std::move(unique)});
  users_.emplace_back();
  is_output_.push_back(false);
  renamed_.emplace_back();
  return {int32_t(g_.values.size()) - 1};
}

WeightId Edit::new_weight(Weight w) {
  for (size_t i = 0; i < g_.weights.size(); i++)
    if (g_.weights[i].name == w.name) return {int32_t(i)};
  g_.weights.push_back(std::move(w));
  return {int32_t(g_.weights.size()) - 1};
}

Graph Edit::take() {
  auto final_name = [&](ValueId& v) {
    while (renamed_[v.index].valid()) v = renamed_[v.index];
  };
  std::vector<Op> ops;
  std::vector<int32_t> begin;
  size_t layer = 0;
  for (int32_t i = 0; i <= op_count(); i++) {
    for (; layer < g_.layer_begin.size() && g_.layer_begin[layer] == i; layer++)
      begin.push_back(int32_t(ops.size()));
    if (i == op_count()) break;
    std::move(before_[i].begin(), before_[i].end(), std::back_inserter(ops));
    std::move(at_[i].begin(), at_[i].end(), std::back_inserter(ops));
  }
  std::vector<Value> values;
  std::vector<ValueId> moved(g_.values.size());
  for (Op& op : ops)
    for (ValueId v : op.results) {
      moved[v.index] = {int32_t(values.size())};
      values.push_back({g_.value(v).name});
    }
  auto renumber = [&](ValueId& v, std::string_view use) {
    final_name(v);
    GC_CHECK(moved[v.index].valid(), "%", g_.value(v).name, " is used by ", use, " and has no definition");
    v = moved[v.index];
  };
  for (Op& op : ops) {
    for (ValueId& v : op.inputs) renumber(v, info(op.kind).name);
    for (ValueId& v : op.results) v = moved[v.index];
  }
  for (ValueId& v : g_.outputs) renumber(v, "the graph's outputs");
  for (ValueId& v : g_.layer_input) renumber(v, "a layer's mark");
  g_.layer_begin = std::move(begin);
  g_.values = std::move(values);
  g_.ops = std::move(ops);
  for (int32_t i = 0; i < op_count(); i++) {
    std::vector<Type> types;
    std::string error = infer(g_, g_.ops[i], types);
    GC_CHECK(error.empty(), "%", g_.value(g_.ops[i].results[0]).name, ": ", error);
    for (size_t r = 0; r < types.size(); r++) {
      Value& v = g_.values[g_.ops[i].results[r].index];
      v.type = types[r];
      v.def = i;
    }
  }
  return std::move(g_);
}

std::vector<WeightUse> segments_of(const Graph& g, const Op& matmul, std::string_view slot, int64_t begin,
                                   int64_t size, uint8_t to) {
  std::vector<WeightUse> out;
  int64_t at = 0, end = begin + size;  // columns; `at`: where the segment begins
  for (const WeightUse& use : matmul.slot(slot)) {
    int64_t rows = row_count(g, use), from = std::max(begin, at), until = std::min(end, at + rows);
    if (from < until) {
      WeightUse part = use;
      part.slot = to;
      if (until - from < rows) {
        part.row_begin = use.row_begin + from - at;
        part.row_end = use.row_begin + until - at;
      }
      out.push_back(part);
    }
    at += rows;
  }
  return out;
}

}  // namespace gc::passes
