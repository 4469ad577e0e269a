#include "runtime/text/spm.h"

#include "runtime/base/sort.h"

namespace gcrt {
namespace {

constexpr Str kSpace = "\xE2\x96\x81";  // U+2581, SentencePiece's space

// Unsigned order of the result is the order of the floats; -0 counts as 0.
uint32_t ordered(float score) {
  score += 0.0f;
  uint32_t u;
  memcpy(&u, &score, sizeof u);
  return u & 0x80000000u ? ~u : u | 0x80000000u;
}

}  // namespace

Status SpmMerger::escape(Str raw, bool space_prefix) {
  text_.clear();
  bool escaped = vocab_.has(frozen::kEscapeSpaces);
  size_t spaces = space_prefix;
  if (escaped)
    for (char c : raw) spaces += c == ' ';
  uint64_t bytes = raw.size() + uint64_t{spaces} * 3;
  if (bytes >= kEnd) return kErrArgument;
  if (!text_.reserve(bytes)) return kErrMemory;
  bool ok = !space_prefix || append(text_, escaped ? kSpace : Str(" "));
  for (size_t i = 0; i < raw.size() && ok;) {
    const void* hit = escaped ? memchr(raw.data() + i, ' ', raw.size() - i) : nullptr;
    size_t stop = hit ? static_cast<size_t>(static_cast<const char*>(hit) - raw.data()) : raw.size();
    ok = append(text_, raw.sub(i, stop - i)) && (!hit || append(text_, kSpace));
    i = stop + 1;
  }
  return ok ? kOk : kErrMemory;
}

Status SpmMerger::encode(Str raw, bool space_prefix, Vec<int32_t>& out) {
  Status s = escape(raw, space_prefix);
  if (s != kOk) return s;
  uint32_t n = static_cast<uint32_t>(text_.size());
  uint32_t before = 0;
  for (uint32_t at = 0; at < n;) {
    uint32_t bytes = static_cast<uint32_t>(frozen::char_bytes(text_.data() + at, n - at));
    uint32_t code = frozen::char_code(text_.data() + at, bytes);
    if (!symbols_.empty() && !vocab_.may_join(before, code)) {
      s = merge(out);
      if (s != kOk) return s;
      symbols_.clear();
    }
    uint32_t i = static_cast<uint32_t>(symbols_.size());
    if (i) symbols_.back().next = i;
    if (!symbols_.push({at, bytes, i ? i - 1 : kEnd, kEnd, kNotLooked})) return kErrMemory;
    before = code;
    at += bytes;
  }
  s = symbols_.empty() ? kOk : merge(out);
  symbols_.clear();
  return s;
}

// One stretch, whose symbols are in symbols_.
Status SpmMerger::merge(Vec<int32_t>& out) {
  heap_.clear();
  uint32_t n = static_cast<uint32_t>(symbols_.size());
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
    if (!put(symbols_[i], out)) return kErrMemory;
  return kOk;
}

// Do the two make a piece?
bool SpmMerger::find_pair(uint32_t left, uint32_t right, Pair* pair) const {
  const Symbol& l = symbols_[left];
  uint32_t bytes = l.bytes + symbols_[right].bytes;
  int32_t id = vocab_.find(Str(text_.data() + l.begin, bytes));
  if (id < 0) return false;
  pair->order = static_cast<uint64_t>(ordered(vocab_.score(id))) << 32 | static_cast<uint32_t>(~left);
  pair->bytes = bytes;
  pair->id = id;
  return true;
}

// False: out of memory.
bool SpmMerger::offer(uint32_t left, uint32_t right) {
  Pair pair;
  if (!find_pair(left, right, &pair)) return true;
  if (!heap_.push(pair)) return false;
  sift_up(heap_.data(), heap_.size() - 1, after);
  return true;
}

bool SpmMerger::put(const Symbol& s, Vec<int32_t>& out) {
  Str bytes(text_.data() + s.begin, s.bytes);
  int32_t id = s.id == kNotLooked ? vocab_.find(bytes) : s.id;
  if (id >= 0) return out.push(id);
  for (char c : bytes) {
    int32_t byte_id = vocab_.byte_token(static_cast<uint8_t>(c));
    // The compiler lets a vocabulary without this byte pass only if it has an unknown piece: one for the character.
    if (byte_id < 0) return vocab_.meta().unk < 0 || out.push(vocab_.meta().unk);
    if (!out.push(byte_id)) return false;
  }
  return true;
}

}  // namespace gcrt
