#include "runtime/core/kv_cache.h"

#include <string.h>

#include "runtime/base/checked.h"
#include "runtime/core/device.h"
#include "runtime/core/huge_pages.h"

namespace gcrt {
namespace {

constexpr uint32_t kState = 0, kSnapshot = 1, kSlots = 2;  // of a sequence in a recurrent group

}  // namespace

// Positions of a block: latent groups keep one row of every `window` of them.
uint64_t block_span(const gc_group& group) {
  return uint64_t{GC_KV_BLOCK} * (group.kind == GC_STATE_KV_LATENT && group.window != 0 ? group.window : 1);
}

uint32_t blocks_for(const gc_group& group, uint32_t positions) {
  const uint64_t span = block_span(group);
  return static_cast<uint32_t>(positions / span + (positions % span != 0));
}

uint32_t kv_table_blocks(const gc_group& group, const KvOptions& options) {
  if (!has_blocks(group)) return kSlots;
  const uint32_t all = blocks_for(group, options.n_ctx);
  if (group.kind != GC_STATE_KV_RING) return all;
  const uint32_t ring = gc_ring_blocks(group.window, options.chunk);
  return ring < all ? ring : all;
}

bool kv_pool_blocks(const gc_group& group, const KvOptions& options, uint32_t* n) {
  const bool grows = has_blocks(group) && group.kind != GC_STATE_KV_RING;  // with its sequence
  uint32_t seqs = options.n_seqs;
  if (!grows && !checked_add(seqs, options.n_held, &seqs)) return false;
  if (!checked_mul(kv_table_blocks(group, options), seqs, n)) return false;
  return !grows || checked_add(*n, blocks_for(group, options.held_tokens), n);
}

uint64_t recurrent_pool_bytes(const gc_program& program, const KvOptions& options) {
  uint64_t sum = 0;
  for (uint32_t g = 0; g < program.n_groups; ++g) {
    uint32_t n = 0;
    if (!has_blocks(program.groups[g]) && kv_pool_blocks(program.groups[g], options, &n))
      sum += program.groups[g].seq_bytes * n;
  }
  return sum;
}

uint64_t kv_pool_bytes(const gc_program& program, const KvOptions& options) {
  uint64_t sum = 0;
  for (uint32_t g = 0; g < program.n_groups; ++g) {
    const gc_group& group = program.groups[g];
    uint64_t bytes = has_blocks(group) ? group.block_bytes[options.kv_type] : group.seq_bytes;
    uint32_t n = 0;
    if (bytes == 0) return 0;
    if (!kv_pool_blocks(group, options, &n) || !checked_mul<uint64_t>(bytes, n, &bytes)) return UINT64_MAX;
    if (!checked_add<uint64_t>(sum, bytes, &sum)) return UINT64_MAX;
  }
  return sum;
}

uint8_t* KvCache::pool_get(uint64_t bytes) {
  if (device_ != nullptr) return device_->get(bytes);
  auto* at = static_cast<uint8_t*>(allocator_.get(bytes, large_alignment(bytes)));
  if (at != nullptr) want_huge_pages(at, bytes);
  return at;
}
void KvCache::pool_put(uint8_t* at, uint64_t bytes) {
  if (device_ != nullptr) return device_->put(at);
  allocator_.put(at, bytes, large_alignment(bytes));
}
void KvCache::pool_zero(uint8_t* at, uint64_t bytes) {
  if (device_ != nullptr) return device_->zero(at, bytes);
  memset(at, 0, bytes);
}
void KvCache::pool_copy(uint8_t* to, const uint8_t* from, uint64_t bytes) {
  if (device_ != nullptr) return device_->copy(to, from, bytes);
  memcpy(to, from, bytes);
}
void KvCache::pool_write(uint8_t* to, const uint8_t* from, uint64_t bytes) {
  if (device_ != nullptr) return device_->write(to, from, bytes);
  memcpy(to, from, bytes);
}
void KvCache::pool_read(uint8_t* to, const uint8_t* from, uint64_t bytes) const {
  if (device_ != nullptr) return device_->read(to, from, bytes);
  memcpy(to, from, bytes);
}

Status KvCache::init(const gc_program& program, const KvOptions& options, Allocator allocator,
                     Device* device) {
  reset();
  if (options.kv_type >= GC_KV_TYPES || options.n_seqs == 0 || options.chunk == 0) return kErrArgument;
  program_ = &program;
  options_ = options;
  allocator_ = allocator;
  device_ = device;
  uint32_t n_seqs = 0;
  if (!checked_add(options.n_seqs, options.n_held, &n_seqs)) return kErrMemory;
  groups_ = Vec<Pool>(allocator);
  pools_ = Vec<uint8_t*>(allocator);
  seqs_ = Vec<Seq>(allocator);
  tables_ = Vec<gc_seq>(allocator);
  if (!groups_.resize(program.n_groups) || !pools_.resize(program.n_groups) || !seqs_.resize(n_seqs) ||
      !tables_.resize(n_seqs))
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
  goes_back_ = false;
  Pool& pool = groups_[g];
  const gc_group& group = program_->groups[g];
  uint32_t n = 0;
  if (!kv_pool_blocks(group, options_, &n) || !checked_mul<uint64_t>(group.seq_bytes, n, &pool.bytes))
    return kErrMemory;
  pools_[g] = pool_get(pool.bytes);
  if (pools_[g] == nullptr) return kErrMemory;
  bytes_ += pool.bytes;
  const uint32_t n_seqs = static_cast<uint32_t>(seqs_.size());
  for (uint32_t s = 0; s < n_seqs; ++s) {
    Vec<uint32_t>& slots = seqs_[s].blocks[g];
    if (!slots.resize(kSlots)) return kErrMemory;
    slots[kState] = s;
    slots[kSnapshot] = n_seqs + s;
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
  if (group.kind == GC_STATE_KV_RING && pool.table < blocks_for(group, options_.n_ctx)) goes_back_ = false;
  uint32_t n = 0;
  if (!kv_pool_blocks(group, options_, &n) || !checked_mul<uint64_t>(block, n, &pool.bytes))
    return kErrMemory;
  if (!pool.free.resize(n) || !pool.uses.resize(n)) return kErrMemory;
  if (pool.bytes != 0) {
    pools_[g] = pool_get(pool.bytes);
    if (pools_[g] == nullptr) return kErrMemory;
  }
  pool.n_blocks = n;
  bytes_ += pool.bytes;
  for (uint32_t i = 0; i < n; ++i) pool.free[i] = n - 1 - i;  // lowest first
  for (uint32_t s = 0; s < seqs_.size(); ++s) {
    Vec<uint32_t>& blocks = seqs_[s].blocks[g];
    if (!blocks.resize(pool.table)) return kErrMemory;
    for (uint32_t& b : blocks) b = kNone;
    tables_[s].tables[g] = {blocks.data(), pool.table, 0};
  }
  return kOk;
}

void KvCache::reset() {
  for (uint32_t g = 0; g < pools_.size(); ++g)
    if (pools_[g] != nullptr) pool_put(pools_[g], groups_[g].bytes);
  pools_.reset();
  groups_.reset();
  seqs_.reset();
  tables_.reset();
  bytes_ = 0;
  recurrent_ = false;
  goes_back_ = true;
}

Status KvCache::take(uint32_t g, uint32_t* entry) {
  Pool& pool = groups_[g];
  if (pool.free.empty()) return kErrFull;
  *entry = pool.free.back();
  pool.free.pop();
  pool.uses[*entry] = 1;
  const uint64_t block = program_->groups[g].block_bytes[options_.kv_type];
  pool_zero(pools_[g] + *entry * block, block);
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
      if (seq.length == 0) pool_zero(pools_[g] + seq.blocks[g][kState] * slot, slot);
      continue;
    }
    const gc_group& group = program_->groups[g];
    const uint32_t table = groups_[g].table;
    for (uint32_t b = static_cast<uint32_t>(seq.length / block_span(group)); b < blocks_for(group, end); ++b)
      if (const Status status = own_block(g, b, seq.length, &seq.blocks[g][b % table]); status != kOk)
        return status;
  }
  seq.length = end;
  if (seq.written < end) seq.written = end;
  return kOk;
}

// A block that rows of `block` from position `length` on may be written to: one that nobody shares.
Status KvCache::own_block(uint32_t g, uint32_t block, uint32_t length, uint32_t* entry) {
  if (*entry == kNone) return take(g, entry);
  if (groups_[g].uses[*entry] == 1) return kOk;
  const bool has_rows =
      length >
      block * block_span(program_->groups[g]);  // else a ring's, with rows that no window reaches any more
  uint32_t own = kNone;
  if (const Status status = has_rows ? own_copy(g, *entry, &own) : take(g, &own); status != kOk)
    return status;
  give(g, entry);
  *entry = own;
  return kOk;
}

uint32_t KvCache::reach(uint32_t s, uint32_t end) const {
  const Seq& seq = seqs_[s];
  if (end >= seq.length) return seq.length;
  if (recurrent_) end = seq.kept <= end ? seq.kept : 0;
  for (uint32_t g = 0; g < groups_.size() && end != 0; ++g) {
    const gc_group& group = program_->groups[g];
    if (group.kind != GC_STATE_KV_RING) continue;
    // The next position needs the window before it; the ring holds the last `table` blocks that were written.
    const uint32_t from = end + 1 > group.window ? end + 1 - group.window : 0;
    if (from < seq.loaded_from || from / GC_KV_BLOCK + groups_[g].table < blocks_for(group, seq.written))
      end = 0;
  }
  return end;
}

uint32_t KvCache::truncate(uint32_t s, uint32_t end) {
  Seq& seq = seqs_[s];
  if (end >= seq.length) return seq.length;
  end = reach(s, end);
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
    const gc_group& group = program_->groups[g];
    const bool ring = group.kind == GC_STATE_KV_RING;
    const uint32_t keep = ring && end != 0 ? groups_[g].table : blocks_for(group, end);
    for (uint32_t b = keep; b < groups_[g].table; ++b) give(g, &seq.blocks[g][b]);
  }
  seq.length = end;
}

Status KvCache::own_copy(uint32_t g, uint32_t of, uint32_t* entry) {
  if (const Status status = take(g, entry); status != kOk) return status;
  const uint64_t block = program_->groups[g].block_bytes[options_.kv_type];
  pool_copy(pools_[g] + *entry * block, pools_[g] + of * block, block);
  return kOk;
}

void KvCache::fork(uint32_t from, uint32_t to) {
  if (from == to) return;
  truncate(to, 0);
  Seq &a = seqs_[from], &b = seqs_[to];
  b.length = a.length, b.written = a.written, b.loaded_from = a.loaded_from, b.kept = a.kept;
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    if (has_blocks(program_->groups[g])) {
      for (uint32_t i = 0; i < groups_[g].table; ++i)
        if (const uint32_t block = a.blocks[g][i]; block != kNone) {
          b.blocks[g][i] = block;
          ++groups_[g].uses[block];
        }
      continue;
    }
    const uint64_t slot = program_->groups[g].seq_bytes;
    for (uint32_t i = 0; i < (a.kept != 0 ? kSlots : 1); ++i)
      pool_copy(pools_[g] + b.blocks[g][i] * slot, pools_[g] + a.blocks[g][i] * slot, slot);
  }
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
    pool_copy(pools_[g] + slots[to] * slot, pools_[g] + slots[from] * slot, slot);
  }
}

}  // namespace gcrt
