#include "runtime/text/grammar/program.h"

#include "runtime/base/format.h"
#include "runtime/base/sort.h"
#include "runtime/text/grammar/analysis.h"

namespace gcrt {
namespace grammar {
namespace {

constexpr size_t kMostStates = 1u << 20;
constexpr size_t kMostProgramEdges = 1u << 23;
// Of a rule, before its nodes become its states.
constexpr size_t kMostSets = 20'000, kMostSetWords = 1u << 21;

class Maker {
 public:
  Maker(Network& n, Analysis& analysis, Program& out)
      : n_(n),
        analysis_(analysis),
        out_(out),
        sets_(n.allocator()),
        set_(n.allocator()),
        arcs_(n.allocator()),
        targets_(n.allocator()),
        alive_(n.allocator()),
        todo_(n.allocator()),
        back_(n.allocator()),
        back_first_(n.allocator()) {}

  Status run(uint32_t root) {
    if (!out_.rules.resize(n_.n_rules())) return kErrMemory;
    // The ends of the stack.
    for (uint32_t i = 0; i < kFirstState; ++i)
      if (!out_.states.push({0, 0, 0, 0, false, false, kNone})) return kErrMemory;
    for (uint32_t r : analysis_.rules())
      if (const Status s = analysis_.useful(r) ? make_rule(r) : kOk; s != kOk) return s;
    out_.root = root;
    out_.root_may_be_empty = analysis_.nullable(root);
    if (!analysis_.useful(root)) out_.rules[root].start = kNone;
    return kOk;
  }

 private:
  // An edge of one of the nodes of a set.
  struct Arc {
    uint8_t lo, hi;
    bool call;
    uint32_t rule;
    uint32_t to;  // a node
  };

  Status make_rule(uint32_t r) {
    const Network::Rule& rule = n_.at_rule(r);
    ProgramRule& made = out_.rules[r];
    made.rank = analysis_.rank(r);
    made.start = kNone;
    if (rule.is_repeat()) {
      made.body = rule.repeated;
      made.min = rule.min, made.max = rule.max;
      made.loop = static_cast<uint32_t>(out_.states.size());
      return out_.states.push({0, 0, 0, 0, false, false, r}) ? kOk : kErrMemory;
    }
    const size_t states = out_.states.size(), bytes = out_.bytes.size(), calls = out_.calls.size();
    made.start = static_cast<uint32_t>(states);
    Status s = make_states(rule.body, true, kMostSets);
    if (s == kErrFull) {
      out_.states.truncate(states), out_.bytes.truncate(bytes), out_.calls.truncate(calls);
      s = make_states(rule.body, false, kMostStates);
    }
    made.n_states = static_cast<uint32_t>(out_.states.size() - states);
    if (s == kOk) s = trim(states);
    if (s == kOk && end_state_ != kNone && !out_.states[end_state_].tail) made.again = end_state_;
    return s;
  }

  // The state of a set of nodes (of one node alone, where sets are too many).
  uint32_t state_of(Span<const uint32_t> nodes) {
    const Span<const uint32_t> closed = analysis_.closure(nodes);
    set_.clear();
    for (uint32_t node : closed) {
      bool keep = node == end_;
      for (uint32_t e = n_.first_edge(node); e != kNone; e = n_.at_edge(e).next)
        keep |= n_.at_edge(e).kind != Network::kEpsilon;
      if (keep && !set_.push(node)) return kNone;
    }
    sort(set_.data(), set_.size(), [](uint32_t a, uint32_t b) { return a < b; });
    const uint32_t id = sets_.intern(set_);
    return id == kNone ? kNone : base_ + id;
  }

  Status make_states(Fragment body, bool deterministic, size_t most) {
    sets_.clear();
    base_ = static_cast<uint32_t>(out_.states.size());
    end_ = body.end;
    if (state_of(Span<const uint32_t>(&body.start, 1)) == kNone) return kErrMemory;
    for (uint32_t i = 0; i < sets_.size(); ++i) {
      if (sets_.size() > most || (deterministic && sets_.words() > kMostSetWords) ||
          out_.states.size() > kMostStates || out_.bytes.size() > kMostProgramEdges)
        return kErrFull;
      if (const Status s = make_state(i, deterministic); s != kOk) return s;
    }
    const uint32_t made = base_ + static_cast<uint32_t>(sets_.size());
    end_state_ = state_of(Span<const uint32_t>(&end_, 1));
    if (end_state_ == kNone) return kErrMemory;
    if (end_state_ >= made) end_state_ = kNone;  // nothing leads to the end alone
    return kOk;
  }

  Status make_state(uint32_t id, bool deterministic) {
    State state = {static_cast<uint32_t>(out_.bytes.size()),
                   0,
                   static_cast<uint32_t>(out_.calls.size()),
                   0,
                   false,
                   false,
                   kNone};
    arcs_.clear();
    for (uint32_t node : sets_[id]) {
      state.final |= node == end_;
      for (uint32_t e = n_.first_edge(node); e != kNone; e = n_.at_edge(e).next) {
        const Network::Edge& edge = n_.at_edge(e);
        const bool call = edge.kind == Network::kCall;
        if (edge.kind == Network::kEpsilon || (call && !analysis_.useful(edge.value))) continue;
        const Arc arc = {edge.lo(), edge.hi(), call, call ? edge.value : 0, edge.to};
        if (!arcs_.push(arc)) return kErrMemory;
      }
    }
    const Status s = deterministic ? join_arcs() : single_arcs();
    state.n_bytes = static_cast<uint32_t>(out_.bytes.size()) - state.first_byte;
    state.n_calls = static_cast<uint32_t>(out_.calls.size()) - state.first_call;
    if (s == kOk && !out_.states.push(state)) return kErrMemory;
    return s;
  }

  Status single_arcs() {
    sort(arcs_.data(), arcs_.size(), [](const Arc& a, const Arc& b) { return a.lo < b.lo; });
    for (const Arc& arc : arcs_) {
      const uint32_t to = state_of(Span<const uint32_t>(&arc.to, 1));
      if (to == kNone) return kErrMemory;
      if (!(arc.call ? out_.calls.push({arc.rule, to}) : out_.bytes.push({arc.lo, arc.hi, to})))
        return kErrMemory;
    }
    return kOk;
  }

  // The state that all arcs that `take` lead to, kNone when memory is out, 0 when there is no arc.
  template <class Take>
  uint32_t join(Take take) {
    targets_.clear();
    for (const Arc& arc : arcs_)
      if (take(arc) && !targets_.push(arc.to)) return kNone;
    return targets_.empty() ? 0 : state_of(targets_);
  }

  Status join_arcs() {
    bool starts[257] = {};
    for (const Arc& arc : arcs_)
      if (!arc.call) starts[arc.lo] = starts[arc.hi + 1] = true;
    for (int lo = 0; lo < 256;) {
      int hi = lo;
      while (hi < 255 && !starts[hi + 1]) ++hi;
      const uint32_t to = join([lo](const Arc& a) { return !a.call && a.lo <= lo && a.hi >= lo; });
      if (to == kNone) return kErrMemory;
      ByteEdge* last = out_.bytes.empty() || lo == 0 ? nullptr : &out_.bytes.back();
      if (to != 0) {
        if (last && last_to_ == to && last->hi + 1 == lo && last->to == to)
          last->hi = static_cast<uint8_t>(hi);
        else if (!out_.bytes.push({static_cast<uint8_t>(lo), static_cast<uint8_t>(hi), to}))
          return kErrMemory;
      }
      last_to_ = to;
      lo = hi + 1;
    }
    last_to_ = 0;
    sort(arcs_.data(), arcs_.size(),
         [](const Arc& a, const Arc& b) { return a.call != b.call ? a.call : a.rule < b.rule; });
    for (size_t i = 0; i < arcs_.size() && arcs_[i].call; ++i) {
      const uint32_t rule = arcs_[i].rule;
      if (i && arcs_[i - 1].rule == rule) continue;
      const uint32_t to = join([rule](const Arc& a) { return a.call && a.rule == rule; });
      if (to == kNone || !out_.calls.push({rule, to})) return kErrMemory;
    }
    return kOk;
  }

  // Cuts edges to states from which the rule has no end, and finds the tails.
  Status trim(size_t first) {
    const size_t n = out_.states.size() - first;
    back_first_.clear(), back_.clear(), alive_.clear(), todo_.clear();
    if (!back_first_.resize(n) || !alive_.resize(n)) return kErrMemory;
    for (uint32_t& b : back_first_) b = kNone;
    auto link = [&](size_t from, uint32_t to) {
      const uint32_t at = static_cast<uint32_t>(back_.size());
      if (!back_.push({static_cast<uint32_t>(from), back_first_[to - first]})) return false;
      back_first_[to - first] = at;
      return true;
    };
    for (size_t i = 0; i < n; ++i) {
      const State& s = out_.states[first + i];
      for (uint32_t e = 0; e < s.n_bytes; ++e)
        if (!link(i, out_.bytes[s.first_byte + e].to)) return kErrMemory;
      for (uint32_t e = 0; e < s.n_calls; ++e)
        if (!link(i, out_.calls[s.first_call + e].to)) return kErrMemory;
      if (s.final && !todo_.push(static_cast<uint32_t>(i))) return kErrMemory;
      alive_[i] = s.final;
    }
    while (!todo_.empty()) {
      const uint32_t i = todo_.back();
      todo_.pop();
      for (uint32_t b = back_first_[i]; b != kNone; b = back_[b].next)
        if (!alive_[back_[b].from]) {
          alive_[back_[b].from] = 1;
          if (!todo_.push(back_[b].from)) return kErrMemory;
        }
    }
    for (size_t i = 0; i < n; ++i) {
      State& s = out_.states[first + i];
      uint32_t kept = 0;
      for (uint32_t e = 0; e < s.n_bytes; ++e) {
        const ByteEdge edge = out_.bytes[s.first_byte + e];
        if (alive_[edge.to - first]) out_.bytes[s.first_byte + kept++] = edge;
      }
      s.n_bytes = kept, kept = 0;
      for (uint32_t e = 0; e < s.n_calls; ++e) {
        const CallEdge edge = out_.calls[s.first_call + e];
        if (alive_[edge.to - first]) out_.calls[s.first_call + kept++] = edge;
      }
      s.n_calls = kept;
      s.tail = s.final && s.n_bytes == 0 && s.n_calls == 0;
    }
    return kOk;
  }

  struct Back {
    uint32_t from, next;
  };

  Network& n_;
  Analysis& analysis_;
  Program& out_;
  Interner sets_;
  uint32_t base_ = 0, end_ = 0, end_state_ = kNone, last_to_ = 0;
  Vec<uint32_t> set_;
  Vec<Arc> arcs_;
  Vec<uint32_t> targets_;
  Vec<uint8_t> alive_;
  Vec<uint32_t> todo_;
  Vec<Back> back_;
  Vec<uint32_t> back_first_;
};

}  // namespace

Status make_program(Network& network, uint32_t root, Program& out, Span<char> message) {
  if (network.failed()) {
    format_to(message, "the grammar is too large");
    return kErrFull;
  }
  Analysis analysis(network);
  Status s = analysis.run(root, message);
  if (s == kOk) s = Maker(network, analysis, out).run(root);
  if (s == kErrFull) format_to(message, "the grammar is too large");
  if (s == kErrMemory) format_to(message, "not enough memory for the grammar");
  return s;
}

}  // namespace grammar
}  // namespace gcrt
