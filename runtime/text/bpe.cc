#include "runtime/text/bpe.h"

#include "runtime/base/sort.h"
#include "runtime/text/words.h"

namespace gcrt {

Status BpeMerger::encode(Str text, Vec<int32_t>& out) {
  const frozen::Meta& m = vocab_.meta();
  WordSplitter words({static_cast<WordShape>(m.word_shape), m.word_max_digits, m.word_marks_join}, text);
  bool whole_first = vocab_.has(frozen::kIgnoreMerges);
  for (Str w; words.next(&w);) {
    int32_t id = whole_first ? vocab_.find(w) : -1;
    if (id >= 0) {
      if (!out.push(id)) return kErrMemory;
      continue;
    }
    Status s = word(w, out);
    if (s != kOk) return s;
  }
  return kOk;
}

Status BpeMerger::word(Str word, Vec<int32_t>& out) {
  symbols_.clear();
  heap_.clear();
  uint32_t n = static_cast<uint32_t>(word.size());
  for (uint32_t i = 0; i < n; ++i) {
    int32_t id = vocab_.byte_token(static_cast<uint8_t>(word[i]));
    if (!symbols_.push({i, 1, i ? i - 1 : kEnd, i + 1 < n ? i + 1 : kEnd, id})) return kErrMemory;
  }
  Pair pair;
  for (uint32_t i = 1; i < n; ++i)
    if (find_pair(i - 1, i, &pair) && !heap_.push(pair)) return kErrMemory;
  make_heap(heap_.data(), heap_.size(), after);
  while (!heap_.empty()) {
    pop_heap(heap_.data(), heap_.size(), after);
    pair = heap_.back();
    heap_.pop();
    uint32_t l = ~static_cast<uint32_t>(pair.order);
    Symbol& left = symbols_[l];
    if (!left.bytes || left.next == kEnd) continue;
    Symbol& right = symbols_[left.next];
    if (left.bytes + right.bytes != pair.bytes) continue;
    left.bytes = pair.bytes;
    left.id = pair.id;
    left.next = right.next;
    right.bytes = 0;
    if (left.next != kEnd) symbols_[left.next].prev = l;
    if (left.prev != kEnd && !offer(left.prev, l)) return kErrMemory;
    if (left.next != kEnd && !offer(l, left.next)) return kErrMemory;
  }
  for (uint32_t i = 0; i != kEnd; i = symbols_[i].next)
    if (!put(symbols_[i], word, out)) return kErrMemory;
  return kOk;
}

bool BpeMerger::find_pair(uint32_t left, uint32_t right, Pair* pair) const {
  const Symbol &l = symbols_[left], &r = symbols_[right];
  const frozen::Merge* m = vocab_.find_merge(l.id, r.id);
  if (!m) return false;
  pair->order = static_cast<uint64_t>(~m->rank) << 32 | static_cast<uint32_t>(~left);
  pair->bytes = l.bytes + r.bytes;
  pair->id = m->result;
  return true;
}

bool BpeMerger::offer(uint32_t left, uint32_t right) {
  Pair pair;
  if (!find_pair(left, right, &pair)) return true;
  if (!heap_.push(pair)) return false;
  sift_up(heap_.data(), heap_.size() - 1, after);
  return true;
}

bool BpeMerger::put(const Symbol& s, Str word, Vec<int32_t>& out) const {
  if (s.id >= 0 && static_cast<uint32_t>(s.id) < vocab_.n_vocab()) return out.push(s.id);
  for (uint32_t i = s.begin; i < s.begin + s.bytes; ++i) {
    int32_t id = vocab_.byte_token(static_cast<uint8_t>(word[i]));
    if (id >= 0 && !out.push(id)) return false;  // the compiler has warned of bytes without a token
  }
  return true;
}

}  // namespace gcrt
