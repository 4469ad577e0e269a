#include "runtime/core/prompt_cache.h"

#include <string.h>

#include "runtime/core/saved_sequence.h"

namespace gcrt {
namespace {

constexpr char kMagic[8] = {'G', 'C', 'P', 'R', 'O', 'M', 'P', 'T'};
constexpr uint64_t kAlign = 16;

struct Head {
  char magic[8];
  uint64_t n_ids, text_bytes, saved_bytes;
};

uint64_t padded(uint64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

bool append_padded(Vec<uint8_t>* out, const void* data, uint64_t bytes) {
  const size_t at = out->size();
  if (!out->resize(at + padded(bytes))) return false;
  memset(out->data() + at, 0, padded(bytes));
  if (bytes != 0) memcpy(out->data() + at, data, bytes);
  return true;
}

}  // namespace

bool next_record(Span<const uint8_t>* cache, PromptRecord* record) {
  Head head;
  if (cache->size() < sizeof head) return false;
  memcpy(&head, cache->data(), sizeof head);
  const uint64_t most = cache->size();
  if (memcmp(head.magic, kMagic, sizeof kMagic) != 0 || head.n_ids > most / sizeof(int32_t) ||
      head.text_bytes > most || head.saved_bytes > most)
    return false;
  const uint64_t text_at = sizeof head + padded(head.n_ids * sizeof(int32_t));
  const uint64_t saved_at = text_at + padded(head.text_bytes), end = saved_at + padded(head.saved_bytes);
  if (end > most) return false;
  const uint8_t* base = cache->data();
  record->ids = {reinterpret_cast<const int32_t*>(base + sizeof head), static_cast<size_t>(head.n_ids)};
  record->text = {reinterpret_cast<const char*>(base + text_at), static_cast<size_t>(head.text_bytes)};
  record->saved = cache->sub(saved_at, head.saved_bytes);
  *cache = cache->sub(end);
  return true;
}

PromptRecord first_record(const gc_model& model) {
  PromptRecord record;
  Span<const uint8_t> cache(model.prompt_cache, model.prompt_cache_bytes);
  next_record(&cache, &record);
  return record;
}

bool write_record(Session& session, uint32_t seq, Span<const int32_t> ids, Str text, Vec<uint8_t>* out) {
  Head head = {};
  memcpy(head.magic, kMagic, sizeof kMagic);
  head.n_ids = ids.size();
  head.text_bytes = text.size();
  head.saved_bytes = saved_sequence_bytes(session, seq);
  out->clear();
  if (!append_padded(out, &head, sizeof head) ||
      !append_padded(out, ids.data(), ids.size() * sizeof(int32_t)) ||
      !append_padded(out, text.data(), text.size()))
    return false;
  const size_t at = out->size();
  if (!out->resize(at + padded(head.saved_bytes))) return false;
  memset(out->data() + at, 0, padded(head.saved_bytes));
  save_sequence(session, seq, out->data() + at);
  return true;
}

bool restore_prompt(Session& session, uint32_t seq) {
  const gc_model* model = session.model().facts;
  if (model == nullptr) return false;
  Span<const uint8_t> cache(model->prompt_cache, model->prompt_cache_bytes);
  char ignored[128];
  for (PromptRecord record; next_record(&cache, &record);)
    if (restore_sequence(session, seq, record.saved, ignored) == kOk &&
        session.kv().length(seq) == record.ids.size())
      return true;
  session.kv().truncate(seq, 0);
  return false;
}

uint32_t start_from_cache(Session& session, uint32_t seq, Span<const int32_t> ids) {
  const gc_model* model = session.model().facts;
  if (model == nullptr || model->prompt_cache == nullptr) return 0;
  const Span<const int32_t> cached = first_record(*model).ids;
  size_t common = common_prefix(ids, cached);
  if (common != 0 && common == ids.size()) --common;
  if (2 * common <= cached.size() || !restore_prompt(session, seq)) return 0;
  return session.kv().truncate(seq, static_cast<uint32_t>(common));
}

}  // namespace gcrt
