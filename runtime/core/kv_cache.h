// Memory of the sequences' states: one pool a group, cut into blocks of GC_KV_BLOCK positions that hold all the
// group's layers, and for each sequence a table that says where its blocks are. Blocks are counted, so that
// sequences can share those of a common prefix.
//
// A full group's table grows with the sequence. A ring's table is fixed: it holds the window and the largest chunk
// (gc_ring_blocks), and block b of the sequence replaces block b - n. A context that a ring would hold whole gets a
// ring of that size, and never replaces anything. A block of a ring that another sequence shares is not written again:
// the sequence takes a fresh one in its place.
//
// Recurrent groups (convolutions, scans) have no blocks: a sequence has a slot of the group's pool, which each row of
// it replaces, and a second one for a snapshot of an earlier length. Such a sequence goes back to its snapshot or to
// nothing.
//
// Pools are reserved when the cache is made; pages are touched as sequences grow into them. A block is zeroed when it is
// taken, a slot when its sequence begins, so that what is saved of a sequence never has bytes of anything else in it,
// but of what it was forked from (0.2 % of a step's time).
#pragma once

#include <stdint.h>

#include "runtime/abi/program.h"
#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/base/vec.h"

namespace gcrt {

class Device;

struct KvOptions {
  uint32_t n_seqs = 1;
  uint32_t n_ctx = 0;  // positions of a sequence
  uint32_t chunk = 0;  // most rows of one sequence in a step
  uint32_t kv_type = GC_KV_F16;
  // Sequences n_seqs, n_seqs + 1, ... that only hold what was forked to them. The pools of full groups are not made
  // larger for them, but by `held_tokens` positions in all: whoever needs a block that there is not (kErrFull) empties
  // one of these.
  uint32_t n_held = 0;
  uint32_t held_tokens = 0;
};

inline bool has_blocks(const gc_group& group) {
  return group.kind != GC_STATE_CONV && group.kind != GC_STATE_SSM;
}
// Bytes of the pools of recurrent states, snapshots included.
uint64_t recurrent_pool_bytes(const gc_program& program, const KvOptions& options);
// Entries of a group's table for one sequence.
uint32_t kv_table_blocks(const gc_group& group, const KvOptions& options);
// Blocks of a group's pool, or slots of a recurrent one; false: more than a number can say.
bool kv_pool_blocks(const gc_group& group, const KvOptions& options, uint32_t* n);
// Bytes of all pools; 0 when a group has no kernels for the KV type.
uint64_t kv_pool_bytes(const gc_program& program, const KvOptions& options);

class KvCache {
 public:
  KvCache() = default;
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;
  ~KvCache() { reset(); }

  // GC_ERR_UNSUPPORTED when the program has no kernels for the type; kErrMemory. The pools are the device's memory where there
  // is one.
  Status init(const gc_program& program, const KvOptions& options, Allocator allocator,
              Device* device = nullptr);
  void reset();

  // Blocks for positions up to end - 1 of a sequence; kErrFull past the context, or when no block is left.
  Status grow(uint32_t seq, uint32_t end);
  // Positions from `end` on are forgotten. A ring can go back only as far as its window is still whole, a recurrent
  // state only to its snapshot: returns the position reached, at most `end`: in the end 0.
  uint32_t truncate(uint32_t seq, uint32_t end);
  // The position that truncate() would reach, or the length if that is no more than `end`.
  uint32_t reach(uint32_t seq, uint32_t end) const;
  // The same as truncate() for positions that no step has computed since they were grown.
  void shrink(uint32_t seq, uint32_t end);
  // `to` becomes what `from` is: blocks are shared until one of both writes to them, recurrent states are copied.
  void fork(uint32_t from, uint32_t to);
  // Copies the sequence's recurrent states; truncate can come back to this length.
  void keep(uint32_t seq);
  bool is_recurrent() const { return recurrent_; }
  // Whether a sequence can go back to any earlier length.
  bool goes_back() const { return goes_back_; }
  uint32_t length(uint32_t seq) const { return seqs_[seq].length; }

  // A sequence's blocks as bytes (saved_sequence.h puts what guards them around): of each group where its first block
  // stands and how many follow. kErrInput: they are not what save() of such a cache writes; kErrFull: too many tokens.
  // The sequence is then empty.
  uint64_t saved_bytes(uint32_t seq) const;
  void save(uint32_t seq, uint8_t* out) const;
  Status load(uint32_t seq, Span<const uint8_t> bytes);

  const gc_seq* seqs() const { return tables_.data(); }
  uint8_t* const* pools() const { return pools_.data(); }
  const KvOptions& options() const { return options_; }
  uint64_t bytes() const { return bytes_; }

 private:
  struct Pool {
    uint64_t bytes = 0;
    uint32_t n_blocks = 0, table = 0;  // in all; entries a sequence
    Vec<uint32_t> free;
    Vec<uint16_t> uses;  // by block
  };
  struct Seq {
    uint32_t length = 0;
    uint32_t written = 0;  // most positions there ever were since it was empty: what rings hold depends on it
    uint32_t loaded_from = 0;  // first position that rings hold after load()
    uint32_t kept = 0;         // length of the snapshot, 0: there is none
    // By group: physical block of an entry, kNone where there is none yet; of recurrent groups the slots of the state
    // and of the snapshot.
    Vec<uint32_t> blocks[GC_MAX_GROUPS];
  };
  static constexpr uint32_t kNone = 0xffffffffu;

  struct Range {
    uint32_t first, count;  // blocks
  };
  Range held(uint32_t seq, uint32_t group) const;
  bool may_hold(uint32_t group, Range range, uint32_t length) const;
  uint64_t unit_bytes(uint32_t group) const;  // of a block, or of a sequence's state
  Status load_group(uint32_t seq, uint32_t group, Range range, const uint8_t* bytes);
  Status init_group(uint32_t group);
  Status init_slots(uint32_t group);
  void give_from(uint32_t seq, uint32_t end);
  void copy_slots(uint32_t seq, uint32_t from, uint32_t to);
  // Memory of the pools, wherever it is.
  uint8_t* pool_get(uint64_t bytes);
  void pool_put(uint8_t* at, uint64_t bytes);
  void pool_zero(uint8_t* at, uint64_t bytes);
  void pool_copy(uint8_t* to, const uint8_t* from, uint64_t bytes);
  void pool_write(uint8_t* to, const uint8_t* from, uint64_t bytes);
  void pool_read(uint8_t* to, const uint8_t* from, uint64_t bytes) const;
  Status own_copy(uint32_t group, uint32_t of, uint32_t* entry);
  Status own_block(uint32_t group, uint32_t block, uint32_t length, uint32_t* entry);
  Status take(uint32_t group, uint32_t* entry);
  void give(uint32_t group, uint32_t* entry);

  const gc_program* program_ = nullptr;
  KvOptions options_;
  Allocator allocator_;
  Device* device_ = nullptr;  // null: pools are this machine's memory
  uint64_t bytes_ = 0;
  bool recurrent_ = false, goes_back_ = true;
  Vec<Pool> groups_;
  Vec<uint8_t*> pools_;
  Vec<Seq> seqs_;
  Vec<gc_seq> tables_;
};

}  // namespace gcrt
