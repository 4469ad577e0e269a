#pragma once
// A copy of the part of a graph that a fragment's start reaches, for graphs whose nodes have linked lists of edges: the
// networks of grammars and the automata of regular expressions, which repeat fragments.
#include <stdint.h>

#include "runtime/base/vec.h"
#include "runtime/text/grammar/interner.h"

namespace gcrt {
namespace grammar {

// A piece of an automaton: in at `start`, out at `end`.
struct Fragment {
  uint32_t start, end;
};

class GraphCopy {
 public:
  explicit GraphCopy(Allocator a) : map_(a), copied_(a) {}

  // first[n]: node n's first edge, whose `next` leads on, kNone at the end. uint32_t node() makes a node, void edge(from,
  // old edge, to) an edge like the old one; both may grow `first` and `edges`, and raise `failed`, which also tells that
  // memory ran out here. The fragment itself then.
  template <class Edge, class MakeNode, class MakeEdge>
  Fragment copy(Fragment f, const Vec<uint32_t>& first, const Vec<Edge>& edges, bool& failed,
                const MakeNode& node, const MakeEdge& edge) {
    const size_t known = map_.size();
    if (known < first.size()) {
      if (!map_.resize(first.size())) failed = true;
      for (size_t i = known; i < map_.size(); ++i) map_[i] = kNone;
    }
    if (failed) return f;
    copied_.clear();
    auto fresh = [&](uint32_t old) {
      if (map_[old] == kNone) {
        map_[old] = node();
        if (!copied_.push(old)) failed = true;
      }
      return map_[old];
    };
    const Fragment out = {fresh(f.start), fresh(f.end)};
    for (size_t i = 0; i < copied_.size() && !failed; ++i)
      for (uint32_t e = first[copied_[i]]; e != kNone && !failed; e = edges[e].next) {
        const Edge old = edges[e];
        const uint32_t to = fresh(old.to);
        edge(map_[copied_[i]], old, to);
      }
    for (uint32_t old : copied_) map_[old] = kNone;
    return out;
  }

 private:
  Vec<uint32_t> map_, copied_;  // old node -> new, and those that have one; kept for their memory
};

}  // namespace grammar
}  // namespace gcrt
