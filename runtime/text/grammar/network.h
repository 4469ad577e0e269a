#pragma once
// A grammar as it is built: for each rule a nondeterministic automaton over bytes whose edges may also call rules.
// What GBNF and JSON schemas are turned into, and what program.h is made of.
//
// Nothing here returns an error: what cannot be added (memory, or more than kMostEdges) raises failed(), which whoever
// builds looks at when it is done, and now and then before.
#include <stdint.h>

#include "runtime/base/span.h"
#include "runtime/base/vec.h"
#include "runtime/text/grammar/graph_copy.h"
#include "runtime/text/grammar/interner.h"

namespace gcrt {
namespace grammar {

// Code points lo to hi, both included.
struct Range {
  uint32_t lo, hi;
};
constexpr uint32_t kMaxCode = 0x10FFFF;
// Sorts, joins what overlaps or touches.
void normalize_ranges(Vec<Range>& ranges);
// All code points but those (normalised ones).
bool invert_ranges(Span<const Range> ranges, Vec<Range>& out);

class Network {
 public:
  static constexpr uint32_t kMostEdges = 1u << 22;
  static constexpr uint32_t kUnbounded = 0xFFFFFFFF;

  enum EdgeKind : uint8_t { kEpsilon, kBytes, kCall };
  struct Edge {
    uint32_t to;
    uint32_t next;   // the node's next edge, kNone at the end
    uint32_t value;  // kBytes: lo | hi << 8; kCall: the rule
    EdgeKind kind;
    uint8_t lo() const { return static_cast<uint8_t>(value); }
    uint8_t hi() const { return static_cast<uint8_t>(value >> 8); }
  };
  struct Rule {
    Fragment body = {kNone, kNone};  // start is kNone: not defined
    uint32_t name_begin = 0, name_bytes = 0;
    // A counted repetition: `repeated` min to max times, no body of its own.
    uint32_t repeated = kNone, min = 0, max = 0;
    bool is_repeat() const { return repeated != kNone; }
  };

  explicit Network(Allocator a) : first_(a), edges_(a), rules_(a), names_(a), copy_(a) {}

  uint32_t node();
  void epsilon(uint32_t from, uint32_t to) { edge(from, kEpsilon, 0, to); }
  void bytes(uint32_t from, uint8_t lo, uint8_t hi, uint32_t to) {
    edge(from, kBytes, lo | static_cast<uint32_t>(hi) << 8, to);
  }
  void call(uint32_t from, uint32_t rule, uint32_t to) { edge(from, kCall, rule, to); }
  // One character of `ranges` (normalised), as UTF-8.
  void chars(uint32_t from, Span<const Range> ranges, uint32_t to);
  // The bytes of `text`; returns the node behind them.
  uint32_t text(uint32_t from, Str text);

  Fragment empty();
  Fragment of_text(Str text);
  Fragment of_chars(Span<const Range> ranges);
  Fragment of_rule(uint32_t rule);
  // A token by its number (token_refs.h), or any other.
  Fragment of_token(int32_t id, bool others);
  Fragment sequence(Fragment a, Fragment b);
  Fragment either(Fragment a, Fragment b);
  // `f` min to max times (kUnbounded: no end). Its nodes are all those from `first_node` on, so that it may be copied.
  Fragment repeat(Fragment f, uint32_t first_node, uint32_t min, uint32_t max);
  // The same of a rule, never by copying.
  Fragment repeat_rule(uint32_t rule, uint32_t min, uint32_t max);

  uint32_t rule(Str name);
  void define(uint32_t rule, Fragment body) {
    if (rule < rules_.size()) rules_[rule].body = body;
  }
  Str name(uint32_t rule) const { return {names_.data() + rules_[rule].name_begin, rules_[rule].name_bytes}; }
  Rule& at_rule(uint32_t rule) { return rules_[rule]; }
  const Rule& at_rule(uint32_t rule) const { return rules_[rule]; }
  size_t n_rules() const { return rules_.size(); }
  size_t n_nodes() const { return first_.size(); }
  uint32_t first_edge(uint32_t node) const { return first_[node]; }
  Edge& at_edge(uint32_t e) { return edges_[e]; }
  const Edge& at_edge(uint32_t e) const { return edges_[e]; }
  void clear_edges(uint32_t node) { first_[node] = kNone; }
  // A copy of what can be reached from f.start, with f.end.
  Fragment copy(Fragment f);
  bool failed() const { return failed_; }
  Allocator allocator() const { return first_.allocator(); }

 private:
  void edge(uint32_t from, EdgeKind kind, uint32_t value, uint32_t to);
  void utf8_range(uint32_t from, uint32_t lo, uint32_t hi, uint32_t to);
  Fragment expand(Fragment f, uint32_t min, uint32_t max);

  Vec<uint32_t> first_;  // [node] its first edge
  Vec<Edge> edges_;
  Vec<Rule> rules_;
  Vec<char> names_;
  GraphCopy copy_;
  bool failed_ = false;
};

}  // namespace grammar
}  // namespace gcrt
