#include "runtime/text/grammar/machine.h"

#include "runtime/base/sort.h"

namespace gcrt {
namespace grammar {

Machine::Machine(const Program& program, Allocator a)
    : program_(program),
      allocator_(a),
      frames_(a),
      situations_(a),
      pages_(a),
      returned_(a),
      arrivals_(a),
      pending_(a),
      returns_(a),
      flat_(a),
      items_(a),
      words_(a),
      seen_keys_(a),
      seen_when_(a) {}

Machine::~Machine() {
  for (uint32_t* page : pages_) allocator_.put(page, kPageBytes, 64);
}

Status Machine::init() {
  if (!seen_keys_.resize(256) || !seen_when_.resize(256)) return kErrMemory;
  begin();
  if (intern() != kDead) return kErrMemory;
  constexpr uint32_t kEndStates[] = {kTextEnd, kHole};
  for (uint32_t end : kEndStates) {
    returns_.clear();
    if (!returns_.push({end, 0})) return kErrMemory;
    (end == kTextEnd ? bottom_ : hole_) = plain_frame(returns_);
  }
  begin();
  const ProgramRule& root = program_.rules[program_.root];
  if (root.start != kNone || root.body != kNone) enter(program_.root, bottom_);
  enter_calls();
  if (program_.root_may_be_empty) flags_ |= kEnds;
  start_ = finish();
  return status_;
}

bool Machine::seen(uint32_t state, uint32_t frame) {
  const uint64_t key = static_cast<uint64_t>(state) << 32 | frame;
  if (n_seen_ * 2 > seen_keys_.size()) {
    // Twice the room; what was seen in this round goes over.
    Vec<uint64_t> keys(allocator_);
    Vec<uint32_t> when(allocator_);
    if (!keys.resize(seen_keys_.size() * 2) || !when.resize(seen_keys_.size() * 2)) {
      broke(kErrMemory);
      return true;
    }
    for (size_t i = 0; i < seen_keys_.size(); ++i) {
      if (seen_when_[i] != now_) continue;
      size_t at = (seen_keys_[i] * 0x9E3779B97F4A7C15u >> 20) & (keys.size() - 1);
      while (when[at] == now_) at = (at + 1) & (keys.size() - 1);
      keys[at] = seen_keys_[i], when[at] = now_;
    }
    seen_keys_ = static_cast<Vec<uint64_t>&&>(keys);
    seen_when_ = static_cast<Vec<uint32_t>&&>(when);
  }
  size_t at = (key * 0x9E3779B97F4A7C15u >> 20) & (seen_keys_.size() - 1);
  for (; seen_when_[at] == now_; at = (at + 1) & (seen_keys_.size() - 1))
    if (seen_keys_[at] == key) return true;
  seen_keys_[at] = key, seen_when_[at] = now_;
  if (++n_seen_ > kMostItems) broke(kErrFull);
  return false;
}

void Machine::begin() {
  ++now_;
  n_seen_ = 0;
  flags_ = 0;
  turned_ = within_ = false;
  arrivals_.clear();
  pending_.clear();
  items_.clear();
}

void Machine::arrive(uint32_t state, uint32_t frame) {
  if (!arrivals_.push({state, frame})) broke(kErrMemory);
}

void Machine::add_item(uint32_t state, uint32_t frame) {
  if (items_.size() >= kMostItems) return broke(kErrFull);
  if (!items_.push({state, frame})) broke(kErrMemory);
}

// A call in last place returns to where its caller would.
void Machine::call(uint32_t rule, uint32_t to, uint32_t frame) {
  const uint32_t rank = program_.rules[rule].rank;
  auto less = [](const Pending& a, const Pending& b) { return a.rank > b.rank; };
  auto add = [&](Return r) {
    if (pending_.size() >= kMostItems) return broke(kErrFull);
    if (!pending_.push({rank, rule, r})) return broke(kErrMemory);
    sift_up(pending_.data(), pending_.size() - 1, less);
  };
  const Span<const uint32_t> below = frames_[frame];
  if (to >= kFirstState && program_.states[to].tail && below[0] == 0) {
    for (size_t i = 1; i < below.size(); i += 2) add({below[i], below[i + 1]});
  } else {
    add({to, frame});
  }
}

// A frame of a rule, with what its returns to the end of the same rule return to in their place. Those frames were made so
// too, so once is enough.
uint32_t Machine::without_turns(const ProgramRule& rule, uint32_t frame) {
  const uint32_t again = rule.again;
  if (again == kNone) return frame;
  const Span<const uint32_t> returns = frames_[frame];
  work_ += returns.size() / 8;
  bool turns = false;
  for (size_t i = 1; i < returns.size(); i += 2) turns |= returns[i] == again;
  if (!turns) return frame;
  flat_.clear();
  bool ok = true;
  for (size_t i = 1; i < returns.size(); i += 2) {
    if (returns[i] != again) {
      ok = ok && flat_.push({returns[i], returns[i + 1]});
      continue;
    }
    const Span<const uint32_t> outer = frames_[returns[i + 1]];
    for (size_t k = 1; k < outer.size(); k += 2) ok = ok && flat_.push({outer[k], outer[k + 1]});
  }
  if (!ok) broke(kErrMemory);
  const uint32_t flat = plain_frame(flat_);
  return flat == kNone ? frame : flat;
}

void Machine::take_calls(uint32_t state, uint32_t frame) {
  const State& s = program_.states[state];
  if (s.n_bytes) add_item(state, frame);
  for (uint32_t c = 0; c < s.n_calls; ++c) {
    const CallEdge& edge = program_.calls[s.first_call + c];
    call(edge.rule, edge.to, frame);
  }
}

// A time round ended.
void Machine::loop_arrival(uint32_t rule, uint32_t frame) {
  const ProgramRule& r = program_.rules[rule];
  const Span<const uint32_t> words = frames_[frame];
  const uint32_t count = words[2], below = words[3];
  if (count == kAnyCount) {
    turned_ = true;
    flags_ |= kTurn | kReturns;
    call(r.body, r.loop, frame);
    return;
  }
  uint32_t next = count + 1;
  if (r.max == Network::kUnbounded) next = min_of(next, r.min);
  if (next >= r.min) {
    const Span<const uint32_t> returns = frames_[below];
    for (size_t i = 1; i < returns.size(); i += 2) arrive(returns[i], returns[i + 1]);
  }
  if (next < r.max) {
    const uint32_t counted = count_frame(rule, next, below);
    call(r.body, r.loop, counted);
  }
}

void Machine::settle() {
  for (size_t i = 0; i < arrivals_.size() && status_ == kOk; ++i) {
    ++work_;
    const Return a = arrivals_[i];
    if (seen(a.state, a.frame)) continue;
    if (a.state == kTextEnd) {
      flags_ |= kEnds;
      continue;
    }
    if (a.state == kHole) {
      flags_ |= kReturns;
      continue;
    }
    const State& s = program_.states[a.state];
    if (s.repeat != kNone) {
      loop_arrival(s.repeat, a.frame);
      continue;
    }
    if (s.final) {
      const Span<const uint32_t> returns = frames_[a.frame];
      for (size_t k = 1; k < returns.size(); k += 2) arrive(returns[k], returns[k + 1]);
    }
    if (s.n_bytes || s.n_calls) within_ = true;
    take_calls(a.state, a.frame);
  }
  arrivals_.clear();
}

void Machine::enter(uint32_t rule, uint32_t frame) {
  const ProgramRule& r = program_.rules[rule];
  if (r.body == kNone) return take_calls(r.start, without_turns(r, frame));
  call(r.body, r.loop, count_frame(rule, 0, frame));
}

// Rules in the order of their ranks: all who call one have been entered before it is.
void Machine::enter_calls() {
  auto less = [](const Pending& a, const Pending& b) { return a.rank > b.rank; };
  while (!pending_.empty() && status_ == kOk) {
    const uint32_t rule = pending_[0].rule;
    returns_.clear();
    while (!pending_.empty() && pending_[0].rule == rule) {
      ++work_;
      if (!returns_.push(pending_[0].to)) broke(kErrMemory);
      pop_heap(pending_.data(), pending_.size(), less);
      pending_.pop();
    }
    const uint32_t frame = plain_frame(returns_);
    if (frame != kNone) enter(rule, frame);
  }
}

// Of two counts of a repetition that both may end, the smaller allows all that the other does.
void Machine::drop_dominated(Vec<Return>& returns) {
  for (size_t i = 0; i < returns.size(); ++i) {
    const Return a = returns[i];
    if (a.state < kFirstState || program_.states[a.state].repeat == kNone) continue;
    const Span<const uint32_t> fa = frames_[a.frame];
    const uint32_t min = program_.rules[program_.states[a.state].repeat].min;
    if (fa[2] == kAnyCount || fa[2] < min) continue;
    size_t kept = i + 1;
    for (size_t k = i + 1; k < returns.size(); ++k) {
      const Return b = returns[k];
      const Span<const uint32_t> fb = frames_[b.frame];
      if (b.state == a.state && fb[3] == fa[3] && fb[2] != kAnyCount && fb[2] >= min) {
        if (fb[2] < frames_[returns[i].frame][2]) returns[i] = b;
        continue;
      }
      returns[kept++] = b;
    }
    returns.truncate(kept);
  }
}

uint32_t Machine::plain_frame(Vec<Return>& returns) {
  auto less = [](const Return& a, const Return& b) {
    return a.state != b.state ? a.state < b.state : a.frame < b.frame;
  };
  if (returns.size() > 1) {
    drop_dominated(returns);
    sort(returns.data(), returns.size(), less);
  }
  words_.clear();
  bool ok = words_.push(0);
  for (size_t i = 0; i < returns.size(); ++i)
    if (i == 0 || less(returns[i - 1], returns[i]))
      ok = ok && words_.push(returns[i].state) && words_.push(returns[i].frame);
  const uint32_t id = ok ? frames_.intern(words_) : kNone;
  if (id == kNone) broke(kErrMemory);
  return id;
}

uint32_t Machine::count_frame(uint32_t rule, uint32_t count, uint32_t below) {
  const uint32_t words[] = {1, rule, count, below};
  const uint32_t id = frames_.intern(Span<const uint32_t>(words, 4));
  if (id != kNone) return id;
  broke(kErrMemory);
  return 0;
}

Situation Machine::intern() {
  sort(items_.data(), items_.size(), [](const Item& a, const Item& b) {
    return a.state != b.state ? a.state < b.state : a.frame < b.frame;
  });
  words_.clear();
  bool ok = words_.push(flags_);
  for (size_t i = 0; i < items_.size(); ++i) {
    if (i && items_[i].state == items_[i - 1].state && items_[i].frame == items_[i - 1].frame) continue;
    ok = ok && words_.push(items_[i].state) && words_.push(items_[i].frame);
  }
  const size_t before = situations_.size();
  const uint32_t id = ok ? situations_.intern(words_) : kNone;
  if (id != kNone && id / kPage == pages_.size()) {
    uint32_t* page = static_cast<uint32_t*>(allocator_.get(kPageBytes, 64));
    if (page && !pages_.push(page)) {
      allocator_.put(page, kPageBytes, 64);
      page = nullptr;
    }
    ok = page != nullptr;
  }
  if (id != kNone && ok) {
    // Most bytes are dead ends; the others are found out when they come.
    if (id == before) {
      uint32_t* to = table(id);
      memset(to, 0, 256 * sizeof(uint32_t));
      for (const Item& it : items_) {
        const State& state = program_.states[it.state];
        for (uint32_t e = 0; e < state.n_bytes; ++e) {
          const ByteEdge& edge = program_.bytes[state.first_byte + e];
          memset(to + edge.lo, 0xFF, (edge.hi - edge.lo + size_t{1}) * sizeof(uint32_t));
        }
      }
    }
    return id;
  }
  broke(kErrMemory);
  return kDead;
}

Situation Machine::finish() {
  if (turned_ && within_) flags_ |= kUncertain;
  if (status_ != kOk) return kDead;
  return intern();
}

Situation Machine::compute(Situation s, uint8_t byte) {
  if (status_ != kOk) return kDead;
  begin();
  const size_t n = n_items(s);
  for (size_t i = 0; i < n; ++i) {
    const Item it = item(s, i);
    const State& state = program_.states[it.state];
    const ByteEdge* edges = program_.bytes.data() + state.first_byte;
    for (uint32_t e = 0; e < state.n_bytes && edges[e].lo <= byte; ++e)
      if (byte <= edges[e].hi) arrive(edges[e].to, it.frame);
  }
  settle();
  enter_calls();
  const Situation to = finish();
  if (status_ == kOk) table(s)[byte] = to;
  return to;
}

Situation Machine::join(Situation a, Situation b) {
  if (status_ != kOk || b == kDead || a == b) return a;
  if (a == kDead) return b;
  begin();
  const Situation both[] = {a, b};
  for (const Situation s : both) {
    flags_ |= flags(s);
    for (size_t i = 0; i < n_items(s); ++i) add_item(item(s, i).state, item(s, i).frame);
  }
  return finish();
}

Situation Machine::situation_of(Item item) {
  if (status_ != kOk) return kDead;
  begin();
  add_item(item.state, item.frame);
  return finish();
}

void Machine::first_bytes(Situation s, uint64_t (&out)[4]) const {
  for (uint64_t& word : out) word = 0;
  for (size_t i = 0; i < n_items(s); ++i) {
    const State& state = program_.states[item(s, i).state];
    for (uint32_t e = 0; e < state.n_bytes; ++e) {
      const ByteEdge& edge = program_.bytes[state.first_byte + e];
      for (int b = edge.lo; b <= edge.hi; ++b) out[b / 64] |= uint64_t{1} << (b % 64);
    }
  }
}

Situation Machine::returned(uint32_t frame) {
  if (status_ != kOk) return kDead;
  const size_t known = returned_.size();
  if (known <= frame) {
    if (!returned_.resize(frames_.size())) {
      broke(kErrMemory);
      return kDead;
    }
    for (size_t i = known; i < returned_.size(); ++i) returned_[i] = kNone;
  }
  if (returned_[frame] == kNone) {
    begin();
    const Span<const uint32_t> returns = frames_[frame];
    for (size_t i = 1; i < returns.size(); i += 2) arrive(returns[i], returns[i + 1]);
    settle();
    enter_calls();
    const Situation s = finish();
    returned_[frame] = s;
  }
  return returned_[frame];
}

uint32_t Machine::uncounted(uint32_t loop) {
  const uint32_t counted = count_frame(program_.states[loop].repeat, kAnyCount, hole_);
  returns_.clear();
  if (!returns_.push({loop, counted})) broke(kErrMemory);
  return plain_frame(returns_);
}

uint32_t Machine::frame_over_hole(uint32_t state) {
  returns_.clear();
  if (!returns_.push({state, hole_})) broke(kErrMemory);
  return plain_frame(returns_);
}

bool Machine::turns_of_one(uint32_t frame) const {
  const Span<const uint32_t> w = frames_[frame];
  if (w[0] != 0 || w.size() < 3 || w[1] < kFirstState || program_.states[w[1]].repeat == kNone) return false;
  for (size_t i = 3; i < w.size(); i += 2)
    if (w[i] != w[1]) return false;
  return true;
}

// Frames refer to older ones only, so one pass down marks them and one pass up copies them.
Situation Machine::collect(Situation keep) {
  Interner old_frames(allocator_), old_situations(allocator_);
  Vec<uint32_t> fresh(allocator_);
  if (status_ != kOk) return kDead;
  if (!fresh.resize(frames_.size())) {
    broke(kErrMemory);
    return kDead;
  }
  swap_values(old_frames, frames_);
  swap_values(old_situations, situations_);
  for (uint32_t& f : fresh) f = kNone;
  constexpr uint32_t kWanted = 0;
  auto want = [&](Situation s) {
    const Span<const uint32_t> w = old_situations[s];
    for (size_t i = 2; i < w.size(); i += 2) fresh[w[i]] = kWanted;
  };
  want(keep), want(start_);
  fresh[bottom_] = fresh[hole_] = kWanted;
  for (size_t f = fresh.size(); f-- > 0;) {
    if (fresh[f] != kWanted) continue;
    const Span<const uint32_t> w = old_frames[static_cast<uint32_t>(f)];
    if (w[0] == 1) fresh[w[3]] = kWanted;
    for (size_t i = 2; w[0] == 0 && i < w.size(); i += 2) fresh[w[i]] = kWanted;
  }
  for (uint32_t f = 0; f < fresh.size(); ++f) {
    if (fresh[f] != kWanted) continue;
    words_.clear();
    if (!words_.append(old_frames[f])) broke(kErrMemory);
    if (status_ != kOk) return kDead;
    if (words_[0] == 1) words_[3] = fresh[words_[3]];
    // The ends of the stack refer to frame 0, which stays it.
    for (size_t i = 2; words_[0] == 0 && i < words_.size(); i += 2)
      words_[i] = words_[i] < f ? fresh[words_[i]] : words_[i];
    fresh[f] = frames_.intern(words_);
    if (fresh[f] == kNone) broke(kErrMemory);
  }
  for (uint32_t* page : pages_) allocator_.put(page, kPageBytes, 64);
  pages_.clear();
  returned_.clear();
  begin();
  intern();  // kDead
  bottom_ = fresh[bottom_], hole_ = fresh[hole_];
  auto move = [&](Situation s) {
    begin();
    const Span<const uint32_t> w = old_situations[s];
    flags_ = w[0];
    for (size_t i = 1; i < w.size(); i += 2) add_item(w[i], fresh[w[i + 1]]);
    return intern();
  };
  start_ = move(start_);
  return keep == kDead ? kDead : move(keep);
}

}  // namespace grammar
}  // namespace gcrt
