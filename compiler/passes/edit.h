// What passes change a graph with. A pass looks at the graph as it came, notes replacements, and take() makes the new
// graph at once: ops in order, ids renumbered, values without a definition dropped, types computed anew, layers kept.
//
// Ops noted in place of an op belong to the layer of that op. Where the last op of a layer moves into the next (a
// residual that opens it), erase it here and place it there.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/ir.h"

namespace gc::passes {

class Edit {
 public:
  explicit Edit(ir::Graph g);

  const ir::Graph& graph() const { return g_; }
  int32_t op_count() const { return int32_t(g_.ops.size()); }
  const ir::Op& op(int32_t index) const { return g_.ops[index]; }

  // Of the graph as it came. The residual stream's marks (layer_input) are no uses.
  int use_count(ir::ValueId v) const { return int(users_[v.index].size()) + is_output_[v.index]; }
  const std::vector<int32_t>& users(ir::ValueId v) const { return users_[v.index]; }
  bool is_output(ir::ValueId v) const { return is_output_[v.index]; }
  bool is_layer_input(ir::ValueId v) const;
  int32_t def(ir::ValueId v) const { return g_.value(v).def; }
  // The op that makes v if it is of this kind and not touched, and v may vanish with it: it has one use and enters no
  // layer; else -1.
  int32_t sole(ir::ValueId v, ir::OpKind kind) const;
  bool touched(int32_t op) const { return touched_[op]; }
  int layer_of(int32_t op) const;  // -1: before layer 0; n_layer: the head

  // Changes, by index of an op of the graph as it came.
  void erase(std::initializer_list<int32_t> ops);
  void erase(int32_t op) { replace(op, {}); }
  void replace(int32_t op, std::vector<ir::Op> with);
  void insert_before(int32_t op, ir::Op added);
  // Uses of `from` become uses of `to`; `from` must be left without a definition.
  void rename(ir::ValueId from, ir::ValueId to);

  ir::ValueId new_value(std::string name);  // made unique; its type comes from its op
  ir::WeightId new_weight(ir::Weight w);    // the weight of this name, added if there is none

  ir::Graph take();

 private:
  ir::Graph g_;
  std::vector<std::vector<int32_t>> users_;
  std::vector<bool> is_output_;
  std::vector<std::vector<ir::Op>> before_, at_;
  std::vector<bool> touched_;
  std::vector<ir::ValueId> renamed_;
};

// The row segments (slot `slot`) of a matmul's columns [begin, begin + size), moved to weight slot `to`.
std::vector<ir::WeightUse> segments_of(const ir::Graph& g, const ir::Op& matmul, std::string_view slot,
                                       int64_t begin, int64_t size, uint8_t to);

}  // namespace gc::passes
