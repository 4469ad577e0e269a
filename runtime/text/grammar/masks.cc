#include "runtime/text/grammar/masks.h"

#include "runtime/base/sort.h"

namespace gcrt {
namespace grammar {
namespace {

void set_bit(Span<uint64_t> mask, int32_t id) {
  mask[static_cast<size_t>(id) / 64] |= uint64_t{1} << (static_cast<size_t>(id) % 64);
}
void add_mask(Span<uint64_t> mask, Span<const uint64_t> more) {
  uint64_t* a = mask.data();
  const uint64_t* b = more.data();
  for (size_t i = 0, n = mask.size(); i < n; ++i) a[i] |= b[i];
}

}  // namespace

Masks::Masks(Machine& machine, const VocabTrie& vocab, Allocator a)
    : machine_(machine), vocab_(vocab), allocator_(a), locals_(a), kept_(a), leaves_(a) {}

Masks::~Masks() {
  locals_.each([this](int64_t, Local* l) {
    l->~Local();
    allocator_.put(l, sizeof(Local), alignof(Local));
  });
}

void Masks::forget_situations() {
  for (Kept& k : kept_) k.situation = kNone;
}

Masks::Local* Masks::local(uint32_t state, uint32_t loop) {
  Local** known = locals_.get(static_cast<int64_t>(static_cast<uint64_t>(state) << 32 | loop));
  if (!known) return nullptr;
  if (*known) return *known;
  void* memory = allocator_.get(sizeof(Local), alignof(Local));
  if (!memory) return nullptr;
  Local* l = ::new (gcrt_placement{}, memory) Local(allocator_);
  *known = l;
  if (find(*l, state, loop) == kOk) return l;
  locals_.erase(static_cast<int64_t>(static_cast<uint64_t>(state) << 32 | loop));
  l->~Local();
  allocator_.put(l, sizeof(Local), alignof(Local));
  return nullptr;
}

// Do the bytes lo to hi from `s`, and then `more` bytes of a character's rest, all lead to `to`?
bool Masks::tail_leads(Situation s, int more, uint8_t lo, uint8_t hi, Situation to, bool counted) {
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

bool Masks::absorbs_from(Situation s, Situation to, bool counted) {
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

// Does every plain character lead to one situation, and from there back to it (with counts: each by one turn)?
bool Masks::absorbs(Situation s, bool counted) {
  const Situation to = machine_.step(s, 'a');
  if (to == kDead || machine_.n_items(to) == 0) return false;
  if (counted && (machine_.flags(to) & (Machine::kTurn | Machine::kUncertain)) != Machine::kTurn)
    return false;
  return absorbs_from(s, to, counted) && (s == to || absorbs_from(to, to, counted));
}

Status Masks::find(Local& l, uint32_t state, uint32_t loop) {
  const bool counted = loop != 0;
  const uint32_t frame = counted ? machine_.uncounted(loop) : machine_.hole();
  if (machine_.status() != kOk) return machine_.status();
  const Situation start = machine_.situation_of({state, frame});
  l.plain = absorbs(start, counted);
  if (l.plain && machine_.flags(machine_.step(start, 'a')) & Machine::kReturns)
    for (int b = 0x20; b < 0xF5; ++b)  // the plain tokens that the walk passes over
      if (b != '"' && b != '\\' && b != 0x7F) l.shared[b / 64] |= uint64_t{1} << (b % 64);
  ++counts_.walks;
  if (const Status s = walk(l, start, counted); s != kOk) return s;
  if (machine_.status() != kOk) return machine_.status();
  if (l.whole) {
    l.taken.reset();
    return kOk;
  }
  if (counted) {
    sort(l.taken.data(), l.taken.size(),
         [](const Taken& a, const Taken& b) { return a.turns != b.turns ? a.turns < b.turns : a.id < b.id; });
    l.most_turns = l.taken.empty() ? 0 : l.taken.back().turns;
    if (l.taken.size() > 256 && !l.upto.resize(l.most_turns + 1)) return kErrMemory;
  } else if (l.taken.size() > 1024) {
    if (!l.mask.resize(vocab_.mask_words())) return kErrMemory;
    for (const Taken& t : l.taken) set_bit(l.mask.span(), t.id);
    l.taken.reset();
  }
  return take_rests(l);
}

Status Masks::walk(Local& l, Situation start, bool counted) {
  const Trie& trie = vocab_.trie();
  Situation at[Trie::kMostBytes + 1];
  uint32_t turns[Trie::kMostBytes + 1];
  at[0] = start, turns[0] = 0;
  leaves_.clear();
  for (uint32_t i = 0, n = trie.n_nodes(); i < n;) {
    const Trie::Node& node = trie[i];
    ++counts_.nodes;
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

// The rule may end at this node, and did not have to when `within`.
Status Masks::leave(Local& l, uint32_t i, Situation s, bool within, uint32_t turns) {
  const Trie& trie = vocab_.trie();
  const Trie::Node& node = trie[i];
  auto take = [&](uint32_t begin, uint32_t end) {
    l.whole = leaves_.size() + (end - begin) > kMostRests;
    for (uint32_t e = begin; e < end && !l.whole; ++e) {
      const int32_t id = trie.id(e);
      const uint32_t bytes = static_cast<uint32_t>(vocab_.text(id).size()) - node.depth;
      if (!leaves_.push({turns, vocab_.text_begin(id) + node.depth, bytes, id})) return kErrMemory;
    }
    return kOk;
  };
  if (!within) return take(node.first, trie[node.skip].first);
  for (uint32_t child = i + 1; child < node.skip; child = trie[child].skip) {
    const uint8_t byte = trie[child].byte;
    if (machine_.step(s, byte) != kDead)
      l.shared[byte / 64] |= uint64_t{1} << (byte % 64);
    else if (const Status status = take(trie[child].first, trie[trie[child].skip].first);
             status != kOk || l.whole)
      return status;
  }
  return kOk;
}

Status Masks::take_rests(Local& l) {
  sort(leaves_.data(), leaves_.size(), [](const Leave& a, const Leave& b) { return a.turns < b.turns; });
  Vec<TrieEntry> entries(allocator_);
  for (size_t i = 0; i < leaves_.size();) {
    Leaving group(allocator_);
    group.turns = leaves_[i].turns;
    entries.clear();
    for (; i < leaves_.size() && leaves_[i].turns == group.turns; ++i) {
      const Leave& leave = leaves_[i];
      if (leave.bytes == 0) {
        if (!group.ends.push(leave.id)) return kErrMemory;
        continue;
      }
      TrieEntry e = {0, leave.begin, leave.bytes, leave.id, 0};
      set_key(e, vocab_.all_text());
      if (!entries.push(e)) return kErrMemory;
    }
    if (const Status s = group.rests.build(entries, vocab_.all_text()); s != kOk) return s;
    if (!l.leaving.push(static_cast<Leaving&&>(group))) return kErrMemory;
  }
  return kOk;
}

void Masks::add_rests(const Trie& rests, Situation from, Span<uint64_t> mask) {
  Situation at[Trie::kMostBytes + 1];
  at[0] = from;
  for (uint32_t i = 0, n = rests.n_nodes(); i < n;) {
    const Trie::Node& node = rests[i];
    const Situation s = machine_.step(at[node.depth - 1], node.byte);
    if (s == kDead) {
      i = node.skip;
      continue;
    }
    at[node.depth] = s;
    for (int32_t id : rests.own(i)) set_bit(mask, id);
    ++i;
  }
}

Status Masks::add_taken(Local& l, uint32_t most, bool counted, Span<uint64_t> mask) {
  if (l.plain) add_mask(mask, vocab_.plain(counted ? most : UINT32_MAX));
  if (!l.mask.empty()) add_mask(mask, l.mask);
  if (!counted || l.upto.empty()) {
    for (const Taken& t : l.taken)
      if (!counted || t.turns <= most) set_bit(mask, t.id);
    return kOk;
  }
  Vec<uint64_t>& upto = l.upto[min_of(most, l.most_turns)];
  if (upto.empty()) {
    if (!upto.resize(vocab_.mask_words())) return kErrMemory;
    for (const Taken& t : l.taken)
      if (t.turns <= most) set_bit(upto.span(), t.id);
  }
  add_mask(mask, upto);
  return kOk;
}

Status Masks::add_item(Machine::Item item, Span<uint64_t> mask, bool* whole) {
  uint32_t loop = 0, count = 0, below = item.frame, least = 0, most = UINT32_MAX;
  bool counted = machine_.is_turn(item.frame, &loop, &count, &below);
  Local* l = local(item.state, counted ? loop : 0);
  if (counted && l && l->whole) {
    // Where turns cannot be told apart the frame is one like others.
    counted = false;
    below = item.frame;
    l = local(item.state, 0);
  }
  if (counted) {
    const ProgramRule& r = machine_.program().rules[machine_.program().states[loop].repeat];
    least = r.min > count ? r.min - count : 0;
    if (r.max != Network::kUnbounded) most = r.max - count;
  }
  if (!l) return machine_.status() != kOk ? machine_.status() : kErrMemory;
  if (l->whole) {
    *whole = true;
    return kOk;
  }
  if (const Status s = add_taken(*l, most, counted, mask); s != kOk) return s;
  const Situation from = machine_.returned(below);
  uint64_t first[4];
  machine_.first_bytes(from, first);
  for (int i = 0; i < 4; ++i) *whole |= (first[i] & l->shared[i]) != 0;
  if (*whole) return machine_.status();
  for (const Leaving& leaving : l->leaving) {
    if (leaving.turns < least || leaving.turns > most) continue;
    for (int32_t id : leaving.ends) set_bit(mask, id);
    if (leaving.rests.n_nodes() == 0) continue;
    if (from != kDead) add_rests(leaving.rests, from, mask);
  }
  return machine_.status();
}

void Masks::walk_whole(Situation start, Span<uint64_t> mask) {
  const Trie& trie = vocab_.trie();
  ++counts_.walks;
  const bool plain = absorbs(start, false);
  if (plain) add_mask(mask, vocab_.plain(UINT32_MAX));
  Situation at[Trie::kMostBytes + 1];
  at[0] = start;
  for (uint32_t i = 0, n = trie.n_nodes(); i < n;) {
    const Trie::Node& node = trie[i];
    Situation s = kDead;
    if (!(plain && node.all_plain)) s = machine_.step(at[node.depth - 1], node.byte);
    if (s == kDead) {
      i = node.skip;
      continue;
    }
    at[node.depth] = s;
    for (int32_t id : trie.own(i)) set_bit(mask, id);
    ++i;
  }
}

Status Masks::fill(Situation s, Span<uint64_t> mask) {
  ++counts_.fills;
  if (kept_.empty())
    while (kept_.size() < kKept)
      if (!kept_.push(Kept(allocator_))) return kErrMemory;
  Kept& kept = kept_[s % kKept];
  if (kept.situation == s) {
    ++counts_.kept;
    memcpy(mask.data(), kept.mask.data(), mask.size() * sizeof(uint64_t));
    return kOk;
  }
  memset(mask.data(), 0, mask.size() * sizeof(uint64_t));
  bool whole = false;
  for (size_t i = 0; i < machine_.n_items(s) && !whole; ++i)
    if (const Status status = add_item(machine_.item(s, i), mask, &whole); status != kOk) return status;
  if (whole) walk_whole(s, mask);
  if (machine_.status() != kOk) return machine_.status();
  kept.situation = kNone;
  if (!kept.mask.copy(mask)) return kErrMemory;
  kept.situation = s;
  return kOk;
}

Status Masks::prepare() {
  const Program& p = machine_.program();
  Vec<uint32_t> loop_of(allocator_);  // [rule] the repetition that it is the body of, 0: none
  if (!loop_of.resize(p.rules.size())) return kErrMemory;
  for (const ProgramRule& r : p.rules)
    if (r.body != kNone) loop_of[r.body] = r.loop;
  for (uint32_t rule = 0; rule < p.rules.size(); ++rule) {
    const ProgramRule& r = p.rules[rule];
    if (r.start == kNone) continue;
    if (counts_.nodes > kMostPrepared) break;
    for (uint32_t state = r.start; state < r.start + r.n_states; ++state)
      if (p.states[state].n_bytes && !local(state, loop_of[rule]))
        return machine_.status() != kOk ? machine_.status() : kErrMemory;
  }
  return kOk;
}

}  // namespace grammar
}  // namespace gcrt
