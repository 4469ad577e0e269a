#pragma once
// The states after prompts, kept for prompts that begin alike.
//
// A kept prompt is a sequence of the session that no step runs: blocks of keys and values are shared with whoever was
// forked from it or it from. A new prompt is forked from the one it can use most of: with full attention as far as both
// are alike; a ring must still hold the window, and a recurrent state comes back only where it was kept. All of them
// were written as prompt (see batcher.h).
//
// Tokens are compared one by one: with some dozens of kept prompts that takes microseconds, needs no hash of blocks and
// can't be mistaken.
#include <stdint.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/base/vec.h"
#include "runtime/core/session.h"

namespace gcrt::batch {

class Prefixes {
 public:
  struct Found {
    uint32_t seq = 0;
    size_t alike = 0;  // tokens that both begin with
    size_t reach = 0;  // of them, that can be used
  };

  // Fewer tokens than these are computed sooner than a block is copied.
  static constexpr size_t kFewest = 16;

  explicit Prefixes(Allocator a) : entries_(a) {}

  // Holds prompts in the session's held sequences, those that the file brings along first.
  Status init(Session* session);
  // What at most `most` of these tokens can start from; reach 0: nothing.
  Found find(Span<const int32_t> ids, size_t most);
  // Keeps the sequence's state, all of whose tokens are `ids`; the entry, or -1 where there is no room for any.
  int32_t keep(uint32_t seq, Span<const int32_t> ids);
  // Empties the one that was used longest ago, for its blocks; false: there is none.
  bool drop_oldest();

  size_t count() const;
  // Of an entry; the serial number is another one when another prompt has taken its place, 0 when none has.
  uint64_t serial(int32_t entry) const { return entries_[static_cast<size_t>(entry)].serial; }
  Span<const int32_t> ids(int32_t entry) const { return entries_[static_cast<size_t>(entry)].ids; }
  uint32_t seq(int32_t entry) const { return first_seq_ + static_cast<uint32_t>(entry); }
  void drop(int32_t entry);
  // An entry from a record of prompt_cache.h; errors as restore_sequence()'s.
  Status restore(Span<const uint8_t> record, int32_t* entry, Span<char> message);

 private:
  struct Entry {
    Vec<int32_t> ids;  // empty: it is free
    uint64_t used = 0;
    uint64_t serial = 0;
  };
  int32_t oldest() const;
  int32_t place();
  void touch(Entry* e) { e->used = ++clock_; }
  bool restore_file();
  bool file_helps(Span<const int32_t> ids, size_t reach) const;

  Session* session_ = nullptr;
  uint32_t first_seq_ = 0;
  Vec<Entry> entries_;
  uint64_t clock_ = 0, serials_ = 0;
  bool has_file_ = false;  // the model's file brings states along that this session takes
};

}  // namespace gcrt::batch
