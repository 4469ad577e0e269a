#include "runtime/text/grammar/analysis.h"

#include "runtime/base/format.h"

namespace gcrt {
namespace grammar {
namespace {

constexpr size_t kMostInlined = 256;        // nodes of a rule that is put where it is called
constexpr size_t kMostNodes = 400'000;      // no more inlining beyond
constexpr size_t kMostUntangled = 200'000;  // nodes that the removal of left recursion may add

using Edge = Network::Edge;

// Strongly connected components of a graph, each after those that it leads to (Tarjan, without recursion).
class Components {
 public:
  Components(const CallGraph& g, Allocator a)
      : g_(g), index_(a), low_(a), frames_(a), open_(a), is_open_(a), members(a), ends(a) {}

  Status run(Span<const uint32_t> roots) {
    const size_t n = g_.begin.size() - 1;
    if (!index_.resize(n) || !low_.resize(n) || !is_open_.resize(n)) return kErrMemory;
    for (uint32_t r : roots)
      if (!index_[r])
        if (const Status s = walk(r); s != kOk) return s;
    return kOk;
  }

 private:
  struct Frame {
    uint32_t rule, next;
  };
  bool enter(uint32_t r) {
    index_[r] = low_[r] = ++count_;
    is_open_[r] = 1;
    return open_.push(r) && frames_.push({r, 0});
  }
  Status walk(uint32_t root) {
    if (!enter(root)) return kErrMemory;
    while (!frames_.empty()) {
      const uint32_t r = frames_.back().rule;
      const Span<const uint32_t> to = g_.of(r);
      if (frames_.back().next < to.size()) {
        const uint32_t t = to[frames_.back().next++];
        if (!index_[t]) {
          if (!enter(t)) return kErrMemory;
        } else if (is_open_[t]) {
          low_[r] = min_of(low_[r], index_[t]);
        }
        continue;
      }
      frames_.pop();
      if (!frames_.empty()) low_[frames_.back().rule] = min_of(low_[frames_.back().rule], low_[r]);
      if (low_[r] == index_[r] && !close(r)) return kErrMemory;
    }
    return kOk;
  }
  bool close(uint32_t r) {
    for (;;) {
      const uint32_t m = open_.back();
      open_.pop();
      is_open_[m] = 0;
      if (!members.push(m)) return false;
      if (m == r) break;
    }
    return ends.push(static_cast<uint32_t>(members.size()));
  }

  const CallGraph& g_;
  Vec<uint32_t> index_, low_;
  Vec<Frame> frames_;
  Vec<uint32_t> open_;
  Vec<uint8_t> is_open_;
  uint32_t count_ = 0;

 public:
  Vec<uint32_t> members, ends;  // component i ends before members[ends[i]]
};

}  // namespace

void Analysis::begin_walk(size_t marks) {
  ++walk_;
  nodes_.clear();
  if (marks > seen_.size() && !seen_.resize(marks + marks / 2)) failed_ = true;
}

void Analysis::visit(uint32_t mark) {
  if (failed_ || seen_[mark] == walk_) return;
  seen_[mark] = walk_;
  if (!nodes_.push(mark)) failed_ = true;
}

Span<const uint32_t> Analysis::collect(uint32_t rule) {
  begin_walk(n_.n_nodes());
  if (!n_.at_rule(rule).is_repeat()) visit(n_.at_rule(rule).body.start);
  for (size_t i = 0; i < nodes_.size(); ++i)
    for (uint32_t e = n_.first_edge(nodes_[i]); e != kNone; e = n_.at_edge(e).next) visit(n_.at_edge(e).to);
  return nodes_;
}

Span<const uint32_t> Analysis::closure(Span<const uint32_t> from) {
  begin_walk(n_.n_nodes());
  for (uint32_t n : from) visit(n);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const bool separate = nodes_[i] < separate_.size() && separate_[nodes_[i]];
    for (uint32_t e = n_.first_edge(nodes_[i]); e != kNone; e = n_.at_edge(e).next) {
      const Edge& edge = n_.at_edge(e);
      if (edge.kind == Network::kEpsilon ||
          (edge.kind == Network::kCall && nullable_[edge.value] && !separate))
        visit(edge.to);
    }
  }
  return nodes_;
}

Status Analysis::graph(bool left, CallGraph& g) {
  if (!g.begin.resize(n_.n_rules() + 1)) return kErrMemory;
  for (uint32_t r = 0; r < n_.n_rules(); ++r) {
    g.begin[r] = static_cast<uint32_t>(g.to.size());
    const Network::Rule& rule = n_.at_rule(r);
    if (rule.is_repeat()) {
      if (!g.to.push(rule.repeated)) return kErrMemory;
      continue;
    }
    if (rule.body.start == kNone) continue;
    if (left)
      closure(Span<const uint32_t>(&rule.body.start, 1));
    else
      collect(r);
    for (uint32_t node : nodes_)
      for (uint32_t e = n_.first_edge(node); e != kNone; e = n_.at_edge(e).next)
        if (n_.at_edge(e).kind == Network::kCall && !g.to.push(n_.at_edge(e).value)) return kErrMemory;
  }
  g.begin[n_.n_rules()] = static_cast<uint32_t>(g.to.size());
  return failed_ ? kErrMemory : kOk;
}

Status Analysis::find_rules(uint32_t root, Span<char> message) {
  CallGraph g(n_.allocator());
  if (const Status s = graph(false, g); s != kOk) return s;
  Components components(g, n_.allocator());
  if (const Status s = components.run(Span<const uint32_t>(&root, 1)); s != kOk) return s;
  order_ = static_cast<Vec<uint32_t>&&>(components.members);
  for (uint32_t r : order_)
    if (!n_.at_rule(r).is_repeat() && n_.at_rule(r).body.start == kNone) {
      format_to(message, "rule '", n_.name(r), "' is not defined");
      return kErrInput;
    }
  return kOk;
}

// Rules that go on over many different bytes and end with few (strings, say) are better called: the masks within them
// then serve all places. Others would end within most tokens, and are better part of their surroundings.
bool Analysis::worth_inlining(uint32_t rule) {
  if (n_.at_rule(rule).is_repeat()) return false;
  Vec<uint32_t> nodes(n_.allocator());
  if (collect(rule).size() > kMostInlined) return false;
  if (!nodes.copy(nodes_)) failed_ = true;
  const uint32_t end = n_.at_rule(rule).body.end;
  bool all[256] = {}, last[256] = {};
  for (uint32_t node : nodes)
    for (uint32_t e = n_.first_edge(node); e != kNone && !failed_; e = n_.at_edge(e).next) {
      const Edge& edge = n_.at_edge(e);
      if (edge.kind == Network::kCall) return false;
      if (edge.kind != Network::kBytes) continue;
      closure(Span<const uint32_t>(&edge.to, 1));
      const bool ends = seen_[end] == walk_;
      for (int b = edge.lo(); b <= edge.hi(); ++b) all[b] = true, last[b] |= ends;
    }
  int n_all = 0, n_last = 0;
  for (int b = 0; b < 256; ++b) n_all += all[b], n_last += last[b];
  return n_all < 64 || n_last > 4;
}

void Analysis::inline_small() {
  Vec<uint8_t> flat(n_.allocator());
  Vec<uint32_t> nodes(n_.allocator());
  if (!flat.resize(n_.n_rules())) {
    failed_ = true;
    return;
  }
  for (uint32_t r : order_) {
    if (failed_ || n_.failed()) return;
    if (n_.n_nodes() < kMostNodes && !n_.at_rule(r).is_repeat()) {
      if (!nodes.copy(collect(r))) failed_ = true;
      for (uint32_t node : nodes)
        for (uint32_t e = n_.first_edge(node); e != kNone && !n_.failed(); e = n_.at_edge(e).next) {
          const Edge edge = n_.at_edge(e);
          if (edge.kind != Network::kCall || !flat[edge.value]) continue;
          const Fragment part = n_.copy(n_.at_rule(edge.value).body);
          if (n_.failed()) return;
          n_.epsilon(part.end, edge.to);
          n_.at_edge(e).kind = Network::kEpsilon;
          n_.at_edge(e).to = part.start;
        }
    }
    flat[r] = worth_inlining(r);
  }
}

bool Analysis::may_be_empty(uint32_t rule) {
  const Network::Rule& r = n_.at_rule(rule);
  if (r.is_repeat()) return r.min == 0 || nullable_[r.repeated];
  closure(Span<const uint32_t>(&r.body.start, 1));
  return !failed_ && seen_[r.body.end] == walk_;
}

// Marks: node * 2, and + 1 once something was read.
bool Analysis::has_text(uint32_t rule) {
  const Network::Rule& r = n_.at_rule(rule);
  if (r.is_repeat()) return useful_[r.repeated];
  begin_walk(n_.n_nodes() * 2);
  visit(r.body.start * 2);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const uint32_t read = nodes_[i] & 1;
    for (uint32_t e = n_.first_edge(nodes_[i] / 2); e != kNone; e = n_.at_edge(e).next) {
      const Edge& edge = n_.at_edge(e);
      const bool call = edge.kind == Network::kCall;
      if (edge.kind == Network::kEpsilon || (call && nullable_[edge.value])) visit(edge.to * 2 + read);
      if (edge.kind == Network::kBytes || (call && useful_[edge.value])) visit(edge.to * 2 + 1);
    }
  }
  return !failed_ && seen_[r.body.end * 2 + 1] == walk_;
}

Status Analysis::find_nullable() {
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t r : order_)
      if (!nullable_[r] && may_be_empty(r)) nullable_[r] = 1, changed = true;
  }
  // Turns that read nothing count for nothing, so any number of them may be there.
  for (uint32_t r : order_)
    if (n_.at_rule(r).is_repeat() && nullable_[n_.at_rule(r).repeated]) n_.at_rule(r).min = 0;
  return failed_ ? kErrMemory : kOk;
}

Status Analysis::find_useful() {
  if (!useful_.resize(n_.n_rules())) return kErrMemory;
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t r : order_)
      if (!useful_[r] && has_text(r)) useful_[r] = 1, changed = true;
  }
  return failed_ ? kErrMemory : kOk;
}

// A start that nothing leads back to, with all that can come first as its own edges.
void Analysis::separate_start(uint32_t rule) {
  const uint32_t old = n_.at_rule(rule).body.start, fresh = n_.node();
  closure(Span<const uint32_t>(&old, 1));
  for (uint32_t node : nodes_)
    for (uint32_t e = n_.first_edge(node); e != kNone; e = n_.at_edge(e).next) {
      const Edge edge = n_.at_edge(e);
      if (edge.kind == Network::kBytes) n_.bytes(fresh, edge.lo(), edge.hi(), edge.to);
      if (edge.kind == Network::kCall && useful_[edge.value]) n_.call(fresh, edge.value, edge.to);
      if (n_.failed()) return;
    }
  n_.at_rule(rule).body.start = fresh;
  if (n_.failed() || !separate_.resize(fresh + 1)) failed_ = true;
  if (!failed_) separate_[fresh] = 1;
}

// Puts rule `which` where `into` begins with a call of it.
void Analysis::put_left(uint32_t into, uint32_t which) {
  const uint32_t start = n_.at_rule(into).body.start;
  uint32_t e = n_.first_edge(start);
  n_.clear_edges(start);
  for (uint32_t next; e != kNone && !n_.failed(); e = next) {
    const Edge edge = n_.at_edge(e);
    next = edge.next;
    if (edge.kind == Network::kBytes) {
      n_.bytes(start, edge.lo(), edge.hi(), edge.to);
    } else if (edge.value != which) {
      n_.call(start, edge.value, edge.to);
    } else {
      const Fragment part = n_.copy(n_.at_rule(which).body);
      if (n_.failed()) return;
      n_.epsilon(part.end, edge.to);
      for (uint32_t f = n_.first_edge(part.start); f != kNone && !n_.failed(); f = n_.at_edge(f).next) {
        const Edge first = n_.at_edge(f);
        if (first.kind == Network::kBytes) n_.bytes(start, first.lo(), first.hi(), first.to);
        if (first.kind == Network::kCall) n_.call(start, first.value, first.to);
      }
    }
  }
}

void Analysis::remove_direct(uint32_t rule) {
  const Fragment body = n_.at_rule(rule).body;
  uint32_t e = n_.first_edge(body.start);
  n_.clear_edges(body.start);
  for (uint32_t next; e != kNone && !n_.failed(); e = next) {
    const Edge edge = n_.at_edge(e);
    next = edge.next;
    if (edge.kind == Network::kBytes)
      n_.bytes(body.start, edge.lo(), edge.hi(), edge.to);
    else if (edge.value != rule)
      n_.call(body.start, edge.value, edge.to);
    else
      n_.epsilon(body.end, edge.to);
  }
}

Status Analysis::untangle(Span<const uint32_t> rules, Span<char> message) {
  const size_t before = n_.n_nodes();
  for (uint32_t r : rules) {
    if (n_.at_rule(r).is_repeat()) {
      uint32_t named = r;
      for (uint32_t other : rules)
        if (n_.name(other) != Str("a repetition")) named = other;
      format_to(message, "rule '", n_.name(named), "' is left-recursive through a counted repetition");
      return kErrInput;
    }
    separate_start(r);
  }
  for (size_t i = 0; i < rules.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      put_left(rules[i], rules[j]);
      if (n_.failed() || n_.n_nodes() - before > kMostUntangled) {
        format_to(message, "the left recursion of rule '", n_.name(rules[i]), "' is too large");
        return kErrInput;
      }
    }
    remove_direct(rules[i]);
  }
  return kOk;
}

Status Analysis::remove_left_recursion(Span<char> message) {
  CallGraph g(n_.allocator());
  if (const Status s = graph(true, g); s != kOk) return s;
  Components components(g, n_.allocator());
  if (const Status s = components.run(order_); s != kOk) return s;
  uint32_t begin = 0;
  for (uint32_t end : components.ends) {
    const Span<const uint32_t> members = components.members.span().sub(begin, end - begin);
    bool recursive = members.size() > 1;
    for (uint32_t t : g.of(members[0])) recursive |= t == members[0];
    if (recursive)
      if (const Status s = untangle(members, message); s != kOk) return s;
    begin = end;
  }
  // The order that is left, in which no rule comes to itself: components come after those that they lead to.
  CallGraph now(n_.allocator());
  if (const Status s = graph(true, now); s != kOk) return s;
  Components order(now, n_.allocator());
  if (const Status s = order.run(order_); s != kOk) return s;
  if (!rank_.resize(n_.n_rules())) return kErrMemory;
  for (uint32_t i = 0; i < order.members.size(); ++i)
    rank_[order.members[i]] = static_cast<uint32_t>(order.members.size()) - i;
  for (uint32_t r : order_)
    for (uint32_t t : now.of(r))
      if (t == r) return kErrFull;
  return order.ends.size() == order.members.size() ? kOk : kErrFull;
}

Status Analysis::run(uint32_t root, Span<char> message) {
  if (!nullable_.resize(n_.n_rules())) return kErrMemory;  // none is known yet
  Status s = find_rules(root, message);
  if (s != kOk) return s;
  inline_small();
  if (s == kOk) s = failed_ || n_.failed() ? kErrMemory : find_rules(root, message);
  if (s == kOk) s = find_nullable();
  if (s == kOk) s = find_useful();
  if (s == kOk && !useful_[root] && !nullable_[root]) {
    format_to(message, "rule '", n_.name(root), "' can never come to an end");
    return kErrInput;
  }
  if (s == kOk) s = remove_left_recursion(message);
  if (s == kOk && (failed_ || n_.failed())) s = kErrMemory;
  return s;
}

}  // namespace grammar
}  // namespace gcrt
