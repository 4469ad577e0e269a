// Pictures of a graph for people: Graphviz text, and a page that needs no other file.
//
// A model of 62 layers is mostly the same few layers again. Layers whose ops, attributes, formats and shapes are equal
// are one box, headed by the numbers of all layers that look so: Gemma 3 has two or three boxes whatever its size.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/ir.h"

namespace gc::draw {

// An op as drawn. Names of values have their layer's number replaced by *, so that folded layers read alike.
struct Node {
  std::string kind, name, type;      // "matmul", "blk.*.qkv", "f32[T, 1536]"
  std::vector<std::string> details;  // attributes, weights: a line each
  std::vector<int> from;             // indices of the section's nodes that it reads, in order
  std::vector<std::string> outside;  // values that it reads from other sections, and states
};

// The embedding, a layer or several equal ones, the head.
struct Section {
  std::string title;  // "layers 0-4, 6-10"
  std::vector<Node> nodes;
};

std::vector<Section> fold(const ir::Graph& graph);

std::string to_dot(const ir::Graph& graph);
// Both graphs side by side.
std::string to_html(const ir::Graph& before, const ir::Graph& after);

}  // namespace gc::draw
