#include "runtime/text/grammar/masks.h"

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
    : machine_(machine), vocab_(vocab), allocator_(a), rules_(machine, vocab, a), kept_(a), scratch_(a) {}

void Masks::forget_situations() {
  for (Kept& k : kept_) k.situation = kNone;
}

// All tokens of a part, by the true stack. False: there would have been more than `most` steps
// that lead on; what was set is right.
bool Masks::walk(Situation start, uint32_t number, uint64_t most, Span<uint64_t> mask) {
  const RuleMasks::Part part = rules_.part(number);
  const Trie& trie = *part.trie;
  const bool plain = number == RuleMasks::kVocabulary && rules_.absorbs(start, false);
  walks_ += most > kFew;
  if (plain) add_mask(mask, vocab_.plain(UINT32_MAX));
  Situation at[Trie::kMostBytes + 1];
  at[part.base] = start;
  for (uint32_t i = part.begin; i < part.end;) {
    const Trie::Node& node = trie[i];
    ++nodes_;
    Situation s = kDead;
    if (!(plain && node.all_plain)) s = machine_.step(at[node.depth - 1], node.byte);
    if (s == kDead) {
      i = node.skip;
      continue;
    }
    if (most-- == 0) return false;
    stopped_ |= machine_.work() > most_work_;
    if (stopped_) return true;
    at[node.depth] = s;
    for (int32_t id : trie.own(i)) set_bit(mask, id);
    ++i;
  }
  return true;
}

Status Masks::add_taken(Local& l, uint32_t most, bool counted, Span<uint64_t> mask) {
  if (l.plain) add_mask(mask, vocab_.plain(counted ? most : UINT32_MAX));
  if (!l.mask.empty()) add_mask(mask, l.mask);
  if (!counted || l.upto.empty()) {
    for (const RuleMasks::Taken& t : l.taken) {
      if (counted && t.turns > most) break;
      set_bit(mask, t.id);
    }
    return kOk;
  }
  Vec<uint64_t>& upto = l.upto[min_of(most, l.most_turns)];
  if (upto.empty()) {
    if (!upto.resize(vocab_.mask_words())) return kErrMemory;
    for (const RuleMasks::Taken& t : l.taken) {
      if (t.turns > most) break;
      set_bit(upto.span(), t.id);
    }
  }
  add_mask(mask, upto);
  return kOk;
}

// `whole`: what the item allows is not found out so, and the mask is not complete.
Status Masks::add_item(Machine::Item item, uint32_t part, uint32_t depth, Span<uint64_t> mask, bool* whole) {
  // All that return to this frame may be in turns of one repetition, with other counts or other stacks below.
  const uint32_t n = machine_.n_returns(item.frame);
  Machine::Turn turn = {};
  const bool counted = n > 0 && machine_.turns_of_one(item.frame);
  if (counted) turn = machine_.turn(item.frame, 0);
  Local* l = rules_.local(item.state, turn.loop, part);
  if (!l) return broken();
  if (!counted || l->whole) {
    // Where turns cannot be told apart the frame is one like others.
    if (counted && !(l = rules_.local(item.state, 0, part))) return broken();
    *whole = l->whole;
    if (*whole) return kOk;
    if (const Status s = add_taken(*l, UINT32_MAX, false, mask); s != kOk) return s;
    return add_rests(*l, machine_.returned(item.frame), 0, UINT32_MAX, depth, mask, whole);
  }
  const ProgramRule& r = machine_.program().rules[machine_.program().states[turn.loop].repeat];
  for (uint32_t i = 0; i < n && !*whole; ++i) {
    turn = machine_.turn(item.frame, i);
    const uint32_t least = r.min > turn.count ? r.min - turn.count : 0;
    const uint32_t most = r.max == Network::kUnbounded ? UINT32_MAX : r.max - turn.count;
    if (const Status s = add_taken(*l, most, true, mask); s != kOk) return s;
    const Situation from = machine_.returned(turn.below);
    if (const Status s = add_rests(*l, from, least, most, depth, mask, whole); s != kOk) return s;
  }
  return kOk;
}

// Those that leave after `least` to `most` turns.
Status Masks::add_rests(Local& l, Situation from, uint32_t least, uint32_t most, uint32_t depth,
                        Span<uint64_t> mask, bool* whole) {
  if (machine_.status() != kOk) return machine_.status();
  RuleMasks::Bytes first;
  machine_.first_bytes(from, first.bits);
  const RuleMasks::Bytes both = first & l.shared;
  // A token of too many turns may have left after fewer.
  const bool few = l.loop && most < max_of(l.most_turns, l.plain ? vocab_.longest_plain() : 0u);
  if (both.any()) {
    if (!rules_.find_early(l) || (few && !rules_.find_late(l, both))) return broken();
    *whole = l.early_whole || (few && l.late_whole);
    if (*whole) return kOk;
  }
  const Vec<RuleMasks::Leaving>* const all[] = {&l.leaving, &l.early, &l.late};
  for (const Vec<RuleMasks::Leaving>* groups : all) {
    if (groups != &l.leaving && !both.any()) break;
    if (groups == &l.late && !few) break;
    for (const RuleMasks::Leaving& leaving : *groups) {
      if (leaving.turns < least || leaving.turns > most) continue;
      for (int32_t id : leaving.ends) set_bit(mask, id);
      if (from == kDead) continue;
      for (uint32_t rests : leaving.rests)
        if (const Status s = add(from, rests, depth + 1, mask); s != kOk) return s;
    }
  }
  return machine_.status();
}

// Adds the tokens of a part that may follow `s`.
Status Masks::add(Situation s, uint32_t part, uint32_t depth, Span<uint64_t> mask) {
  if (depth > 0 && walk(s, part, depth > kMostDepth ? UINT64_MAX : kFew, mask)) return machine_.status();
  const uint32_t at = (s + part * 37) % kKept;
  if (kept_[at].situation == s && kept_[at].part == part) {
    found_ += depth == 0;
    add_mask(mask, kept_[at].mask);
    return kOk;
  }
  while (scratch_.size() <= depth)
    if (!scratch_.push(Vec<uint64_t>(allocator_))) return kErrMemory;
  Vec<uint64_t> made(allocator_);  // taken from its place: deeper ones may move it
  swap_values(made, scratch_[depth]);
  if (!made.resize(mask.size())) return kErrMemory;
  memset(made.data(), 0, made.size() * sizeof(uint64_t));
  bool whole = false;
  for (size_t i = 0; i < machine_.n_items(s) && !whole; ++i) {
    const Status status = add_item(machine_.item(s, i), part, depth, made.span(), &whole);
    if (status != kOk) return status;
  }
  if (whole) walk(s, part, UINT64_MAX, made.span());
  if (machine_.status() != kOk || stopped_) return machine_.status();
  add_mask(mask, made);
  swap_values(kept_[at].mask, made);
  swap_values(scratch_[depth], made);
  kept_[at].situation = s, kept_[at].part = part;
  return kOk;
}

Status Masks::fill(Situation s, Span<uint64_t> mask) {
  ++fills_;
  while (kept_.size() < kKept)
    if (!kept_.push(Kept(allocator_))) return kErrMemory;
  memset(mask.data(), 0, mask.size() * sizeof(uint64_t));
  if (!preparing_) most_work_ = machine_.work() + kMostWork;
  const Status status = add(s, RuleMasks::kVocabulary, 0, mask);
  if (!stopped_ || preparing_) return status;
  stopped_ = false;
  return kErrFull;
}

// Where the rule of `l` is returned to, over the rests that leave it.
Status Masks::prepare_returns(Local& l, uint32_t rule, Span<uint64_t> scratch) {
  const Program& p = machine_.program();
  Vec<uint32_t> rules(allocator_);  // that end where this one does
  Vec<bool> seen(allocator_);
  bool whole = false;
  if (!seen.resize(p.rules.size()) || !rules.push(rule)) return kErrMemory;
  seen[rule] = true;
  auto ends_too = [&](uint32_t r) {
    if (seen[r]) return true;
    seen[r] = true;
    return rules.push(r);
  };
  for (size_t i = 0; i < rules.size(); ++i)
    for (uint32_t r = 0; r < p.rules.size(); ++r) {
      if (p.rules[r].body == rules[i] && !ends_too(r)) return kErrMemory;
      if (p.rules[r].start == kNone) continue;
      for (uint32_t state = p.rules[r].start; state < p.rules[r].start + p.rules[r].n_states; ++state)
        for (uint32_t c = 0; c < p.states[state].n_calls; ++c) {
          const CallEdge& call = p.calls[p.states[state].first_call + c];
          if (call.rule != rules[i]) continue;
          if (p.states[call.to].final && !ends_too(r)) return kErrMemory;
          if (prepared_enough()) return kOk;
          const Situation to = machine_.returned(machine_.frame_over_hole(call.to));
          if (machine_.status() != kOk) return machine_.status();
          if (const Status s = add_rests(l, to, 0, UINT32_MAX, 0, scratch, &whole); s != kOk) return s;
          // As when no turns are left.
          if (const Status s = add_rests(l, to, 0, 0, 0, scratch, &whole); s != kOk) return s;
        }
    }
  return kOk;
}

Status Masks::prepare() {
  preparing_ = true;
  most_work_ = machine_.work() + kMostPreparedWork;
  const Status s = prepare_states();
  if (stopped_) forget_situations();
  preparing_ = stopped_ = false;
  return s;
}

Status Masks::prepare_states() {
  const Program& p = machine_.program();
  while (kept_.size() < kKept)
    if (!kept_.push(Kept(allocator_))) return kErrMemory;
  Vec<uint64_t> scratch(allocator_);
  Vec<uint32_t> loop_of(allocator_);  // [rule] the repetition that it is the body of, 0: none
  if (!scratch.resize(vocab_.mask_words()) || !loop_of.resize(p.rules.size())) return kErrMemory;
  for (const ProgramRule& r : p.rules)
    if (r.body != kNone) loop_of[r.body] = r.loop;
  for (int returns = 0; returns < 2; ++returns)
    for (uint32_t rule = 0; rule < p.rules.size(); ++rule) {
      const ProgramRule& r = p.rules[rule];
      if (r.start == kNone) continue;
      for (uint32_t state = r.start; state < r.start + r.n_states; ++state) {
        if (!p.states[state].n_bytes) continue;
        if (prepared_enough()) return kOk;
        Local* l = rules_.local(state, loop_of[rule], RuleMasks::kVocabulary);
        if (!l) return broken();
        if (l->whole && loop_of[rule]) {
          l = rules_.local(state, 0, RuleMasks::kVocabulary);
          if (!l) return broken();
          bool whole = false;
          const Situation to = machine_.returned(machine_.uncounted(loop_of[rule]));
          if (const Status s = add_rests(*l, to, 0, UINT32_MAX, 0, scratch.span(), &whole); s != kOk)
            return s;
        }
        if (!returns) continue;
        if (const Status s = prepare_returns(*l, rule, scratch.span()); s != kOk) return s;
      }
    }
  return walk_around(scratch.span());
}

// What depends on true stacks shows along texts: a few of them, of tokens that are chosen at random.
Status Masks::walk_around(Span<uint64_t> mask) {
  uint32_t random = 1;
  for (int text = 0; text < 4; ++text) {
    Situation s = machine_.start();
    for (int token = 0; token < 12 && s != kDead && !prepared_enough(); ++token) {
      if (const Status status = fill(s, mask); status != kOk) return status;
      uint64_t allowed = 0;
      for (uint64_t word : mask) allowed += static_cast<uint64_t>(__builtin_popcountll(word));
      if (allowed == 0) break;
      random = random * 1664525 + 1013904223;
      uint64_t chosen = (random >> 8) % allowed;
      size_t w = 0;
      for (; chosen >= static_cast<uint64_t>(__builtin_popcountll(mask[w])); ++w)
        chosen -= static_cast<uint64_t>(__builtin_popcountll(mask[w]));
      uint64_t bits = mask[w];
      for (; chosen; --chosen) bits &= bits - 1;
      const int32_t id = static_cast<int32_t>(w * 64) + __builtin_ctzll(bits);
      for (char c : vocab_.text(id)) s = machine_.step(s, static_cast<uint8_t>(c));
    }
  }
  fills_ = found_ = 0;
  return machine_.status();
}

}  // namespace grammar
}  // namespace gcrt
