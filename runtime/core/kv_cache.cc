#include "runtime/core/kv_cache.h"

#include <string.h>

#include "runtime/base/checked.h"
#include "runtime/core/huge_pages.h"

namespace gcrt {
namespace {

constexpr uint32_t kState = 0, kSnapshot = 1, kSlots = 2;  // of a sequence in a recurrent group

uint32_t blocks_for(uint32_t positions) { return positions / GC_KV_BLOCK + (positions % GC_KV_BLOCK != 0); }

}  // namespace

uint32_t kv_table_blocks(const gc_group& group, const KvOptions& options) {
  if (!has_blocks(group)) return kSlots;
  const uint32_t all = blocks_for(options.n_ctx);
  if (group.kind != GC_STATE_KV_RING) return all;
  const uint32_t ring = gc_ring_blocks(group.window, options.chunk);
  return ring < all ? ring : all;
}

uint64_t recurrent_pool_bytes(const gc_program& program, uint32_t n_seqs) {
  uint64_t sum = 0;
  for (uint32_t g = 0; g < program.n_groups; ++g)
    if (!has_blocks(program.groups[g])) sum += program.groups[g].seq_bytes * kSlots * n_seqs;
  return sum;
}

uint64_t kv_pool_bytes(const gc_program& program, const KvOptions& options) {
  uint64_t sum = 0;
  for (uint32_t g = 0; g < program.n_groups; ++g) {
    const gc_group& group = program.groups[g];
    uint64_t bytes = has_blocks(group) ? group.block_bytes[options.kv_type] : group.seq_bytes;
    if (bytes == 0) return 0;
    if (!checked_mul<uint64_t>(bytes, kv_table_blocks(program.groups[g], options), &bytes)) return UINT64_MAX;
    if (!checked_mul<uint64_t>(bytes, options.n_seqs, &bytes)) return UINT64_MAX;
    if (!checked_add<uint64_t>(sum, bytes, &sum)) return UINT64_MAX;
  }
  return sum;
}

Status KvCache::init(const gc_program& program, const KvOptions& options, Allocator allocator) {
  reset();
  if (options.kv_type >= GC_KV_TYPES || options.n_seqs == 0 || options.chunk == 0) return kErrArgument;
  program_ = &program;
  options_ = options;
  allocator_ = allocator;
  groups_ = Vec<Pool>(allocator);
  pools_ = Vec<uint8_t*>(allocator);
  seqs_ = Vec<Seq>(allocator);
  tables_ = Vec<gc_seq>(allocator);
  if (!groups_.resize(program.n_groups) || !pools_.resize(program.n_groups) ||
      !seqs_.resize(options.n_seqs) || !tables_.resize(options.n_seqs))
    return kErrMemory;
  for (Pool& pool : groups_) {
    pool.free = Vec<uint32_t>(allocator);
    pool.uses = Vec<uint16_t>(allocator);
  }
  for (Seq& seq : seqs_)
    for (Vec<uint32_t>& blocks : seq.blocks) blocks = Vec<uint32_t>(allocator);
  for (uint32_t g = 0; g < program.n_groups; ++g)
    if (const Status s = has_blocks(program.groups[g]) ? init_group(g) : init_slots(g); s != kOk) return s;
  return kOk;
}

Status KvCache::init_slots(uint32_t g) {
  recurrent_ = true;
  Pool& pool = groups_[g];
  const uint64_t slot = program_->groups[g].seq_bytes;
  uint32_t n = 0;
  if (!checked_mul(options_.n_seqs, kSlots, &n) || !checked_mul<uint64_t>(slot, n, &pool.bytes))
    return kErrMemory;
  pools_[g] = static_cast<uint8_t*>(allocator_.get(pool.bytes, large_alignment(pool.bytes)));
  if (pools_[g] == nullptr) return kErrMemory;
  bytes_ += pool.bytes;
  for (uint32_t s = 0; s < options_.n_seqs; ++s) {
    Vec<uint32_t>& slots = seqs_[s].blocks[g];
    if (!slots.resize(kSlots)) return kErrMemory;
    slots[kState] = s;
    slots[kSnapshot] = options_.n_seqs + s;
    tables_[s].tables[g] = {slots.data(), 1, 0};
  }
  return kOk;
}

Status KvCache::init_group(uint32_t g) {
  const gc_group& group = program_->groups[g];
  const uint64_t block = group.block_bytes[options_.kv_type];
  if (block == 0) return kErrUnsupported;
  Pool& pool = groups_[g];
  pool.table = kv_table_blocks(group, options_);
  uint32_t n = 0;
  if (!checked_mul(pool.table, options_.n_seqs, &n) || !checked_mul<uint64_t>(block, n, &pool.bytes))
    return kErrMemory;
  if (!pool.free.resize(n) || !pool.uses.resize(n)) return kErrMemory;
  if (pool.bytes != 0) {
    pools_[g] = static_cast<uint8_t*>(allocator_.get(pool.bytes, large_alignment(pool.bytes)));
    if (pools_[g] == nullptr) return kErrMemory;
    want_huge_pages(pools_[g], pool.bytes);
  }
  pool.n_blocks = n;
  bytes_ += pool.bytes;
  for (uint32_t i = 0; i < n; ++i) pool.free[i] = n - 1 - i;  // lowest first
  for (uint32_t s = 0; s < options_.n_seqs; ++s) {
    Vec<uint32_t>& blocks = seqs_[s].blocks[g];
    if (!blocks.resize(pool.table)) return kErrMemory;
    for (uint32_t& b : blocks) b = kNone;
    tables_[s].tables[g] = {blocks.data(), pool.table, 0};
  }
  return kOk;
}

void KvCache::reset() {
  for (uint32_t g = 0; g < pools_.size(); ++g)
    if (pools_[g] != nullptr) allocator_.put(pools_[g], groups_[g].bytes, large_alignment(groups_[g].bytes));
  pools_.reset();
  groups_.reset();
  seqs_.reset();
  tables_.reset();
  bytes_ = 0;
  recurrent_ = false;
}

Status KvCache::take(uint32_t g, uint32_t* entry) {
  Pool& pool = groups_[g];
  if (pool.free.empty()) return kErrFull;
  *entry = pool.free.back();
  pool.free.pop();
  pool.uses[*entry] = 1;
  const uint64_t block = program_->groups[g].block_bytes[options_.kv_type];
  memset(pools_[g] + *entry * block, 0, block);
  return kOk;
}

void KvCache::give(uint32_t g, uint32_t* entry) {
  if (*entry == kNone) return;
  Pool& pool = groups_[g];
  if (--pool.uses[*entry] == 0 && !pool.free.push(*entry))
    __builtin_unreachable();  // it had room for all blocks
  *entry = kNone;
}

Status KvCache::grow(uint32_t s, uint32_t end) {
  if (end > options_.n_ctx) return kErrFull;
  Seq& seq = seqs_[s];
  if (end <= seq.length) return kOk;
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    if (!has_blocks(program_->groups[g])) {
      const uint64_t slot = program_->groups[g].seq_bytes;
      if (seq.length == 0) memset(pools_[g] + seq.blocks[g][kState] * slot, 0, slot);
      continue;
    }
    const uint32_t table = groups_[g].table;
    // A fork may have the block that the next row goes to.
    if (uint32_t& entry = seq.blocks[g][seq.length / GC_KV_BLOCK % table];
        seq.length % GC_KV_BLOCK != 0 && groups_[g].uses[entry] > 1) {
      uint32_t own = kNone;
      if (const Status status = own_copy(g, entry, &own); status != kOk) return status;
      give(g, &entry);
      entry = own;
    }
    for (uint32_t b = seq.length / GC_KV_BLOCK; b < blocks_for(end); ++b)
      if (uint32_t& entry = seq.blocks[g][b % table]; entry == kNone)
        if (const Status status = take(g, &entry); status != kOk) return status;
  }
  seq.length = end;
  if (seq.written < end) seq.written = end;
  return kOk;
}

uint32_t KvCache::truncate(uint32_t s, uint32_t end) {
  Seq& seq = seqs_[s];
  if (end >= seq.length) return seq.length;
  if (recurrent_) end = seq.kept <= end ? seq.kept : 0;
  for (uint32_t g = 0; g < groups_.size() && end != 0; ++g) {
    const gc_group& group = program_->groups[g];
    if (group.kind != GC_STATE_KV_RING) continue;
    // The next position needs the window before it; the ring holds the last `table` blocks that were written.
    const uint32_t from = end + 1 > group.window ? end + 1 - group.window : 0;
    if (from < seq.loaded_from || from / GC_KV_BLOCK + groups_[g].table < blocks_for(seq.written)) end = 0;
  }
  give_from(s, end);
  if (end == 0) {
    seq.written = seq.kept = seq.loaded_from = 0;
  } else if (recurrent_) {
    copy_slots(s, kSnapshot, kState);
  }
  return end;
}

void KvCache::shrink(uint32_t s, uint32_t end) {
  if (end < seqs_[s].length) give_from(s, end);
}

// Blocks beyond `end` go back, but for those of a ring that still holds something.
void KvCache::give_from(uint32_t s, uint32_t end) {
  Seq& seq = seqs_[s];
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    if (!has_blocks(program_->groups[g])) continue;
    const bool ring = program_->groups[g].kind == GC_STATE_KV_RING;
    const uint32_t keep = ring && end != 0 ? groups_[g].table : blocks_for(end);
    for (uint32_t b = keep; b < groups_[g].table; ++b) give(g, &seq.blocks[g][b]);
  }
  seq.length = end;
}

Status KvCache::own_copy(uint32_t g, uint32_t of, uint32_t* entry) {
  if (const Status status = take(g, entry); status != kOk) return status;
  const uint64_t block = program_->groups[g].block_bytes[options_.kv_type];
  memcpy(pools_[g] + *entry * block, pools_[g] + of * block, block);
  return kOk;
}

Status KvCache::fork_blocks(uint32_t from, uint32_t to, uint32_t g) {
  const bool shares = program_->groups[g].kind != GC_STATE_KV_RING;  // whose blocks are written again
  for (uint32_t b = 0; b < groups_[g].table; ++b) {
    const uint32_t block = seqs_[from].blocks[g][b];
    uint32_t& entry = seqs_[to].blocks[g][b];
    if (block == kNone) continue;
    if (shares && b < seqs_[from].length / GC_KV_BLOCK) {
      entry = block;
      ++groups_[g].uses[block];
    } else if (const Status status = own_copy(g, block, &entry); status != kOk) {
      return status;
    }
  }
  return kOk;
}

Status KvCache::fork(uint32_t from, uint32_t to) {
  if (from == to) return kOk;
  truncate(to, 0);
  Seq &a = seqs_[from], &b = seqs_[to];
  b.length = a.length, b.written = a.written, b.loaded_from = a.loaded_from, b.kept = a.kept;
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    if (has_blocks(program_->groups[g])) {
      if (const Status status = fork_blocks(from, to, g); status != kOk) {
        truncate(to, 0);
        return status;
      }
      continue;
    }
    const uint64_t slot = program_->groups[g].seq_bytes;
    for (uint32_t i = 0; i < kSlots; ++i)
      memcpy(pools_[g] + b.blocks[g][i] * slot, pools_[g] + a.blocks[g][i] * slot, slot);
  }
  return kOk;
}

void KvCache::keep(uint32_t s) {
  if (!recurrent_) return;
  copy_slots(s, kState, kSnapshot);
  seqs_[s].kept = seqs_[s].length;
}

void KvCache::copy_slots(uint32_t s, uint32_t from, uint32_t to) {
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    if (has_blocks(program_->groups[g])) continue;
    const uint64_t slot = program_->groups[g].seq_bytes;
    const Vec<uint32_t>& slots = seqs_[s].blocks[g];
    memcpy(pools_[g] + slots[to] * slot, pools_[g] + slots[from] * slot, slot);
  }
}

}  // namespace gcrt
