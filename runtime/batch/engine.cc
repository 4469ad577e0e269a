#include "runtime/batch/engine.h"

#include <time.h>

#include "runtime/base/format.h"
#include "runtime/core/embedding.h"
#include "runtime/core/prompt_cache.h"

namespace gcrt::batch {
namespace {

constexpr uint32_t kMostChosen = 256;   // candidates that the head may choose; beyond, all logits are stored
constexpr uint32_t kTextTokens = 8192;  // of texts for embeddings, unless a longer context is asked for

}  // namespace

int64_t monotonic_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}

BatchOptions with_batch_defaults(const Model& model, BatchOptions o) {
  if (o.slots == 0) o.slots = 1;
  const bool embeds = gives_embeddings(*model.program);
  if (o.n_ctx == 0)
    o.n_ctx = embeds ? min_of(model.facts->n_ctx_train, kTextTokens) : model.facts->n_ctx_train;
  o.n_ctx = min_of(o.n_ctx, model.program->max_position);
  if (o.kv_type == GC_KV_TYPES) o.kv_type = model.program->kv_type;
  // A text for an embedding takes one step, and leaves nothing to others.
  if (embeds) {
    o.n_ubatch = max_of(o.n_ubatch, o.n_ctx);
    o.prefixes = 0;
  }
  uint32_t least = 0;
  if (!checked_add(o.slots, StepClock::kFewest, &least)) least = UINT32_MAX;
  o.n_ubatch = max_of(o.n_ubatch, least);
  if (o.prefixes == 0) o.prefix_tokens = 0;
  return o;
}

SessionOptions session_options_of(const Model& model, const BatchOptions& given) {
  const BatchOptions o = with_batch_defaults(model, given);
  SessionOptions s;
  s.n_ctx = o.n_ctx;
  s.n_seqs = o.slots;
  s.n_ubatch = o.n_ubatch;
  s.n_outputs = gives_embeddings(*model.program) ? o.n_ubatch : o.slots;
  s.kv_type = o.kv_type;
  s.workers = o.workers;
  s.n_held = o.prefixes;
  s.held_tokens = o.prefix_tokens;
  s.most_k = kMostChosen;
  return s;
}

Engine::~Engine() {
  if (logits_ != nullptr) allocator_.put(logits_, logits_bytes_, 64);
}

Status Engine::init(const Model& model, Span<char> message) {
  if (const Status s = session_.init(model, session_options_of(model, options_), allocator_, message);
      s != kOk)
    return s;
  const SessionOptions& o = session_.options();
  logits_bytes_ = uint64_t{o.n_outputs} * session_.logits_stride() * sizeof(float);
  logits_ = static_cast<float*>(allocator_.get(logits_bytes_, 64));
  bool ok = logits_ != nullptr && slots_.resize(o.n_seqs) && shares_.reserve(o.n_seqs) &&
            outputs_.reserve(o.n_seqs) && picked_.resize(o.n_seqs) && rules_.reserve(o.n_seqs) &&
            ids_.resize(uint64_t{o.n_seqs} * session_.most_k()) &&
            values_.resize(uint64_t{o.n_seqs} * session_.most_k());
  for (Slot& s : slots_) {
    s.tokens = Vec<int32_t>(allocator_);
    ok = ok && s.tokens.reserve(o.n_ctx);
  }
  if (gives_embeddings(*model.program)) rows_of_output_ = o.n_outputs;
  const Status s = ok ? prefixes_.init(&session_) : kErrMemory;
  if (s != kOk) format_to(message, "not enough memory for ", o.n_seqs, " slots of ", o.n_ctx, " tokens");
  metrics_.slots = o.n_seqs;
  return s;
}

// ---- A request's way ----

void Engine::admit(Request* request, uint32_t slot) {
  Slot& s = slots_[slot];
  s.request = request;
  s.phase = Phase::kReading;
  s.came = ++came_;
  s.prompt = request->prompt.size();
  s.done = s.mark = 0;
  s.next = -1;
  s.chosen = false;
  s.held = -1;
  s.times = GenerateTimes();
  s.begun_ns = monotonic_ns();
  ++n_busy_;
  Status status = s.tokens.copy(request->prompt) ? kOk : kErrMemory;
  if (status == kOk && request->asked.kind == BatchRequest::kGenerate) {
    status = request->chooser.begin();
    if (status == kOk) status = request->chooser.accept(request->prompt);
  }
  if (status != kOk) return fail(s, status, Str());
  if (!encodes()) start(s);
}

// Where its prompt begins: behind what is kept of it, or after another that is still being read. All its tokens but the
// last: of that one the output is wanted.
void Engine::start(Slot& s) {
  s.phase = Phase::kReading;
  if (!s.request->asked.cache_prompt) return;
  const size_t most = s.prompt - 1;
  const Span<const int32_t> ids = s.tokens.span().sub(0, most);
  Prefixes::Found best = prefixes_.find(ids, most);
  const Slot* source = nullptr;
  size_t coming = 0;
  for (const Slot& other : slots_) {
    if (&other == &s || other.phase == Phase::kFree || other.prompt == 0 ||
        !other.request->asked.cache_prompt)
      continue;
    const size_t alike = common_prefix(ids, other.tokens.span().sub(0, other.prompt));
    const size_t there = min_of(alike, other.done);
    const size_t reach = there == 0 ? 0 : session_.kv().reach(number(other), static_cast<uint32_t>(there));
    best.alike = max_of(best.alike, there);
    if (reach > best.reach && reach >= Prefixes::kFewest) best.reach = reach, best.seq = number(other);
    const bool reads = other.phase == Phase::kReading || other.phase == Phase::kWaiting;
    if (reads && other.came < s.came && alike > other.done && alike > coming) coming = alike, source = &other;
  }
  if (source != nullptr && coming >= best.reach + kWorthWaiting) {
    s.phase = Phase::kWaiting;
    s.source = number(*source);
    s.source_came = source->came;
    s.source_alike = coming;
    return;
  }
  if (best.reach != 0) {
    session_.kv().fork(best.seq, number(s));
    s.done = session_.kv().truncate(number(s), static_cast<uint32_t>(best.reach));
    s.times.kept_tokens = s.done;
    metrics_.kept_tokens += s.done;
  }
  // Where states can't go back to what prompts have in common, they are kept there from now on.
  if (!session_.kv().goes_back()) {
    s.mark = min_of(s.request->asked.shared, most);
    if (s.mark <= s.done) s.mark = best.alike > s.done ? best.alike : 0;
  }
  if (s.done != 0 && s.request->asked.on_prompt != nullptr)
    s.request->asked.on_prompt(s.request->asked.user, s.request->id, s.done, s.done);
}

// Those whose source has come far enough, or will not come.
void Engine::stop_waiting() {
  for (Slot& s : slots_) {
    if (s.phase != Phase::kWaiting) continue;
    const Slot& source = slots_[s.source];
    const bool reads = source.phase == Phase::kReading || source.phase == Phase::kWaiting;
    if (!reads || source.came != s.source_came || source.done >= s.source_alike) start(s);
  }
}

// The next length at which somebody wants the state of a prompt, or its end.
size_t Engine::next_halt(const Slot& s) const {
  size_t halt = s.tokens.size();
  if (s.mark > s.done) halt = min_of(halt, s.mark);
  for (const Slot& other : slots_)
    if (other.phase == Phase::kWaiting && other.source_came == s.came && other.source_alike > s.done)
      halt = min_of(halt, other.source_alike);
  return halt;
}

void Engine::end_cancelled() {
  for (Slot& s : slots_)
    if (s.phase != Phase::kFree && s.request->is_cancelled()) {
      ++metrics_.cancelled;
      fail(s, kErrAborted, "cancelled");
    }
}

void Engine::end_all() {
  for (Slot& s : slots_)
    if (s.phase != Phase::kFree) fail(s, kErrAborted, "the server stops");
}

void Engine::finish(Slot& s, End end) {
  Request& r = *s.request;
  EndEvent event;
  event.end = end;
  if (s.phase == Phase::kGenerating || s.times.tokens != 0) s.times.generate_ns = monotonic_ns() - s.read_ns;
  if (end != End::kCaller && r.asked.kind == BatchRequest::kGenerate) {
    Str text;
    event.status = r.chooser.rest_of_text(&text);
    if (event.status == kOk && !text.empty() && r.asked.on_token != nullptr)
      r.asked.on_token(r.asked.user, {.request = r.id, .id = -1, .text = text});
  }
  if (end == End::kStop) event.stop = r.chooser.stop();
  leave(s, event);
}

void Engine::fail(Slot& s, Status status, Str message) {
  EndEvent event;
  event.status = status;
  event.message = message;
  if (status != kErrAborted) ++metrics_.failed;
  leave(s, event);
}

void Engine::leave(Slot& s, EndEvent& event) {
  Request& r = *s.request;
  event.request = r.id;
  event.slot = static_cast<int32_t>(number(s));
  event.seed = r.asked.kind == BatchRequest::kGenerate ? r.chooser.seed() : 0;
  event.times = s.times;
  event.queued_ns = s.begun_ns - r.submitted_ns;
  ++metrics_.ended;
  metrics_.prompt_ns += s.times.prompt_ns;
  metrics_.generate_ns += s.times.generate_ns;
  metrics_.most_tokens = max_of<uint64_t>(metrics_.most_tokens, s.done);
  session_.kv().truncate(number(s), 0);
  s.phase = Phase::kFree;
  s.request = nullptr;
  s.prompt = 0;
  --n_busy_;
  r.chooser.end_text();
  r.asked.on_end(r.asked.user, event);
  r.next = ended_;
  ended_ = &r;
}

Request* Engine::take_ended() {
  Request* all = ended_;
  ended_ = nullptr;
  return all;
}

// ---- What others see ----

int32_t Engine::held(uint32_t slot) const {
  const Slot& s = slots_[slot];
  return s.held >= 0 && prefixes_.serial(s.held) == s.held_serial ? s.held : -1;
}

void Engine::set_held(uint32_t slot, int32_t entry) {
  slots_[slot].held = entry;
  slots_[slot].held_serial = entry >= 0 ? prefixes_.serial(entry) : 0;
}

void Engine::states(Span<SlotState> out) const {
  for (uint32_t i = 0; i < min_of<size_t>(out.size(), slots_.size()); ++i) {
    const Slot& s = slots_[i];
    out[i] = SlotState();
    if (const int32_t entry = held(i); entry >= 0) out[i].held = prefixes_.ids(entry).size();
    if (s.phase == Phase::kFree) continue;
    out[i].request = s.request->id;
    out[i].prompt_tokens = s.request->prompt.size();
    out[i].prompt_done = min_of(s.done, out[i].prompt_tokens);
    out[i].kept = s.times.kept_tokens;
    out[i].generated = s.times.tokens;
  }
}

bool Engine::force(uint64_t request, Span<const int32_t> ids) {
  if (request != speaking_) return false;
  for (Slot& s : slots_)
    if (s.phase != Phase::kFree && s.request->id == request) return s.request->chooser.force(ids);
  return false;
}

}  // namespace gcrt::batch
