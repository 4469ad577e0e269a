// Sequences to bytes and back. Blocks are saved by their place in the sequence, not in the pool or the table, so a cache
// of another context, chunk or number of sequences takes them.
//
//   u32 length, groups     then of each group: u64 bytes of a block, u32 first block, u32 count
//   then the blocks, group by group
//
// A recurrent group's "block" is a sequence's state: one, and its snapshot where there is one, whose length stands in the
// place of the first block.
#include <string.h>

#include "runtime/base/checked.h"
#include "runtime/core/kv_cache.h"

namespace gcrt {

uint32_t blocks_for(const gc_group& group, uint32_t positions);  // kv_cache.cc

namespace {

constexpr uint64_t kHead = 8, kGroupHead = 16;

bool is_ring(const gc_group& group) { return group.kind == GC_STATE_KV_RING; }

}  // namespace

uint64_t KvCache::unit_bytes(uint32_t g) const {
  const gc_group& group = program_->groups[g];
  return has_blocks(group) ? group.block_bytes[options_.kv_type] : group.seq_bytes;
}

// The blocks whose rows a next token, or one after a truncation that is possible, may need.
KvCache::Range KvCache::held(uint32_t s, uint32_t g) const {
  const Seq& seq = seqs_[s];
  if (!has_blocks(program_->groups[g])) return {seq.kept, seq.length == 0 ? 0u : seq.kept == 0 ? 1u : 2u};
  const gc_group& group = program_->groups[g];
  const uint32_t end = blocks_for(group, seq.length);
  uint32_t first = 0;
  if (is_ring(group)) {
    const uint32_t written = blocks_for(group, seq.written);
    if (written > groups_[g].table) first = written - groups_[g].table;
    first = max_of(first, blocks_for(group, seq.loaded_from));
  }
  return {min_of(first, end), end - min_of(first, end)};
}

uint64_t KvCache::saved_bytes(uint32_t s) const {
  uint64_t sum = kHead + kGroupHead * groups_.size();
  for (uint32_t g = 0; g < groups_.size(); ++g) sum += unit_bytes(g) * held(s, g).count;
  return sum;
}

void KvCache::save(uint32_t s, uint8_t* out) const {
  const Seq& seq = seqs_[s];
  store_le<uint32_t>(out, seq.length);
  store_le<uint32_t>(out + 4, static_cast<uint32_t>(groups_.size()));
  uint8_t* head = out + kHead;
  uint8_t* blocks = head + kGroupHead * groups_.size();
  for (uint32_t g = 0; g < groups_.size(); ++g, head += kGroupHead) {
    const uint64_t block = unit_bytes(g);
    const Range range = held(s, g);
    store_le<uint64_t>(head, block);
    store_le<uint32_t>(head + 8, range.first);
    store_le<uint32_t>(head + 12, range.count);
    if (!has_blocks(program_->groups[g])) {
      for (uint32_t i = 0; i < range.count; ++i, blocks += block)
        pool_read(blocks, pools_[g] + seq.blocks[g][i] * block, block);
      continue;
    }
    for (uint32_t b = range.first; b < range.first + range.count; ++b, blocks += block)
      pool_read(blocks, pools_[g] + seq.blocks[g][b % groups_[g].table] * block, block);
  }
}

// Whether save() of a sequence of this length may have written such a range.
bool KvCache::may_hold(uint32_t g, Range range, uint32_t length) const {
  if (!has_blocks(program_->groups[g]))
    return length == 0 ? range.first == 0 && range.count == 0
                       : range.first <= length && range.count == (range.first == 0 ? 1u : 2u);
  const gc_group& group = program_->groups[g];
  const uint32_t end = blocks_for(group, length);
  return range.first <= end && range.count == end - range.first && (range.first == 0 || is_ring(group));
}

Status KvCache::load(uint32_t s, Span<const uint8_t> bytes) {
  truncate(s, 0);
  const size_t heads = kGroupHead * groups_.size();
  if (bytes.size() < kHead + heads || load_le<uint32_t>(bytes.data() + 4) != groups_.size()) return kErrInput;
  const uint32_t length = load_le<uint32_t>(bytes.data());
  if (length > options_.n_ctx) return kErrFull;
  const uint8_t* head = bytes.data() + kHead;
  Span<const uint8_t> rest = bytes.sub(kHead + heads);
  for (uint32_t g = 0; g < groups_.size(); ++g, head += kGroupHead) {
    const uint64_t block = unit_bytes(g);
    const Range range{load_le<uint32_t>(head + 8), load_le<uint32_t>(head + 12)};
    uint64_t size = 0;
    if (load_le<uint64_t>(head) != block || !may_hold(g, range, length) ||
        !checked_mul<uint64_t>(block, range.count, &size) || size > rest.size()) {
      truncate(s, 0);
      return kErrInput;
    }
    seqs_[s].length = length;  // so that truncate gives back what was taken
    if (const Status status = load_group(s, g, range, rest.data()); status != kOk) {
      truncate(s, 0);
      return status;
    }
    rest = rest.sub(size);
  }
  if (!rest.empty()) {
    truncate(s, 0);
    return kErrInput;
  }
  seqs_[s].length = seqs_[s].written = length;
  return kOk;
}

Status KvCache::load_group(uint32_t s, uint32_t g, Range range, const uint8_t* bytes) {
  Seq& seq = seqs_[s];
  const uint64_t block = unit_bytes(g);
  if (!has_blocks(program_->groups[g])) {
    seq.kept = range.first;
    for (uint32_t i = 0; i < range.count; ++i, bytes += block)
      pool_write(pools_[g] + seq.blocks[g][i] * block, bytes, block);
    return kOk;
  }
  const uint32_t table = groups_[g].table, end = range.first + range.count;
  if (is_ring(program_->groups[g])) {
    const uint32_t skip = range.count > table ? range.count - table : 0;
    range.first += skip;
    bytes += skip * block;
    // All of a ring's entries below `end` have a block, as if the sequence had grown here.
    for (uint32_t b = 0; b < min_of(end, table); ++b)
      if (const Status status = take(g, &seq.blocks[g][b]); status != kOk) return status;
    seq.loaded_from = max_of(seq.loaded_from, range.first * GC_KV_BLOCK);
  }
  for (uint32_t b = range.first; b < end; ++b, bytes += block) {
    uint32_t& entry = seq.blocks[g][b % table];
    if (entry == kNone)
      if (const Status status = take(g, &entry); status != kOk) return status;
    pool_write(pools_[g] + entry * block, bytes, block);
  }
  return kOk;
}

}  // namespace gcrt
