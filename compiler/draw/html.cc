// The page: a column a graph, a card a section, a box an op from top to bottom, and beside the boxes a line from each
// value to its readers. The lines are drawn by us (an SVG of the section's height), in as many lanes as lines overlap.
#include <algorithm>

#include "compiler/base/strings.h"
#include "compiler/draw/draw.h"

namespace gc::draw {
namespace {

constexpr int kLine = 15, kPad = 8, kGap = 10, kLane = 9;  // pixels

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

int height_of(const Node& n) {
  return 2 * kPad + kLine * (2 + static_cast<int>(n.details.size()) + (n.outside.empty() ? 0 : 1));
}

struct Edge {
  int from, to, lane;
};

// The fewest lanes, long lines outside.
std::vector<Edge> lanes_of(const Section& s, int* lanes) {
  std::vector<Edge> edges;
  for (int i = 0; i < static_cast<int>(s.nodes.size()); ++i)
    for (int from : s.nodes[i].from)
      if (from + 1 != i) edges.push_back({from, i, 0});  // the next box needs none
  std::sort(edges.begin(), edges.end(),
            [](const Edge& a, const Edge& b) { return a.to - a.from < b.to - b.from; });
  *lanes = 0;
  for (size_t i = 0; i < edges.size(); ++i) {
    bool clash = true;
    for (; clash; edges[i].lane += clash) {
      clash = false;
      for (size_t j = 0; j < i; ++j)
        clash |= edges[j].lane == edges[i].lane && edges[j].from < edges[i].to && edges[i].from < edges[j].to;
    }
    *lanes = std::max(*lanes, edges[i].lane + 1);
  }
  return edges;
}

std::string section_html(const Section& s) {
  int lanes = 0;
  const std::vector<Edge> edges = lanes_of(s, &lanes);
  std::vector<int> top;
  int y = 0;
  for (const Node& n : s.nodes) {
    top.push_back(y);
    y += height_of(n) + kGap;
  }
  const int width = lanes * kLane + 14;
  std::string out = cat("<section><h3>", escaped(s.title), "</h3><div class=flow><svg width=", width,
                        " height=", std::max(y, 1), ">");
  for (const Edge& e : edges) {
    const int x = width - 6 - (e.lane + 1) * kLane, y0 = top[e.from] + height_of(s.nodes[e.from]) - 12,
              y1 = top[e.to] + 12;
    out += cat("<path d=\"M", width, " ", y0, " H", x, " V", y1, " H", width, "\"/><circle cx=", width - 3,
               " cy=", y1, " r=3 />");
  }
  out += "</svg><div class=ops>";
  for (const Node& n : s.nodes) {
    out += cat("<div class=op style=\"height:", height_of(n) - 2 * kPad, "px\"><b>", escaped(n.kind), "</b> ",
               escaped(n.name), "<br><i>", escaped(n.type), "</i>");
    for (const std::string& line : n.details) out += cat("<br><span>", escaped(line), "</span>");
    if (!n.outside.empty()) {
      out += "<br><em>from";
      for (const std::string& from : n.outside)
        out += cat(" ", escaped(from), from == n.outside.back() ? "" : ",");
      out += "</em>";
    }
    out += "</div>";
  }
  return out + "</div></div></section>";
}

std::string graph_html(const ir::Graph& graph, const char* title) {
  std::string out = cat("<div class=graph><h2>", title, "</h2><p>", graph.ops.size(), " ops, ",
                        graph.values.size(), " values, ", graph.weights.size(), " weights</p>");
  for (const Section& s : fold(graph))
    if (!s.nodes.empty()) out += section_html(s);
  return out + "</div>";
}

constexpr char kStyle[] = R"(
:root{color-scheme:light dark;--line:#8a8f98;--card:#f5f6f8;--op:#fff;--text:#1b1e23;--dim:#5d6470;--edge:#3b6fd4}
@media(prefers-color-scheme:dark){:root{--line:#555b66;--card:#1d2025;--op:#272b32;--text:#e6e8eb;--dim:#9aa1ac;--edge:#7aa5f5}}
body{margin:24px;font:12px/15px ui-monospace,monospace;color:var(--text)}
h1{font-size:18px;line-height:22px}h2{font-size:15px}h3{font-size:13px;margin:0 0 10px}
main{display:flex;gap:32px;align-items:flex-start;flex-wrap:wrap}
section{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:12px;margin-bottom:16px}
.flow{display:flex}.ops{width:46em}
.op{box-sizing:content-box;padding:7px 8px;border:1px solid var(--line);border-radius:5px;background:var(--op);
margin-bottom:10px;white-space:nowrap;overflow:hidden;text-overflow:ellipsis}
.op i{color:var(--dim)}.op span{color:var(--dim)}.op em{color:var(--edge);font-style:normal}
svg{flex:none}path{fill:none;stroke:var(--edge);stroke-width:1.3}circle{fill:var(--edge)}
)";

}  // namespace

std::string to_html(const ir::Graph& before, const ir::Graph& after) {
  return cat(
      "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport "
      "content=\"width=device-width\"><title>",
      escaped(after.name), "</title><style>", kStyle, "</style><h1>", escaped(after.name), "</h1><main>",
      graph_html(before, "as the architecture file writes it"), graph_html(after, "after all passes"),
      "</main></html>\n");
}

}  // namespace gc::draw
