#pragma once
// Sets of texts as deterministic automata over code points, with the operations that schemas need: and, or, without.
// What strings, keys and numbers of a schema may be is such a set, whatever keywords say it.
//
// An automaton that would pass kMostStates is not made: the operation returns kErrFull.
#include <stdint.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/base/vec.h"
#include "runtime/text/grammar/network.h"

namespace gcrt {
namespace grammar {

class Dfa {
 public:
  static constexpr size_t kMostStates = 40'000;
  struct Edge {
    uint32_t lo, hi, to;
  };
  struct State {
    uint32_t first, n;  // edges, ascending and disjoint
    bool accepts;
  };
  // Edges in any order, for whoever builds one by hand.
  struct Arc {
    uint32_t from, lo, hi, to;
  };

  explicit Dfa(Allocator a) : states_(a), edges_(a) {}

  // From arcs; those of one state do not overlap. State 0 is the start.
  Status build(Span<const uint8_t> accepts, Vec<Arc>& arcs);
  Status set_all();           // every text
  Status set_text(Str text);  // this one
  // Texts of min to max characters; kUnbounded: no end.
  Status set_length(uint32_t min, uint32_t max);
  Status set_copy(const Dfa& a);

  enum class Op : uint8_t { kAnd, kOr, kWithout };
  Status combine(const Dfa& a, const Dfa& b, Op op);
  // *this = *this op b.
  Status apply(const Dfa& b, Op op);

  bool empty() const { return states_.empty(); }
  bool accepts(Str text) const;  // UTF-8
  size_t n_states() const { return states_.size(); }
  const State& state(uint32_t s) const { return states_[s]; }
  const Edge& edge(uint32_t e) const { return edges_[e]; }
  Allocator allocator() const { return states_.allocator(); }

 private:
  // Drops states that lead nowhere; the empty set has no states.
  Status trim();

  Vec<State> states_;
  Vec<Edge> edges_;
};

}  // namespace grammar
}  // namespace gcrt
