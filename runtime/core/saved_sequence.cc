#include "runtime/core/saved_sequence.h"

#include <string.h>

#include "runtime/abi/code_id.h"
#include "runtime/base/format.h"

namespace gcrt {
namespace {

constexpr char kMagic[] = "GCSEQ";  // 8 bytes with zeros
constexpr uint32_t kVersion = 3;
constexpr const char* kKvNames[GC_KV_TYPES] = {"f32", "f16", "bf16", "q8_0"};

struct Head {
  char magic[8];
  uint32_t version, abi_version;
  uint64_t model;         // checksum of the header of its weights, which has those of all weights
  char isa[48];           // zero-padded
  uint32_t kv_type;       // GC_KV_*
  uint32_t length;        // tokens
  uint32_t long_context;  // 1: its keys turned by the factors for long contexts
  uint32_t reserved;
  uint64_t code;      // of gc_code_ids
  uint64_t bytes;     // of all
  uint64_t checksum;  // gc_hash of the head with this field 0, and of what follows
};
static_assert(sizeof(Head) == 112);

uint64_t code_id(const gc_program& program) {
  for (uint32_t i = 0; i < gc_n_programs; ++i)
    if (gc_programs[i] == &program) return gc_code_ids[i];
  return 0;
}

Head make_head(Session& session, uint32_t seq) {
  Head h = {};
  memcpy(h.magic, kMagic, sizeof kMagic);
  h.version = kVersion;
  h.abi_version = GC_ABI_VERSION;
  h.model = session.model().image.header != nullptr ? session.model().image.header->header_checksum : 0;
  const Str isa = session.model().program->isa;
  memcpy(h.isa, isa.data(), min_of(isa.size(), sizeof h.isa - 1));
  h.code = code_id(*session.model().program);
  h.kv_type = session.options().kv_type;
  h.length = session.kv().length(seq);
  h.long_context = session.long_context() ? 1 : 0;
  h.bytes = saved_sequence_bytes(session, seq);
  return h;
}

uint64_t checksum_of(Head head, const uint8_t* rest, uint64_t bytes) {
  head.checksum = 0;
  gc_hash_state state;
  gc_hash_init(&state);
  gc_hash_update(&state, &head, sizeof head);
  gc_hash_update(&state, rest, bytes);
  return gc_hash_final(&state);
}

// Against what this session would write.
Status check_head(const Head& h, const Head& ours, uint64_t bytes, Span<char> message) {
  auto refuse = [&](const auto&... why) {
    format_to(message, "these saved bytes ", why...);
    return kErrInput;
  };
  if (memcmp(h.magic, ours.magic, sizeof h.magic) != 0) return refuse("are no saved sequence");
  if (h.version != kVersion || h.abi_version != GC_ABI_VERSION)
    return refuse("were written by another version of the runtime");
  if (h.model != ours.model) return refuse("are another model's");
  if (h.isa[sizeof h.isa - 1] != 0) return refuse("are damaged");
  if (Str(h.isa) != Str(ours.isa)) return refuse("were computed with ", h.isa, ", and this is ", ours.isa);
  if (h.code != ours.code) return refuse("were computed by another build of this model");
  if (h.kv_type >= GC_KV_TYPES) return refuse("are damaged");
  if (h.kv_type != ours.kv_type)
    return refuse("have a KV cache of ", kKvNames[h.kv_type], ", and this session has ",
                  kKvNames[ours.kv_type]);
  if (h.long_context != ours.long_context)
    return refuse("were computed in a ", h.long_context != 0 ? "long" : "short",
                  " context, and this session's positions turn as in a ",
                  ours.long_context != 0 ? "long" : "short", " one");
  if (h.bytes != bytes) return refuse("are cut off");
  return kOk;
}

}  // namespace

uint64_t saved_sequence_bytes(Session& session, uint32_t seq) {
  return sizeof(Head) + session.kv().saved_bytes(seq);
}

void save_sequence(Session& session, uint32_t seq, uint8_t* out) {
  Head head = make_head(session, seq);
  session.kv().save(seq, out + sizeof head);
  head.checksum = checksum_of(head, out + sizeof head, head.bytes - sizeof head);
  memcpy(out, &head, sizeof head);
}

Status restore_sequence(Session& session, uint32_t seq, Span<const uint8_t> bytes, Span<char> message) {
  session.kv().truncate(seq, 0);
  Head head = {};
  if (bytes.size() < sizeof head) {
    format_to(message, "these saved bytes are cut off");
    return kErrInput;
  }
  memcpy(&head, bytes.data(), sizeof head);
  if (const Status s = check_head(head, make_head(session, seq), bytes.size(), message); s != kOk) return s;
  const Span<const uint8_t> rest = bytes.sub(sizeof head);
  Status s = checksum_of(head, rest.data(), rest.size()) == head.checksum ? kOk : kErrInput;
  if (s == kOk) s = session.kv().load(seq, rest);
  if (s == kErrFull)
    format_to(message, "the saved sequence has ", head.length, " tokens, and the context ",
              session.options().n_ctx);
  if (s == kErrInput) format_to(message, "these saved bytes are damaged");
  return s;
}

bool read_saved_kind(Span<const uint8_t> bytes, Str* isa, uint32_t* kv_type) {
  if (bytes.size() < sizeof(Head)) return false;
  const Head* head = reinterpret_cast<const Head*>(bytes.data());
  if (memcmp(head->magic, kMagic, sizeof kMagic) != 0 || head->isa[sizeof head->isa - 1] != 0) return false;
  *isa = Str(head->isa);
  *kv_type = head->kv_type;
  return true;
}

}  // namespace gcrt
