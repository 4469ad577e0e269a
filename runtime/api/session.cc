// Sessions: steps, logits, lengths, saved sequences.
#include "runtime/api/handles.h"
#include "runtime/core/embedding.h"
#include "runtime/core/prompt_cache.h"
#include "runtime/core/saved_sequence.h"

using namespace gcrt;

namespace {

constexpr uint32_t kMostChosen = 256;  // candidates that a generator lets the model's head choose
constexpr size_t kLogitsAlign = 64;

static_assert(int{GCM_KV_USUAL} == int{GC_KV_TYPES}, "what SessionOptions take for the program's own");

struct Setup {
  SessionOptions options;
  Allocator memory;
  uint64_t logits_bytes = 0;
};

Status set_up(const gcm_model& m, const gcm_session_options* given, Setup* out, Span<char> message) {
  gcm_session_options o;
  gcm_session_options_init(&o);
  if (take_options(given, &o) != kOk) {
    format_to(message, "session options of an unknown size");
    return kErrArgument;
  }
  if (o.n_seqs == 0 || o.kv_type > GCM_KV_USUAL) {
    format_to(message, o.n_seqs == 0 ? "a session has one sequence at least" : "there is no such KV type");
    return kErrArgument;
  }
  out->memory = allocator_of(o.allocator, m.memory);
  SessionOptions& s = out->options;
  s.n_ctx = o.n_ctx;
  s.n_seqs = o.n_seqs;
  s.n_ubatch = o.n_batch;
  s.n_outputs = gives_embeddings(*m.model.program) ? o.n_batch : o.n_outputs;
  s.kv_type = o.kv_type;
  s.workers = o.threads;
  s.most_k = kMostChosen;
  if (o.pool != nullptr) {
    s.threads = {o.pool->run, o.pool->user};
    s.workers = o.pool->workers;
  }
  s = with_defaults(m.model, s);
  out->logits_bytes = uint64_t{s.n_outputs} * Session::logits_stride_of(*m.model.program) * sizeof(float);
  return kOk;
}

gcm_status done(gcm_session* s, Status status) {
  if (status == kOk) return GCM_OK;
  format_to(s->error, gcm_status_text(status));
  return static_cast<gcm_status>(status);
}

template <class... Parts>
gcm_status refuse(gcm_session* s, Status status, const Parts&... parts) {
  return fail(s->error, status, parts...);
}

gc_sink logits_sink(gcm_session* s) {
  gc_sink sink = {};
  sink.kind = GC_SINK_LOGITS;
  sink.logits = s->logits;
  sink.stride = s->session.logits_stride();
  return sink;
}

bool has(const gcm_session* s, uint32_t seq) { return seq < s->session.options().n_seqs; }

gcm_status check(gcm_session* s, uint32_t seq, int32_t id) {
  const uint32_t n_vocab = s->session.model().program->n_vocab, n_seqs = s->session.options().n_seqs;
  if (seq >= n_seqs) return refuse(s, kErrArgument, "sequence ", seq, ": the session has ", n_seqs);
  if (id < 0 || static_cast<uint32_t>(id) >= n_vocab)
    return refuse(s, kErrArgument, "token ", id, ": the model has ", n_vocab, " tokens");
  return GCM_OK;
}

gcm_status full(gcm_session* s, uint32_t seq, size_t n) {
  return refuse(s, kErrFull, n, " more tokens after ", s->session.kv().length(seq), " of a context of ",
                s->session.options().n_ctx);
}

}  // namespace

extern "C" {

void gcm_session_options_init(gcm_session_options* options) {
  *options = {};
  options->size = sizeof *options;
  options->n_seqs = 1;
  options->n_batch = 512;
  options->n_outputs = 1;
  options->kv_type = GCM_KV_USUAL;
}

gcm_status gcm_session_memory(const gcm_model* m, const gcm_session_options* options, gcm_memory* out,
                              char* text, size_t text_bytes) {
  const Span<char> message = message_span(text, text_bytes);
  if (m == nullptr) return fail(message, kErrArgument, "no model");
  Setup setup;
  if (const Status s = set_up(*m, options, &setup, message); s != kOk) return static_cast<gcm_status>(s);
  const SessionMemory need = session_memory(m->model, setup.options);
  if (need.kv == 0) return fail(message, kErrUnsupported, "the model has no code for that KV type");
  gcm_memory memory = {};
  memory.size = sizeof memory;
  memory.kv = need.kv;
  memory.scratch = need.arena;
  memory.logits = setup.logits_bytes;
  if (give_result(memory, out) != kOk) return fail(message, kErrArgument, "a result of an unknown size");
  return GCM_OK;
}

gcm_status gcm_session_create(const gcm_model* m, const gcm_session_options* options, gcm_session** out,
                              char* text, size_t text_bytes) {
  const Span<char> message = message_span(text, text_bytes);
  if (m == nullptr || out == nullptr) return fail(message, kErrArgument, "no model, or nowhere to put it");
  *out = nullptr;
  Setup setup;
  if (const Status s = set_up(*m, options, &setup, message); s != kOk) return static_cast<gcm_status>(s);
  gcm_session* session = create<gcm_session>(setup.memory, m);
  if (session == nullptr) return fail(message, kErrMemory, "out of memory");
  Status s = session->session.init(m->model, setup.options, setup.memory, message);
  if (s == kOk) {
    session->logits_bytes = setup.logits_bytes;
    session->logits = static_cast<float*>(setup.memory.get(setup.logits_bytes, kLogitsAlign));
    if (session->logits == nullptr) {
      format_to(message, "out of memory");
      s = kErrMemory;
    }
  }
  if (s != kOk) {
    gcm_session_free(session);
    return static_cast<gcm_status>(s);
  }
  *out = session;
  return GCM_OK;
}

void gcm_session_free(gcm_session* s) {
  if (s == nullptr) return;
  if (s->logits != nullptr) s->memory.put(s->logits, s->logits_bytes, kLogitsAlign);
  destroy(s);
}

const char* gcm_session_error(const gcm_session* s) { return s != nullptr ? s->error : "no session"; }

gcm_status gcm_prefill(gcm_session* s, uint32_t seq, const int32_t* ids, size_t n) {
  if (s == nullptr) return GCM_ERR_ARGUMENT;
  s->n_logits = 0;
  if (n == 0 || ids == nullptr) return refuse(s, kErrArgument, "the prompt has no tokens");
  for (size_t i = 0; i < n; ++i)
    if (const gcm_status bad = check(s, seq, ids[i]); bad != GCM_OK) return bad;
  if (n > s->session.options().n_ctx - s->session.kv().length(seq)) return full(s, seq, n);
  const uint32_t kept = s->session.kv().length(seq) == 0 ? start_from_cache(s->session, seq, {ids, n}) : 0;
  const Status status = s->session.prompt(seq, {ids + kept, n - kept}, s->logits);
  if (status == kOk) s->n_logits = 1;
  return done(s, status);
}

gcm_status gcm_decode(gcm_session* s, uint32_t seq, int32_t id) {
  if (s == nullptr) return GCM_ERR_ARGUMENT;
  s->n_logits = 0;
  if (const gcm_status bad = check(s, seq, id); bad != GCM_OK) return bad;
  if (s->session.kv().length(seq) >= s->session.options().n_ctx) return full(s, seq, 1);
  const Status status = s->session.decode(seq, id, s->logits);
  if (status == kOk) s->n_logits = 1;
  return done(s, status);
}

gcm_status gcm_step(gcm_session* s, const gcm_token* tokens, size_t n) {
  if (s == nullptr) return GCM_ERR_ARGUMENT;
  s->n_logits = 0;
  const SessionOptions& o = s->session.options();
  if (n == 0 || tokens == nullptr || n > o.n_ubatch)
    return refuse(s, kErrArgument, "a step has 1 to ", o.n_ubatch, " tokens, and this one ", n);
  Vec<Token>& rows = s->session.step_tokens();
  uint32_t outputs = 0;
  for (size_t i = 0; i < n; ++i) {
    const gcm_token& t = tokens[i];
    if (const gcm_status bad = check(s, t.seq, t.id); bad != GCM_OK) return bad;
    const uint8_t role = t.generated ? GC_ROLE_GENERATED : GC_ROLE_PROMPT;
    if (i != 0 && role < rows[i - 1].role)
      return refuse(s, kErrArgument, "token ", i, " is of a prompt, and one before it is generated");
    rows[i] = {t.id, t.seq, role, t.output != 0};
    outputs += t.output != 0;
  }
  if (outputs > o.n_outputs)
    return refuse(s, kErrArgument, outputs, " outputs, and the session was made for ", o.n_outputs);
  gc_sink sink = logits_sink(s);
  const Status status = s->session.step(rows.span().sub(0, n), &sink);
  if (status == kErrFull) return refuse(s, kErrFull, "a sequence has no room for its tokens");
  if (status == kOk) s->n_logits = outputs;
  return done(s, status);
}

float* gcm_logits(gcm_session* s, uint32_t output) {
  if (s == nullptr || output >= s->n_logits) return nullptr;
  return s->logits + uint64_t{output} * s->session.logits_stride();
}

uint32_t gcm_length(const gcm_session* s, uint32_t seq) {
  return s != nullptr && has(s, seq) ? const_cast<gcm_session*>(s)->session.kv().length(seq) : 0;
}

uint32_t gcm_truncate(gcm_session* s, uint32_t seq, uint32_t length) {
  return s != nullptr && has(s, seq) ? s->session.kv().truncate(seq, length) : 0;
}

void gcm_cancel(gcm_session* s) {
  if (s != nullptr) s->session.abort();
}

uint64_t gcm_saved_bytes(const gcm_session* s, uint32_t seq) {
  return s != nullptr && has(s, seq) ? saved_sequence_bytes(const_cast<gcm_session*>(s)->session, seq) : 0;
}

gcm_status gcm_save(gcm_session* s, uint32_t seq, void* bytes, uint64_t capacity) {
  if (s == nullptr) return GCM_ERR_ARGUMENT;
  if (const gcm_status bad = check(s, seq, 0); bad != GCM_OK) return bad;
  const uint64_t need = saved_sequence_bytes(s->session, seq);
  if (bytes == nullptr || capacity < need)
    return refuse(s, kErrFull, "the sequence takes ", need, " bytes, and the buffer has ", capacity);
  save_sequence(s->session, seq, static_cast<uint8_t*>(bytes));
  return GCM_OK;
}

gcm_status gcm_restore(gcm_session* s, uint32_t seq, const void* bytes, uint64_t size) {
  if (s == nullptr) return GCM_ERR_ARGUMENT;
  s->n_logits = 0;
  if (const gcm_status bad = check(s, seq, 0); bad != GCM_OK) return bad;
  return static_cast<gcm_status>(restore_sequence(
      s->session, seq, {static_cast<const uint8_t*>(bytes), bytes != nullptr ? size : 0}, s->error));
}

}  // extern "C"
