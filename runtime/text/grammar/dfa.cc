#include "runtime/text/grammar/dfa.h"

#include "runtime/base/int_map.h"
#include "runtime/base/sort.h"
#include "runtime/text/utf8.h"

namespace gcrt {
namespace grammar {

Status Dfa::build(Span<const uint8_t> accepts, Vec<Arc>& arcs) {
  if (accepts.size() > kMostStates) return kErrFull;
  sort(arcs.data(), arcs.size(),
       [](const Arc& a, const Arc& b) { return a.from != b.from ? a.from < b.from : a.lo < b.lo; });
  states_.clear(), edges_.clear();
  size_t at = 0;
  for (uint32_t s = 0; s < accepts.size(); ++s) {
    State state = {static_cast<uint32_t>(edges_.size()), 0, accepts[s] != 0};
    for (; at < arcs.size() && arcs[at].from == s; ++at) {
      const Arc& a = arcs[at];
      if (edges_.size() > state.first && edges_.back().to == a.to && edges_.back().hi + 1 == a.lo)
        edges_.back().hi = a.hi;
      else if (!edges_.push({a.lo, a.hi, a.to}))
        return kErrMemory;
    }
    state.n = static_cast<uint32_t>(edges_.size()) - state.first;
    if (!states_.push(state)) return kErrMemory;
  }
  return trim();
}

Status Dfa::set_all() {
  states_.clear(), edges_.clear();
  return states_.push({0, 1, true}) && edges_.push({0, kMaxCode, 0}) ? kOk : kErrMemory;
}

Status Dfa::set_text(Str text) {
  states_.clear(), edges_.clear();
  while (!text.empty()) {
    const int n = utf8_next(text);
    if (n <= 0) return kErrInput;
    const uint32_t c = utf8_decode(text.data(), n), at = static_cast<uint32_t>(edges_.size());
    if (at >= kMostStates) return kErrFull;
    if (!states_.push({at, 1, false}) || !edges_.push({c, c, at + 1})) return kErrMemory;
    text = text.sub(static_cast<size_t>(n));
  }
  return states_.push({static_cast<uint32_t>(edges_.size()), 0, true}) ? kOk : kErrMemory;
}

Status Dfa::set_length(uint32_t min, uint32_t max) {
  states_.clear(), edges_.clear();
  const uint32_t last = max == Network::kUnbounded ? min : max;
  if (last >= kMostStates) return kErrFull;
  for (uint32_t i = 0; i <= last; ++i) {
    const bool more = i < last || max == Network::kUnbounded;
    if (!states_.push({static_cast<uint32_t>(edges_.size()), more, i >= min})) return kErrMemory;
    if (more && !edges_.push({0, kMaxCode, min_of(i + 1, last)})) return kErrMemory;
  }
  return trim();
}

Status Dfa::set_copy(const Dfa& a) {
  return states_.copy(a.states_) && edges_.copy(a.edges_) ? kOk : kErrMemory;
}

Status Dfa::combine(const Dfa& a, const Dfa& b, Op op) {
  struct Pair {
    uint32_t a, b;  // kNone: nothing can be accepted there any more
  };
  Vec<Pair> pairs(allocator());
  IntMap<uint32_t> known(allocator());  // id + 1
  auto id = [&](Pair p) -> uint32_t {
    uint32_t* v = known.get(static_cast<int64_t>(static_cast<uint64_t>(p.a) << 32 | p.b));
    if (!v) return kNone;
    if (*v == 0) {
      if (!pairs.push(p)) return kNone;
      *v = static_cast<uint32_t>(pairs.size());
    }
    return *v - 1;
  };
  states_.clear(), edges_.clear();
  const Pair start = {a.empty() ? kNone : 0, b.empty() ? kNone : 0};
  if (id(start) == kNone) return kErrMemory;
  for (uint32_t i = 0; i < pairs.size(); ++i) {
    if (pairs.size() > kMostStates || edges_.size() > kMostStates * 16) return kErrFull;
    const Pair p = pairs[i];
    const State none = {0, 0, false};
    const State& sa = p.a == kNone ? none : a.states_[p.a];
    const State& sb = p.b == kNone ? none : b.states_[p.b];
    bool accepts = sa.accepts;
    if (op == Op::kAnd) accepts = accepts && sb.accepts;
    if (op == Op::kOr) accepts = accepts || sb.accepts;
    if (op == Op::kWithout) accepts = accepts && !sb.accepts;
    State state = {static_cast<uint32_t>(edges_.size()), 0, accepts};
    uint32_t ia = 0, ib = 0;
    for (uint32_t lo = 0; lo <= kMaxCode;) {
      while (ia < sa.n && a.edges_[sa.first + ia].hi < lo) ++ia;
      while (ib < sb.n && b.edges_[sb.first + ib].hi < lo) ++ib;
      uint32_t hi = kMaxCode;
      Pair to = {kNone, kNone};
      auto look = [&](const Dfa& d, const State& s, uint32_t e, uint32_t* target) {
        if (e >= s.n) return;
        const Edge& edge = d.edges_[s.first + e];
        if (edge.lo <= lo) {
          *target = edge.to;
          hi = min_of(hi, edge.hi);
        } else {
          hi = min_of(hi, edge.lo - 1);
        }
      };
      look(a, sa, ia, &to.a);
      look(b, sb, ib, &to.b);
      const bool possible = op == Op::kAnd  ? to.a != kNone && to.b != kNone
                            : op == Op::kOr ? to.a != kNone || to.b != kNone
                                            : to.a != kNone;
      if (possible) {
        const uint32_t t = id(to);
        if (t == kNone) return kErrMemory;
        if (edges_.size() > state.first && edges_.back().to == t && edges_.back().hi + 1 == lo)
          edges_.back().hi = hi;
        else if (!edges_.push({lo, hi, t}))
          return kErrMemory;
      }
      lo = hi + 1;
    }
    state.n = static_cast<uint32_t>(edges_.size()) - state.first;
    if (!states_.push(state)) return kErrMemory;
  }
  return trim();
}

Status Dfa::apply(const Dfa& b, Op op) {
  Dfa out(allocator());
  if (const Status s = out.combine(*this, b, op); s != kOk) return s;
  swap_values(*this, out);
  return kOk;
}

Status Dfa::trim() {
  const size_t n = states_.size();
  struct Back {
    uint32_t from, next;
  };
  Vec<Back> back(allocator());
  Vec<uint32_t> first(allocator()), todo(allocator()), fresh(allocator());
  if (!first.resize(n) || !fresh.resize(n)) return kErrMemory;
  for (uint32_t& f : first) f = kNone;
  for (uint32_t& f : fresh) f = kNone;
  for (uint32_t s = 0; s < n; ++s) {
    for (uint32_t e = 0; e < states_[s].n; ++e) {
      uint32_t& head = first[edges_[states_[s].first + e].to];
      if (!back.push({s, head})) return kErrMemory;
      head = static_cast<uint32_t>(back.size() - 1);
    }
    if (states_[s].accepts) {
      fresh[s] = 0;
      if (!todo.push(s)) return kErrMemory;
    }
  }
  while (!todo.empty()) {
    const uint32_t s = todo.back();
    todo.pop();
    for (uint32_t b = first[s]; b != kNone; b = back[b].next)
      if (fresh[back[b].from] == kNone) {
        fresh[back[b].from] = 0;
        if (!todo.push(back[b].from)) return kErrMemory;
      }
  }
  if (n == 0 || fresh[0] == kNone) {
    states_.clear(), edges_.clear();
    return kOk;
  }
  uint32_t kept = 0, edges = 0;
  for (uint32_t s = 0; s < n; ++s)
    if (fresh[s] != kNone) fresh[s] = kept++;
  for (uint32_t s = 0; s < n; ++s) {
    if (fresh[s] == kNone) continue;
    State state = {edges, 0, states_[s].accepts};
    for (uint32_t e = 0; e < states_[s].n; ++e) {
      Edge edge = edges_[states_[s].first + e];
      if (fresh[edge.to] == kNone) continue;
      edge.to = fresh[edge.to];
      edges_[edges++] = edge;
    }
    state.n = edges - state.first;
    states_[fresh[s]] = state;
  }
  states_.truncate(kept);
  edges_.truncate(edges);
  return kOk;
}

bool Dfa::accepts(Str text) const {
  if (empty()) return false;
  uint32_t at = 0;
  while (!text.empty()) {
    const int n = utf8_next(text);
    if (n <= 0) return false;
    const uint32_t c = utf8_decode(text.data(), n);
    uint32_t to = kNone;
    for (uint32_t e = 0; e < states_[at].n && to == kNone; ++e) {
      const Edge& edge = edges_[states_[at].first + e];
      if (c >= edge.lo && c <= edge.hi) to = edge.to;
    }
    if (to == kNone) return false;
    at = to;
    text = text.sub(static_cast<size_t>(n));
  }
  return states_[at].accepts;
}

}  // namespace grammar
}  // namespace gcrt
