#include "runtime/text/grammar/rule_masks.h"

#include "runtime/base/sort.h"

namespace gcrt {
namespace grammar {
namespace {

template <class T>
void destroy(Allocator a, T* p) {
  if (!p) return;
  p->~T();
  a.put(p, sizeof(T), alignof(T));
}

}  // namespace

RuleMasks::RuleMasks(Machine& machine, const VocabTrie& vocab, Allocator a)
    : machine_(machine),
      vocab_(vocab),
      allocator_(a),
      first_(a),
      follow_(a),
      rule_of_(a),
      keys_(a),
      locals_(a),
      part_keys_(a),
      parts_(a),
      tries_(a),
      leaves_(a) {}

RuleMasks::~RuleMasks() {
  for (Local* l : locals_) destroy(allocator_, l);
  for (Trie* t : tries_) destroy(allocator_, t);
}

bool RuleMasks::Bytes::add(const Bytes& more) {
  uint64_t fresh = 0;
  for (int i = 0; i < 4; ++i) fresh |= more.bits[i] & ~bits[i], bits[i] |= more.bits[i];
  return fresh != 0;
}

// No rule matches the empty text, so a call's first bytes are those of its rule.
RuleMasks::Bytes RuleMasks::first_of(uint32_t state) const {
  Bytes out = {};
  const Program& p = machine_.program();
  const State& s = p.states[state];
  for (uint32_t e = 0; e < s.n_bytes; ++e)
    for (int b = p.bytes[s.first_byte + e].lo; b <= p.bytes[s.first_byte + e].hi; ++b)
      out.add(static_cast<uint8_t>(b));
  for (uint32_t c = 0; c < s.n_calls; ++c) out.add(first_[p.calls[s.first_call + c].rule]);
  return out;
}

// The usual equations, round by round in changing direction until nothing changes.
Status RuleMasks::find_follow() {
  const Program& p = machine_.program();
  const uint32_t n = static_cast<uint32_t>(p.rules.size());
  if (!first_.resize(n) || !follow_.resize(n) || !rule_of_.resize(p.states.size())) return kErrMemory;
  bool change = true;
  for (uint32_t round = 0; change; ++round) {
    change = false;
    for (uint32_t i = 0; i < n; ++i) {
      const uint32_t rule = round % 2 ? i : n - 1 - i;
      const ProgramRule& r = p.rules[rule];
      if (r.body != kNone) change |= first_[rule].add(first_[r.body]);
      if (r.start != kNone) change |= first_[rule].add(first_of(r.start));
    }
  }
  change = true;
  for (uint32_t round = 0; change; ++round) {
    change = false;
    for (uint32_t i = 0; i < n; ++i) {
      const uint32_t rule = round % 2 ? n - 1 - i : i;
      const ProgramRule& r = p.rules[rule];
      if (r.body != kNone) {
        change |= follow_[r.body].add(first_[r.body]);
        change |= follow_[r.body].add(follow_[rule]);
      }
      for (uint32_t state = r.start; r.start != kNone && state < r.start + r.n_states; ++state) {
        rule_of_[state] = rule;
        for (uint32_t c = 0; c < p.states[state].n_calls; ++c) {
          const CallEdge& call = p.calls[p.states[state].first_call + c];
          change |= follow_[call.rule].add(first_of(call.to));
          if (p.states[call.to].final) change |= follow_[call.rule].add(follow_[rule]);
        }
      }
    }
  }
  return kOk;
}

RuleMasks::Local* RuleMasks::local(uint32_t state, uint32_t loop, uint32_t part) {
  if (rule_of_.empty() && find_follow() != kOk) return nullptr;
  const uint32_t key[] = {state, loop, part};
  const uint32_t at = keys_.intern(Span<const uint32_t>(key, 3));
  if (at == kNone || (locals_.size() <= at && !locals_.resize(at + 1))) return nullptr;
  if (locals_[at]) return locals_[at];
  void* memory = allocator_.get(sizeof(Local), alignof(Local));
  if (!memory) return nullptr;
  Local* l = ::new (gcrt_placement{}, memory) Local(allocator_);
  l->state = state, l->loop = loop, l->part = part;
  l->follow = follow_[loop ? machine_.program().states[loop].repeat : rule_of_[state]];
  if (find(*l) == kOk) return locals_[at] = l;
  destroy(allocator_, l);
  return nullptr;
}

// Do the bytes lo to hi from `s`, and then `more` bytes of a character's rest, all lead to `to`?
bool RuleMasks::tail_leads(Situation s, int more, uint8_t lo, uint8_t hi, Situation to, bool counted) {
  Situation checked = kNone;  // neighbours mostly lead to the same
  for (int b = lo; b <= hi; ++b) {
    const Situation next = machine_.step(s, static_cast<uint8_t>(b));
    if (more == 0) {
      if (next != to) return false;
      continue;
    }
    if (next == kDead || (counted && machine_.flags(next) & Machine::kTurn)) return false;
    if (next != checked && !tail_leads(next, more - 1, 0x80, 0xBF, to, counted)) return false;
    checked = next;
  }
  return true;
}

bool RuleMasks::absorbs_from(Situation s, Situation to, bool counted) {
  for (int b = 0x20; b < 0x7F; ++b)
    if (b != '"' && b != '\\' && machine_.step(s, static_cast<uint8_t>(b)) != to) return false;
  Situation checked = kNone;
  for (int lead = 0xC2; lead <= 0xF4; ++lead) {
    const int more = lead < 0xE0 ? 0 : lead < 0xF0 ? 1 : 2;
    const uint8_t lo = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const uint8_t hi = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    const Situation next = machine_.step(s, static_cast<uint8_t>(lead));
    if (next == kDead || (counted && machine_.flags(next) & Machine::kTurn)) return false;
    const bool usual = lo == 0x80 && hi == 0xBF;
    if (usual && next == checked) continue;
    if (!tail_leads(next, more, lo, hi, to, counted)) return false;
    if (usual) checked = next;
  }
  return true;
}

bool RuleMasks::absorbs(Situation s, bool counted) {
  const Situation to = machine_.step(s, 'a');
  if (to == kDead || machine_.n_items(to) == 0) return false;
  if (counted && (machine_.flags(to) & (Machine::kTurn | Machine::kUncertain)) != Machine::kTurn)
    return false;
  return absorbs_from(s, to, counted) && (s == to || absorbs_from(to, to, counted));
}

Situation RuleMasks::start_of(const Local& l) {
  const uint32_t frame = l.loop ? machine_.uncounted(l.loop) : machine_.hole();
  return machine_.status() == kOk ? machine_.situation_of({l.state, frame}) : kDead;
}

Status RuleMasks::find(Local& l) {
  const bool counted = l.loop != 0;
  const Situation start = start_of(l);
  if (machine_.status() != kOk) return machine_.status();
  l.plain = l.part == kVocabulary && absorbs(start, counted);
  if (l.plain && machine_.flags(machine_.step(start, 'a')) & Machine::kReturns)
    for (int b = 0x20; b < 0xF5; ++b)  // the plain tokens that the walk passes over
      if (b != '"' && b != '\\' && b != 0x7F) l.shared.add(static_cast<uint8_t>(b));
  ++walks_;
  leaves_.clear();
  if (const Status s = walk(l, start); s != kOk) return s;
  if (machine_.status() != kOk) return machine_.status();
  if (!l.whole)
    if (const Status s = take_rests(l.leaving, &l.whole); s != kOk) return s;
  if (l.whole) {
    l.taken.reset();
    l.leaving.reset();
    return kOk;
  }
  if (counted) {
    sort(l.taken.data(), l.taken.size(),
         [](const Taken& a, const Taken& b) { return a.turns != b.turns ? a.turns < b.turns : a.id < b.id; });
    l.most_turns = l.taken.empty() ? 0 : l.taken.back().turns;
    if (l.taken.size() > kMostListed && !l.upto.resize(l.most_turns + 1)) return kErrMemory;
  } else if (l.taken.size() > kMostListed) {
    if (!l.mask.resize(vocab_.mask_words())) return kErrMemory;
    for (const Taken& t : l.taken)
      l.mask[static_cast<size_t>(t.id) / 64] |= uint64_t{1} << (static_cast<size_t>(t.id) % 64);
    l.taken.reset();
  }
  return kOk;
}

Status RuleMasks::walk(Local& l, Situation start) {
  const bool counted = l.loop != 0;
  const Part part = this->part(l.part);
  const Trie& trie = *part.trie;
  Situation at[Trie::kMostBytes + 1];
  uint32_t turns[Trie::kMostBytes + 1];
  at[part.base] = start, turns[part.base] = 0;
  for (uint32_t i = part.begin; i < part.end;) {
    const Trie::Node& node = trie[i];
    ++nodes_;
    if (l.plain && node.all_plain) {
      i = node.skip;
      continue;
    }
    const Situation s = machine_.step(at[node.depth - 1], node.byte);
    if (s == kDead) {
      i = node.skip;
      continue;
    }
    const uint32_t flags = machine_.flags(s);
    const uint32_t turned = counted && flags & Machine::kTurn ? 1 : 0;
    const uint32_t t = turns[node.depth - 1] + turned;
    if (counted && flags & Machine::kUncertain) {
      l.whole = true;
      return kOk;
    }
    const bool within = machine_.n_items(s) != 0;
    const uint32_t own_end = trie[i + 1].first;
    if (within)
      for (uint32_t e = node.first; e < own_end; ++e)
        if (!(l.plain && trie.characters(e)) && !l.taken.push({trie.id(e), t + (turned ? 0 : 1)}))
          return kErrMemory;
    if (flags & Machine::kReturns) {
      if (const Status status = leave(l, i, s, within, t); status != kOk) return status;
      if (l.whole) return kOk;
    }
    at[node.depth] = s, turns[node.depth] = t;
    i = within ? i + 1 : node.skip;
  }
  return kOk;
}

// Rests of no bytes at a node. False: memory is out.
bool RuleMasks::add_own(const Part& part, uint32_t node, uint32_t turns) {
  const Trie& trie = *part.trie;
  for (uint32_t e = trie[node].first; e < trie[node + 1].first; ++e)
    if (!leaves_.push({turns, vocab_.text_begin(trie.id(e) + 1), trie.id(e)})) return false;
  return true;
}

// Rests of the nodes from `begin` to `end`, which are all of some nodes with what is below them; the first `depth` bytes,
// at least one, are behind them.
bool RuleMasks::add_nodes(const Part& part, uint32_t begin, uint32_t end, uint32_t depth, uint32_t turns) {
  const Trie& trie = *part.trie;
  if (trie[end].first - trie[begin].first > kLarge && trie[begin].depth == depth + 1) {
    const uint64_t of = reinterpret_cast<uintptr_t>(part.trie);
    const uint32_t key[] = {kNone, static_cast<uint32_t>(of), static_cast<uint32_t>(of >> 32), begin, end};
    const uint32_t number = number_of(Span<const uint32_t>(key, 5));
    if (number == kNone) return false;
    parts_[number - 1] = {part.trie, begin, end, depth};
    return leaves_.push({turns, 0, ~static_cast<int32_t>(number)});
  }
  for (uint32_t e = trie[begin].first; e < trie[end].first; ++e)
    if (!leaves_.push({turns, trie.begin(e) + depth, trie.id(e)})) return false;
  return true;
}

// The rule may end at this node, and did not have to when `within`.
Status RuleMasks::leave(Local& l, uint32_t i, Situation s, bool within, uint32_t turns) {
  const Part part = this->part(l.part);
  const Trie& trie = *part.trie;
  const Trie::Node& node = trie[i];
  bool ok = within || add_own(part, i, turns);
  uint32_t begin = i + 1;  // of neighbours that leave
  for (uint32_t child = i + 1; ok && child < node.skip; child = trie[child].skip) {
    const uint8_t byte = trie[child].byte;
    const bool goes_on = within && machine_.step(s, byte) != kDead;
    if (goes_on) l.shared.add(byte);
    if (!goes_on && l.follow.has(byte)) continue;
    if (begin < child) ok = add_nodes(part, begin, child, node.depth, turns);
    begin = trie[child].skip;
  }
  if (ok && begin < node.skip) ok = add_nodes(part, begin, node.skip, node.depth, turns);
  l.whole = leaves_.size() > kMostRests;
  return ok ? kOk : kErrMemory;
}

bool RuleMasks::find_early(Local& l) {
  if (l.early_known) return true;
  leaves_.clear();
  ++walks_;
  const Situation start = start_of(l);
  if (machine_.status() != kOk || walk_early(l, start) != kOk || machine_.status() != kOk) return false;
  if (!l.early_whole && take_rests(l.early, &l.early_whole) != kOk) return false;
  return l.early_known = true;
}

// Whose bytes cannot all be within the rule may have left it at each place before where it may end and also go on.
Status RuleMasks::walk_early(Local& l, Situation start) {
  const bool counted = l.loop != 0;
  const Part part = this->part(l.part);
  const Trie& trie = *part.trie;
  struct Place {
    Situation at;
    uint32_t turns;
    bool open;  // the rule may end here, and go on
    uint8_t byte;
  };
  Place places[Trie::kMostBytes + 1];
  places[part.base] = {start, 0, false, 0};
  for (uint32_t i = part.begin; i < part.end;) {
    const Trie::Node& node = trie[i];
    ++nodes_;
    if (l.plain && node.all_plain) {
      i = node.skip;
      continue;
    }
    const Place& before = places[node.depth - 1];
    const Situation s = machine_.step(before.at, node.byte);
    const uint32_t flags = machine_.flags(s);
    const bool within = machine_.n_items(s) != 0;
    places[node.depth] = {s, before.turns + (counted && flags & Machine::kTurn ? 1u : 0u),
                          (flags & Machine::kReturns) != 0, node.byte};
    if (!within) {
      // A place right before a byte that is no way on is among `leaving`.
      const uint32_t most = s == kDead ? node.depth - 1u : node.depth;
      for (uint32_t d = part.base + 1; d < most; ++d)
        if (places[d].open && l.follow.has(places[d + 1].byte) &&
            !add_nodes(part, i, node.skip, d, places[d].turns))
          return kErrMemory;
      l.early_whole = leaves_.size() > kMostRests;
      if (l.early_whole) return kOk;
    }
    i = within ? i + 1 : node.skip;
  }
  return kOk;
}

bool RuleMasks::find_late(Local& l, const Bytes& bytes) {
  if (l.late_whole || !l.late_of.add(bytes)) return true;
  leaves_.clear();
  l.late.clear();
  ++walks_;
  const Situation start = start_of(l);
  return machine_.status() == kOk && walk_late(l, start) == kOk && machine_.status() == kOk &&
         (l.late_whole || take_rests(l.late, &l.late_whole) == kOk);
}

Status RuleMasks::walk_late(Local& l, Situation start) {
  const Part part = this->part(l.part);
  const Trie& trie = *part.trie;
  Situation at[Trie::kMostBytes + 1];
  uint32_t turns[Trie::kMostBytes + 1];
  at[part.base] = start, turns[part.base] = 0;
  for (uint32_t i = part.begin; i < part.end;) {
    const Trie::Node& node = trie[i];
    ++nodes_;
    const Situation s = machine_.step(at[node.depth - 1], node.byte);
    if (s == kDead || machine_.n_items(s) == 0) {
      i = node.skip;
      continue;
    }
    at[node.depth] = s;
    turns[node.depth] = turns[node.depth - 1] + (machine_.flags(s) & Machine::kTurn ? 1 : 0);
    for (uint32_t child = i + 1; machine_.flags(s) & Machine::kReturns && child < node.skip;
         child = trie[child].skip)
      if (l.late_of.has(trie[child].byte) && machine_.step(s, trie[child].byte) != kDead &&
          !add_nodes(part, child, trie[child].skip, node.depth, turns[node.depth]))
        return kErrMemory;
    l.late_whole = leaves_.size() > kMostLate;
    if (l.late_whole) return kOk;
    ++i;
  }
  return kOk;
}

// Groups what is in leaves_ by turns.
Status RuleMasks::take_rests(Vec<Leaving>& out, bool* too_many) {
  bool turns_differ = false;
  for (const Leave& l : leaves_) turns_differ |= l.turns != leaves_[0].turns;
  if (turns_differ)
    sort(leaves_.data(), leaves_.size(), [](const Leave& a, const Leave& b) {
      if (a.turns != b.turns) return a.turns < b.turns;
      return a.begin != b.begin ? a.begin < b.begin : a.id < b.id;
    });
  for (size_t i = 0; i < leaves_.size() && !*too_many;) {
    size_t end = i;
    while (end < leaves_.size() && leaves_[end].turns == leaves_[i].turns) ++end;
    Leaving group(allocator_);
    group.turns = leaves_[i].turns;
    if (const Status s = intern_rests(i, end, group, too_many); s != kOk) return s;
    if (!out.push(static_cast<Leaving&&>(group))) return kErrMemory;
    i = end;
  }
  return kOk;
}

// The part of a key, kNone if memory is out. A new one is to be filled in.
uint32_t RuleMasks::number_of(Span<const uint32_t> key) {
  const uint32_t at = part_keys_.intern(key);
  if (at == kNone || (at == parts_.size() && !parts_.push({nullptr, 0, 0, 0}))) return kNone;
  return at + 1;
}

Status RuleMasks::intern_rests(size_t begin, size_t end, Leaving& group, bool* too_many) {
  Vec<uint32_t> key(allocator_);
  Vec<TrieEntry> entries(allocator_);
  for (size_t i = begin; i < end; ++i) {
    const Leave& leave = leaves_[i];
    if (leave.id < 0) {
      if (!group.rests.push(static_cast<uint32_t>(~leave.id))) return kErrMemory;
      continue;
    }
    const uint32_t bytes = vocab_.text_begin(leave.id + 1) - leave.begin;
    if (bytes == 0) {
      if (!group.ends.push(leave.id)) return kErrMemory;
      continue;
    }
    const TrieEntry e = {0, leave.begin, bytes, leave.id, 0};
    if (!key.push(leave.begin) || !entries.push(e)) return kErrMemory;
  }
  if (entries.empty()) return kOk;
  const uint32_t number = number_of(key);
  if (number == kNone || !group.rests.push(number)) return kErrMemory;
  Part& part = parts_[number - 1];
  if (part.trie) return kOk;
  *too_many = trie_nodes_ > kMostNodes;
  if (*too_many) return kOk;
  for (TrieEntry& e : entries) set_key(e, vocab_.all_text());
  void* memory = tries_.reserve(tries_.size() + 1) ? allocator_.get(sizeof(Trie), alignof(Trie)) : nullptr;
  if (!memory) return kErrMemory;
  Trie* trie = ::new (gcrt_placement{}, memory) Trie(allocator_);
  if (const Status s = trie->build(entries, vocab_.all_text()); s != kOk || !tries_.push(trie)) {
    destroy(allocator_, trie);
    return s;
  }
  trie_nodes_ += trie->n_nodes();
  part = {trie, 0, trie->n_nodes(), 0};
  return kOk;
}

}  // namespace grammar
}  // namespace gcrt
