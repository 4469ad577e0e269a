#include "compiler/base/strings.h"
#include "compiler/draw/draw.h"

namespace gc::draw {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\l";
    else
      out += c;
  }
  return out + "\"";
}

}  // namespace

std::string to_dot(const ir::Graph& graph) {
  std::string out = cat("digraph ", quoted(graph.name),
                        " {\n  rankdir=TB;\n  node [shape=box, fontname=\"monospace\", ", "fontsize=10];\n");
  const std::vector<Section> sections = fold(graph);
  std::string last;
  for (size_t s = 0; s < sections.size(); ++s) {
    out += cat("  subgraph cluster_", s, " {\n    label=", quoted(sections[s].title), ";\n");
    std::string edges;
    for (size_t i = 0; i < sections[s].nodes.size(); ++i) {
      const Node& n = sections[s].nodes[i];
      std::string label = cat(n.kind, "  ", n.name, "\n", n.type, "\n");
      for (const std::string& line : n.details) label += "  " + line + "\n";
      for (const std::string& from : n.outside) label += "  from " + from + "\n";
      out += cat("    n", s, "_", i, " [label=", quoted(label), "];\n");
      for (int from : n.from) edges += cat("    n", s, "_", from, " -> n", s, "_", i, ";\n");
    }
    out += edges + "  }\n";
    if (!sections[s].nodes.empty()) {
      if (!last.empty()) out += cat("  ", last, " -> n", s, "_0 [style=dashed];\n");
      last = cat("n", s, "_", sections[s].nodes.size() - 1);
    }
  }
  return out + "}\n";
}

}  // namespace gc::draw
