#include "runtime/batch/prefixes.h"

#include "runtime/base/format.h"
#include "runtime/core/prompt_cache.h"
#include "runtime/core/saved_sequence.h"

namespace gcrt::batch {

Status Prefixes::init(Session* session) {
  session_ = session;
  first_seq_ = session->options().n_seqs;
  if (!entries_.resize(session->options().n_held)) return kErrMemory;
  const gc_model* model = session->model().facts;
  has_file_ = model != nullptr && model->prompt_cache != nullptr && !entries_.empty() && restore_file();
  return kOk;
}

size_t Prefixes::count() const {
  size_t n = 0;
  for (const Entry& e : entries_) n += !e.ids.empty();
  return n;
}

Prefixes::Found Prefixes::find(Span<const int32_t> ids, size_t most) {
  ids = ids.sub(0, most);
  Found best;
  Entry* from = nullptr;
  auto look = [&] {
    for (Entry& e : entries_) {
      const size_t alike = common_prefix(ids, e.ids);
      const uint32_t seq = this->seq(static_cast<int32_t>(&e - entries_.data()));
      const size_t reach = alike == 0 ? 0 : session_->kv().reach(seq, static_cast<uint32_t>(alike));
      best.alike = max_of(best.alike, alike);
      if (reach <= best.reach || reach < kFewest) continue;
      best.reach = reach;
      best.seq = seq;
      from = &e;
    }
  };
  look();
  if (file_helps(ids, best.reach) && restore_file()) look();
  if (from != nullptr) touch(from);
  return best;
}

// Whether a prompt could use most of what the file has computed (prompt_cache.h), and more than there is here.
bool Prefixes::file_helps(Span<const int32_t> ids, size_t reach) const {
  if (!has_file_) return false;
  const Span<const int32_t> cached = first_record(*session_->model().facts).ids;
  const size_t alike = common_prefix(ids, cached);
  return alike > reach && 2 * alike > cached.size() && (session_->kv().goes_back() || alike == cached.size());
}

bool Prefixes::restore_file() {
  const int32_t at = place();
  Entry& e = entries_[static_cast<size_t>(at)];
  if (!restore_prompt(*session_, seq(at)) || !e.ids.copy(first_record(*session_->model().facts).ids)) {
    drop(at);
    return false;
  }
  e.serial = ++serials_;
  touch(&e);
  return true;
}

// The entry that was used longest ago; -1: all are free.
int32_t Prefixes::oldest() const {
  int32_t oldest = -1;
  for (size_t i = 0; i < entries_.size(); ++i)
    if (!entries_[i].ids.empty() &&
        (oldest < 0 || entries_[i].used < entries_[static_cast<size_t>(oldest)].used))
      oldest = static_cast<int32_t>(i);
  return oldest;
}

// An entry that is free, or was used longest ago and is emptied; -1: there are none at all.
int32_t Prefixes::place() {
  for (size_t i = 0; i < entries_.size(); ++i)
    if (entries_[i].ids.empty()) return static_cast<int32_t>(i);
  const int32_t at = oldest();
  if (at >= 0) drop(at);
  return at;
}

bool Prefixes::drop_oldest() {
  const int32_t at = oldest();
  if (at >= 0) drop(at);
  return at >= 0;
}

void Prefixes::drop(int32_t entry) {
  Entry& e = entries_[static_cast<size_t>(entry)];
  session_->kv().truncate(seq(entry), 0);
  e.ids.reset();
  e.serial = 0;
}

int32_t Prefixes::keep(uint32_t from, Span<const int32_t> ids) {
  if (entries_.empty() || ids.empty()) return -1;
  int32_t entry = -1;
  for (size_t i = 0; i < entries_.size(); ++i) {
    Entry& e = entries_[i];
    const size_t alike = common_prefix(ids, e.ids);
    // Where sequences go back to any length, a longer prompt has all that a shorter one that it begins with has.
    const bool has_these = alike == ids.size() && (session_->kv().goes_back() || e.ids.size() == alike);
    if (has_these) {
      touch(&e);
      return static_cast<int32_t>(i);
    }
    if (session_->kv().goes_back() && alike != 0 && alike == e.ids.size()) entry = static_cast<int32_t>(i);
  }
  if (entry < 0) entry = place();
  Entry& e = entries_[static_cast<size_t>(entry)];
  if (!e.ids.copy(ids)) {
    drop(entry);
    return -1;
  }
  session_->kv().fork(from, seq(entry));
  e.serial = ++serials_;
  touch(&e);
  // What others begin with outlives them.
  for (Entry& other : entries_)
    if (!other.ids.empty() && other.ids.size() < ids.size() &&
        common_prefix(ids, other.ids) == other.ids.size())
      touch(&other);
  return entry;
}

Status Prefixes::restore(Span<const uint8_t> bytes, int32_t* entry, Span<char> message) {
  PromptRecord record;
  *entry = -1;
  if (!next_record(&bytes, &record) || !bytes.empty() || record.ids.empty()) {
    format_to(message, "these bytes are no saved slot");
    return kErrInput;
  }
  const int32_t n_vocab = static_cast<int32_t>(session_->model().program->n_vocab);
  for (int32_t id : record.ids)
    if (id < 0 || id >= n_vocab) {
      format_to(message, "these bytes are no saved slot");
      return kErrInput;
    }
  const int32_t at = place();
  if (at < 0) {
    format_to(message, "no prompts are kept");
    return kErrArgument;
  }
  Entry& e = entries_[static_cast<size_t>(at)];
  // A context that is full for lack of blocks has others to give; one that is too small stays so.
  Status s = kOk;
  do {
    s = restore_sequence(*session_, seq(at), record.saved, message);
  } while (s == kErrFull && record.ids.size() <= session_->options().n_ctx && drop_oldest());
  if (s == kOk && session_->kv().length(seq(at)) != record.ids.size()) {
    format_to(message, "these bytes are no saved slot");
    s = kErrInput;
  }
  if (s == kOk && !e.ids.copy(record.ids)) s = kErrMemory;
  if (s != kOk) {
    drop(at);
    return s;
  }
  e.serial = ++serials_;
  touch(&e);
  *entry = at;
  return kOk;
}

}  // namespace gcrt::batch
