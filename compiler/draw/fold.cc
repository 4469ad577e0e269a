#include <cctype>
#include <map>

#include "compiler/base/strings.h"
#include "compiler/draw/draw.h"
#include "compiler/ir/infer.h"

namespace gc::draw {
namespace {

using ir::Graph;
using ir::Op;

// "blk.17.q" -> "blk.*.q".
std::string starred(const std::string& name) {
  std::string out;
  for (size_t i = 0; i < name.size();) {
    const bool at_number =
        name.compare(i, 4, "blk.") == 0 && i + 4 < name.size() && std::isdigit(name[i + 4] & 0xff);
    if (!at_number) {
      out += name[i++];
      continue;
    }
    out += "blk.*";
    for (i += 4; i < name.size() && std::isdigit(name[i] & 0xff); ++i) {
    }
  }
  return out;
}

std::string attr_text(const ir::Attr& attr) {
  const ir::AttrInfo& info = ir::info(attr.name);
  switch (info.type) {
    case ir::AttrType::f32:
      return cat(info.name, " ", attr.f);
    case ir::AttrType::i64:
      return cat(info.name, " ", attr.i);
    case ir::AttrType::flag:
      return cat(info.name, attr.i != 0 ? " yes" : " no");
    case ir::AttrType::fn:
      return cat(info.name, " ", ir::name(static_cast<ir::Fn>(attr.i)));
    case ir::AttrType::elem:
      return cat(info.name, " ", ir::name(static_cast<ir::Elem>(attr.i)));
    case ir::AttrType::list:
      return cat(info.name, " ", attr.list.size(), " numbers");
  }
  return info.name;
}

std::string weight_text(const Graph& graph, const Op& op, const ir::WeightUse& use) {
  const std::string& slot = ir::slots(op.kind)[use.slot].name;
  if (!use.weight.valid()) return slot + " none";
  const ir::Weight& w = graph.weight(use.weight);
  std::string shape;
  for (int64_t n : w.shape) shape += cat(shape.empty() ? "" : ", ", n);
  return cat(slot, " ", starred(w.name), " ", info(w.format).text_name, "[", shape, "]");
}

std::string state_text(const ir::State& s) {
  if (s.kind == ir::State::Kind::KvRing) return cat("KV ring of window ", s.window);
  if (s.kind == ir::State::Kind::Conv) return cat("last rows, ", s.window, " kept");
  if (s.kind == ir::State::Kind::KvLatent) return cat("KV of one row for ", s.window);
  if (s.kind == ir::State::Kind::Ssm) return cat("state of ", s.heads, " x ", s.k_dim, " x ", s.v_dim);
  return s.kind == ir::State::Kind::KvFull ? "full KV" : "state";
}

Section section_of(const Graph& graph, int32_t begin, int32_t end) {
  Section section;
  std::map<int32_t, int> node_of;  // by value
  for (int32_t i = begin; i < end; ++i) {
    const Op& op = graph.ops[i];
    Node node;
    node.kind = ir::info(op.kind).name;
    for (ir::ValueId r : op.results) {
      node.name += (node.name.empty() ? "" : ", ") + starred(graph.value(r).name);
      node.type += (node.type.empty() ? "" : ", ") + ir::to_string(graph.value(r).type);
      node_of[r.index] = static_cast<int>(section.nodes.size());
    }
    for (const ir::Attr& attr : op.attrs) node.details.push_back(attr_text(attr));
    for (const ir::WeightUse& use : op.weights) node.details.push_back(weight_text(graph, op, use));
    for (ir::ValueId x : op.inputs) {
      const auto it = node_of.find(x.index);
      if (it != node_of.end())
        node.from.push_back(it->second);
      else
        node.outside.push_back(starred(graph.value(x).name));
    }
    if (op.state.valid()) node.outside.push_back(state_text(graph.state(op.state)));
    section.nodes.push_back(std::move(node));
  }
  return section;
}

std::string signature(const Section& s) {
  std::string all;
  for (const Node& n : s.nodes) {
    all += cat(n.kind, "|", n.name, "|", n.type);
    for (const auto& list : {n.details, n.outside})
      for (const std::string& line : list) all += "|" + line;
    for (int from : n.from) all += cat("|", from);
    all += "\n";
  }
  return all;
}

// {0, 1, 2, 5} -> "0-2, 5"
std::string ranges(const std::vector<int>& numbers) {
  std::string out;
  for (size_t i = 0; i < numbers.size();) {
    size_t j = i;
    while (j + 1 < numbers.size() && numbers[j + 1] == numbers[j] + 1) ++j;
    out += out.empty() ? "" : ", ";
    out += j == i ? cat(numbers[i]) : cat(numbers[i], "-", numbers[j]);
    i = j + 1;
  }
  return out;
}

}  // namespace

std::vector<Section> fold(const Graph& graph) {
  const auto n_ops = static_cast<int32_t>(graph.ops.size());
  const std::vector<int32_t>& begin = graph.layer_begin;
  if (begin.empty()) return {section_of(graph, 0, n_ops)};
  std::vector<Section> all{section_of(graph, 0, begin.front())};
  all[0].title = "embedding";
  std::map<std::string, size_t> seen;
  std::vector<std::vector<int>> layers{{}};
  for (size_t i = 0; i + 1 < begin.size(); ++i) {
    Section layer = section_of(graph, begin[i], begin[i + 1]);
    auto [it, fresh] = seen.try_emplace(signature(layer), all.size());
    if (fresh) {
      all.push_back(std::move(layer));
      layers.emplace_back();
    }
    layers[it->second].push_back(static_cast<int>(i));
  }
  for (size_t s = 1; s < all.size(); ++s)
    all[s].title = cat(layers[s].size() == 1 ? "layer " : "layers ", ranges(layers[s]));
  all.push_back(section_of(graph, begin.back(), n_ops));
  all.back().title = "head";
  return all;
}

}  // namespace gc::draw
