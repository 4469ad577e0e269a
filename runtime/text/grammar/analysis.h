#pragma once
// What make_program() (program.h) does with a network before it makes states of it: steps 1 to 3 there.
#include <stdint.h>

#include "runtime/base/status.h"
#include "runtime/text/grammar/network.h"

namespace gcrt {
namespace grammar {

// Which rules call which: those of `rule` are to[begin[rule]] up to to[begin[rule + 1]].
struct CallGraph {
  explicit CallGraph(Allocator a) : begin(a), to(a) {}
  Span<const uint32_t> of(uint32_t rule) const {
    return to.span().sub(begin[rule], begin[rule + 1] - begin[rule]);
  }
  Vec<uint32_t> begin, to;
};

class Analysis {
 public:
  explicit Analysis(Network& n)
      : n_(n),
        nullable_(n.allocator()),
        useful_(n.allocator()),
        order_(n.allocator()),
        seen_(n.allocator()),
        nodes_(n.allocator()),
        separate_(n.allocator()),
        rank_(n.allocator()) {}

  // kErrInput says in `message` which rule is wrong; kErrFull, kErrMemory.
  Status run(uint32_t root, Span<char> message);

  // Can the rule match the empty text?
  bool nullable(uint32_t rule) const { return nullable_[rule]; }
  // Can it match any other?
  bool useful(uint32_t rule) const { return useful_[rule]; }
  uint32_t rank(uint32_t rule) const { return rank_[rule]; }
  // Rules that root needs, callees first where they aren't recursive.
  Span<const uint32_t> rules() const { return order_; }
  // What can be reached from `nodes` without a byte, those included. Valid until the next call.
  Span<const uint32_t> closure(Span<const uint32_t> nodes);

 private:
  Status find_rules(uint32_t root, Span<char> message);
  Status graph(bool left, CallGraph& out);
  Span<const uint32_t> collect(uint32_t rule);
  void begin_walk(size_t marks);
  void visit(uint32_t mark);
  void inline_small();
  bool worth_inlining(uint32_t rule);
  Status find_nullable();
  Status find_useful();
  bool may_be_empty(uint32_t rule);
  bool has_text(uint32_t rule);
  Status remove_left_recursion(Span<char> message);
  Status untangle(Span<const uint32_t> rules, Span<char> message);
  void separate_start(uint32_t rule);
  void put_left(uint32_t into, uint32_t which);
  void remove_direct(uint32_t rule);

  Network& n_;
  Vec<uint8_t> nullable_, useful_;
  Vec<uint32_t> order_;
  Vec<uint32_t> seen_;  // [mark] the last walk that saw it
  uint32_t walk_ = 0;
  Vec<uint32_t> nodes_;  // of the current walk
  // [node] A start whose edges have the ways around calls that may be empty too: they aren't to be looked for again, since
  // some were taken away.
  Vec<uint8_t> separate_;
  Vec<uint32_t> rank_;
  bool failed_ = false;
};

}  // namespace grammar
}  // namespace gcrt
