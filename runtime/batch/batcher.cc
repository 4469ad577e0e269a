#include "runtime/batch/batcher.h"

#include "runtime/base/format.h"
#include "runtime/batch/engine.h"
#include "runtime/core/embedding.h"
#include "runtime/core/prompt_cache.h"

namespace gcrt {
namespace {

using batch::Engine;
using batch::Request;

class Lock {
 public:
  explicit Lock(pthread_mutex_t* m) : m_(m) { pthread_mutex_lock(m_); }
  ~Lock() { pthread_mutex_unlock(m_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  pthread_mutex_t* m_;
};

}  // namespace

BatchMemory batch_memory(const Model& model, const BatchOptions& options) {
  const SessionOptions s = with_defaults(model, batch::session_options_of(model, options));
  const SessionMemory m = session_memory(model, s);
  return {m.kv, m.arena, m.states,
          uint64_t{s.n_outputs} * Session::logits_stride_of(*model.program) * sizeof(float)};
}

Batcher::~Batcher() {
  stop(0);
  if (engine_ == nullptr) return;
  engine_->~Engine();
  allocator_.put(engine_, sizeof(Engine), alignof(Engine));
}

Status Batcher::init(const Model& model, const Tokenizer* tokenizer, const BatchOptions& options,
                     Span<char> message) {
  GCRT_ASSERT(engine_ == nullptr);
  model_ = model;
  tokenizer_ = tokenizer != nullptr && tokenizer->available() ? tokenizer : nullptr;
  if (options.n_ctx > model.program->max_position) {
    format_to(message, "a context of ", options.n_ctx, " is more than the ", model.program->max_position,
              " positions that this file was compiled for");
    return kErrArgument;
  }
  options_ = batch::with_batch_defaults(model, options);
  void* at = allocator_.get(sizeof(Engine), alignof(Engine));
  if (at == nullptr || !running_.resize(options_.slots) || !states_.resize(options_.slots)) {
    if (at != nullptr) allocator_.put(at, sizeof(Engine), alignof(Engine));
    format_to(message, "not enough memory");
    return kErrMemory;
  }
  engine_ = ::new (gcrt_placement{}, at) Engine(options_, allocator_);
  const Status s = engine_->init(model, message);
  most_k_ = engine_->session().most_k();
  return s;
}

Status Batcher::start() {
  if (pthread_create(&thread_, nullptr, thread_main, this) != 0) return kErrSystem;
  started_ = true;
  return kOk;
}

void Batcher::stop(int64_t grace_ns) {
  if (engine_ == nullptr) return;
  {
    Lock lock(&mutex_);
    stop_at_ns_ = batch::monotonic_ns() + grace_ns;
    stopping_ = true;
    if (grace_ns <= 0) engine_->session().abort();
    pthread_cond_broadcast(&changed_);
  }
  if (started_) {
    pthread_join(thread_, nullptr);
    started_ = false;
  }
  Request* unserved = nullptr;
  {
    Lock lock(&mutex_);
    gone_ = true;
    unserved = take_waiting(true);
  }
  end_unserved(unserved);
}

// ---- Requests ----

Status Batcher::check(const BatchRequest& r, Span<char> message) const {
  const bool encoder = gives_embeddings(*model_.program);
  const uint32_t n_vocab = model_.program->n_vocab;
  auto refuse = [&](Status status, const auto&... why) {
    format_to(message, why...);
    return status;
  };
  if (r.on_end == nullptr) return refuse(kErrArgument, "nobody is told the end");
  if (r.kind == BatchRequest::kGenerate && (encoder || whole_texts(*model_.program)))
    return refuse(kErrUnsupported, "this model doesn't generate");
  if (r.kind == BatchRequest::kEmbed && !encoder)
    return refuse(kErrUnsupported, "this model is no encoder: it has no embeddings of texts");
  if (r.kind == BatchRequest::kEmbed && r.pooling >= GC_POOLINGS)
    return refuse(kErrArgument, "there is no such pooling");
  if (r.slot >= 0 && static_cast<uint32_t>(r.slot) >= options_.slots)
    return refuse(kErrArgument, "slot ", r.slot, ": there are ", options_.slots);
  if (r.prompt.empty()) return refuse(kErrArgument, "the prompt has no tokens");
  for (int32_t id : r.prompt)
    if (id < 0 || static_cast<uint32_t>(id) >= n_vocab)
      return refuse(kErrArgument, "token ", id, ": the model has ", n_vocab, " tokens");
  if (r.prompt.size() > options_.n_ctx)
    return refuse(kErrInput, "the prompt has ", r.prompt.size(), " tokens, and the context ", options_.n_ctx);
  return kOk;
}

// On the caller's thread, so that no other request waits for its sampler to be made.
Request* Batcher::make_request(const BatchRequest& given, Status* status, Span<char> message) {
  void* at = allocator_.get(sizeof(Request), alignof(Request));
  *status = at != nullptr ? kOk : kErrMemory;
  if (at == nullptr) return nullptr;
  Request* r = ::new (gcrt_placement{}, at) Request(allocator_);
  r->asked = given;
  r->asked.prompt = {};
  r->asked.generate = {};
  r->submitted_ns = batch::monotonic_ns();
  if (!r->prompt.copy(given.prompt)) *status = kErrMemory;
  if (*status == kOk && given.kind == BatchRequest::kGenerate)
    *status = r->chooser.init(model_.program->n_vocab, most_k_, tokenizer_, given.generate, message);
  if (*status == kOk) return r;
  destroy(r);
  return nullptr;
}

void Batcher::destroy(Request* r) {
  r->~Request();
  allocator_.put(r, sizeof(Request), alignof(Request));
}

void Batcher::List::push(Request* r) {
  r->next = nullptr;
  (first != nullptr ? last->next : first) = r;
  last = r;
}

// Under the mutex: why nothing is taken now.
Status Batcher::refused(Span<char> message) {
  if (stopping_) {
    format_to(message, "the server stops");
    return kErrAborted;
  }
  uint64_t room = options_.queue;
  for (const Request* r : running_) room += r == nullptr;
  if (n_waiting_ < room) return kOk;
  ++refused_;
  format_to(message, "the queue is full: ", n_waiting_, " requests wait");
  return kErrFull;
}

Status Batcher::submit(const BatchRequest& given, uint64_t* id, Span<char> message) {
  *id = 0;
  if (const Status s = check(given, message); s != kOk) return s;
  {  // before the work of making one, and again below
    Lock lock(&mutex_);
    if (const Status s = refused(message); s != kOk) return s;
  }
  Status status = kOk;
  Request* r = make_request(given, &status, message);
  if (status == kErrMemory) format_to(message, "not enough memory for the request");
  if (status != kOk) return status;
  Lock lock(&mutex_);
  if (status = refused(message); status != kOk) {
    destroy(r);
    return status;
  }
  *id = r->id = ++ids_;
  queue_.push(r);
  ++n_waiting_;
  ++requests_;
  pthread_cond_signal(&changed_);
  return kOk;
}

void Batcher::cancel(uint64_t request) {
  Lock lock(&mutex_);
  for (Request* r : running_)
    if (r != nullptr && r->id == request) r->cancel();
  for (Request* r = queue_.first; r != nullptr; r = r->next)
    if (r->id == request) r->cancel();
  pthread_cond_signal(&changed_);
}

bool Batcher::force(uint64_t request, Span<const int32_t> ids) { return engine_->force(request, ids); }

// ---- The engine's thread ----

void* Batcher::thread_main(void* self) {
  static_cast<Batcher*>(self)->run();
  return nullptr;
}

void Batcher::run() {
  pthread_mutex_lock(&mutex_);
  for (;;) {
    run_errands();
    publish();
    Request* const unserved = take_waiting(stopping_);
    Request* const admitted = take_admitted();
    const bool end_all = stopping_ && batch::monotonic_ns() >= stop_at_ns_;
    if (unserved == nullptr && admitted == nullptr && engine_->is_idle()) {
      if (stopping_) break;
      pthread_cond_wait(&changed_, &mutex_);
      continue;
    }
    pthread_mutex_unlock(&mutex_);
    end_unserved(unserved);
    for (Request *r = admitted, *next = nullptr; r != nullptr; r = next) {
      next = r->next;
      engine_->admit(r, static_cast<uint32_t>(r->asked.slot));
    }
    if (end_all)
      engine_->end_all();
    else
      engine_->step();
    pthread_mutex_lock(&mutex_);
    free_ended();
  }
  gone_ = true;
  run_errands();
  pthread_mutex_unlock(&mutex_);
}

void Batcher::run_errands() {
  for (; errands_ != nullptr; errands_ = errands_->next) {
    errands_->run(*engine_, errands_->context);
    errands_->done = true;
  }
  pthread_cond_broadcast(&did_);
}

// What other threads may read.
void Batcher::publish() {
  engine_->states({states_.data(), states_.size()});
  metrics_ = engine_->metrics();
  metrics_.prefixes = engine_->prefixes().count();
}

// Takes from the queue who was cancelled, or everybody.
Request* Batcher::take_waiting(bool everybody) {
  List left, taken;
  for (Request *r = queue_.first, *next = nullptr; r != nullptr; r = next) {
    next = r->next;
    const bool goes = everybody || r->is_cancelled();
    if (goes) --n_waiting_, ++unserved_, unserved_cancelled_ += r->is_cancelled();
    (goes ? taken : left).push(r);
  }
  queue_ = left;
  return taken.first;
}

void Batcher::end_unserved(Request* list) {
  for (Request *r = list, *next = nullptr; r != nullptr; r = next) {
    next = r->next;
    EndEvent event;
    event.request = r->id;
    event.status = kErrAborted;
    event.message = r->is_cancelled() ? "cancelled" : "the server stops";
    event.queued_ns = batch::monotonic_ns() - r->submitted_ns;
    r->asked.on_end(r->asked.user, event);
    destroy(r);
  }
}

// The first in the queue that may have the slot.
Request* Batcher::next_for(uint32_t slot) {
  Request* before = nullptr;
  for (Request* r = queue_.first; r != nullptr; before = r, r = r->next) {
    if (r->asked.slot >= 0 && static_cast<uint32_t>(r->asked.slot) != slot) continue;
    (before != nullptr ? before->next : queue_.first) = r->next;
    if (queue_.last == r) queue_.last = before;
    --n_waiting_;
    return r;
  }
  return nullptr;
}

// Requests for the slots that are free, which stands in them.
Request* Batcher::take_admitted() {
  List admitted;
  for (uint32_t slot = 0; slot < options_.slots && queue_.first != nullptr; ++slot) {
    if (!engine_->is_free(slot)) continue;
    Request* r = next_for(slot);
    if (r == nullptr) continue;
    r->asked.slot = static_cast<int32_t>(slot);
    running_[slot] = r;
    admitted.push(r);
  }
  return admitted.first;
}

void Batcher::free_ended() {
  for (Request *r = engine_->take_ended(), *next = nullptr; r != nullptr; r = next) {
    next = r->next;
    running_[static_cast<size_t>(r->asked.slot)] = nullptr;
    destroy(r);
  }
}

// ---- What others ask for ----

void Batcher::slot_states(Span<SlotState> out) {
  Lock lock(&mutex_);
  for (size_t i = 0; i < min_of(out.size(), states_.size()); ++i) out[i] = states_[i];
}

BatchMetrics Batcher::metrics() {
  Lock lock(&mutex_);
  BatchMetrics m = metrics_;
  m.requests = requests_, m.refused = refused_;
  m.ended += unserved_, m.cancelled += unserved_cancelled_;
  m.waiting = n_waiting_;
  for (const Request* r : running_) m.running += r != nullptr;
  return m;
}

Status Batcher::errand(uint32_t slot, void (*run)(Engine&, void*), void* context, Span<char> message) {
  if (slot >= options_.slots) {
    format_to(message, "slot ", slot, ": there are ", options_.slots);
    return kErrArgument;
  }
  Errand e{run, context};
  Lock lock(&mutex_);
  if (gone_ || !started_) {
    format_to(message, "the server stops");
    return kErrAborted;
  }
  e.next = errands_;
  errands_ = &e;
  pthread_cond_signal(&changed_);
  while (!e.done) pthread_cond_wait(&did_, &mutex_);
  return kOk;
}

namespace {

struct SlotErrand {
  uint32_t slot;
  Span<char> message;
  Vec<uint8_t>* out = nullptr;
  Span<const uint8_t> bytes;
  size_t n_tokens = 0;
  Status status = kOk;

  // The entry of the slot's last prompt, or the reason why there is none.
  int32_t entry(Engine& engine) {
    const int32_t at = engine.held(slot);
    if (at >= 0) return at;
    format_to(message, "nothing is kept of slot ", slot);
    status = kErrArgument;
    return at;
  }
};

void save(Engine& engine, void* context) {
  SlotErrand& e = *static_cast<SlotErrand*>(context);
  const int32_t at = e.entry(engine);
  if (at < 0) return;
  const Span<const int32_t> ids = engine.prefixes().ids(at);
  e.n_tokens = ids.size();
  if (!write_record(engine.session(), engine.prefixes().seq(at), ids, Str(), e.out)) e.status = kErrMemory;
}

void restore(Engine& engine, void* context) {
  SlotErrand& e = *static_cast<SlotErrand*>(context);
  int32_t at = -1;
  e.status = engine.prefixes().restore(e.bytes, &at, e.message);
  if (e.status != kOk) return;
  e.n_tokens = engine.prefixes().ids(at).size();
  engine.set_held(e.slot, at);
}

void erase(Engine& engine, void* context) {
  SlotErrand& e = *static_cast<SlotErrand*>(context);
  const int32_t at = e.entry(engine);
  if (at < 0) return;
  e.n_tokens = engine.prefixes().ids(at).size();
  engine.prefixes().drop(at);
}

}  // namespace

Status Batcher::save_slot(uint32_t slot, Vec<uint8_t>* out, size_t* n_tokens, Span<char> message) {
  SlotErrand e{slot, message, out, {}};
  const Status s = errand(slot, save, &e, message);
  *n_tokens = e.n_tokens;
  return s != kOk ? s : e.status;
}

Status Batcher::restore_slot(uint32_t slot, Span<const uint8_t> bytes, size_t* n_tokens, Span<char> message) {
  SlotErrand e{slot, message, nullptr, bytes};
  const Status s = errand(slot, restore, &e, message);
  *n_tokens = e.n_tokens;
  return s != kOk ? s : e.status;
}

Status Batcher::erase_slot(uint32_t slot, size_t* n_tokens, Span<char> message) {
  SlotErrand e{slot, message, nullptr, {}};
  const Status s = errand(slot, erase, &e, message);
  *n_tokens = e.n_tokens;
  return s != kOk ? s : e.status;
}

}  // namespace gcrt
