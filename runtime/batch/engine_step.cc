// The engine's step: rows, the run, and what comes of each output.
#include "runtime/base/format.h"
#include "runtime/batch/engine.h"
#include "runtime/core/embedding.h"

namespace gcrt::batch {

void Engine::step() {
  end_cancelled();
  if (encodes()) return step_texts();
  stop_waiting();
  share();
  const int64_t begin = monotonic_ns();
  const uint32_t n_rows = collect();
  if (n_rows == 0) return;
  uint32_t prompt_rows = 0, generating = 0;
  for (const Slot& s : slots_) {
    prompt_rows += s.rows;
    generating += s.phase == Phase::kGenerating;
  }
  gc_sink sink = make_sink();
  Status status = session_.step(session_.step_tokens().span().sub(0, n_rows), &sink, true);
  // Kept prompts make room for what runs.
  while (status == kErrFull && prefixes_.drop_oldest())
    status = session_.step(session_.step_tokens().span().sub(0, n_rows), &sink, true);
  if (status == kOk) status = pick_all(sink);
  const int64_t took = monotonic_ns() - begin;
  ++metrics_.steps;
  metrics_.step_rows += n_rows;
  metrics_.step_ns += took;
  metrics_.most_step_ns = max_of(metrics_.most_step_ns, took);
  if (generating != 0) metrics_.most_wait_ns = max_of(metrics_.most_wait_ns, took);
  metrics_.busy_slots += n_busy_;
  if (status != kOk) {  // of the machine, or the engine was told to stop at once
    for (Slot& s : slots_)
      if (s.rows != 0 || s.phase == Phase::kGenerating)
        fail(s, status, status == kErrAborted ? "the server stops" : "the step failed");
    return;
  }
  clock_.add(prompt_rows, generating, took);
  for (Slot& s : slots_) {
    if (s.rows != 0) {
      after_prompt_rows(s);
    } else if (s.phase == Phase::kGenerating) {
      ++s.done;
      ++s.times.steps;
    }
  }
  for (uint32_t i = 0; i < outputs_.size(); ++i) take(slots_[outputs_[i]], picked_[i]);
}

// The rows that each prompt gets.
void Engine::share() {
  uint32_t generating = 0;
  shares_.clear();
  for (Slot& s : slots_) {
    s.rows = 0;
    generating += s.phase == Phase::kGenerating;
    const PromptShare wants{s.phase == Phase::kReading ? next_halt(s) - s.done : 0, s.came, 0};
    if (!shares_.push(wants)) __builtin_unreachable();  // reserved for all slots
  }
  const uint32_t room = session_.options().n_ubatch - generating;
  share_rows({shares_.data(), shares_.size()}, clock_.prompt_rows(generating, room));
  for (Slot& s : slots_) s.rows = shares_[number(s)].rows;
}

// What may come next, before the step that says it; false: the request has ended.
bool Engine::prepare(Slot& s) {
  const Status status = s.request->chooser.prepare();
  if (status == kOk) return true;
  s.rows = 0;
  fail(s, status, status == kErrMemory ? "not enough memory for the grammar" : "the grammar can't go on");
  return false;
}

// The step's tokens and who gets its outputs. Prompts first.
uint32_t Engine::collect() {
  Vec<Token>& tokens = session_.step_tokens();
  uint32_t n = 0;
  outputs_.clear();
  auto output_for = [&](const Slot& s) {
    if (!outputs_.push(number(s))) __builtin_unreachable();  // reserved for all slots
  };
  for (Slot& s : slots_) {
    if (s.rows == 0) continue;
    const bool output =
        s.done + s.rows == s.tokens.size() && !s.chosen && s.request->chooser.max_tokens() != 0;
    if (output && !prepare(s)) continue;
    for (uint32_t i = 0; i < s.rows; ++i)
      tokens[n++] = {s.tokens[s.done + i], number(s), GC_ROLE_PROMPT, output && i + 1 == s.rows};
    if (output) output_for(s);
  }
  for (Slot& s : slots_) {
    if (s.phase != Phase::kGenerating || !prepare(s)) continue;
    tokens[n++] = {s.next, number(s), GC_ROLE_GENERATED, true};
    output_for(s);
  }
  return n;
}

// Lists of the head's, long enough for the longest, or all logits where anyone needs them.
gc_sink Engine::make_sink() {
  gc_sink sink = {};
  uint32_t k = 1;
  bool all = session_.most_k() == 0 || outputs_.empty();
  for (uint32_t i : outputs_) {
    const Request& r = *slots_[i].request;
    all |= r.chooser.most() == 0 || r.wants_probs();
    k = max_of(k, r.chooser.most());
  }
  if (all) {
    sink.kind = GC_SINK_LOGITS;
    sink.logits = logits_;
    sink.stride = session_.logits_stride();
    return sink;
  }
  rules_.clear();
  bool any = false;
  for (uint32_t i : outputs_) {
    gc_logit_rules rules = {};
    any |= slots_[i].request->chooser.rules(&rules);
    if (!rules_.push(rules)) __builtin_unreachable();  // reserved for all slots
  }
  sink.kind = k == 1 ? GC_SINK_ARGMAX : GC_SINK_TOPK;
  sink.k = k;
  sink.ids = ids_.data();
  sink.values = values_.data();
  sink.rules = any ? rules_.data() : nullptr;
  return sink;
}

void Engine::after_prompt_rows(Slot& s) {
  const Request& r = *s.request;
  s.done += s.rows;
  s.times.prompt_tokens += s.rows;
  metrics_.prompt_tokens += s.rows;
  if (s.done == s.mark && s.prompt != 0) prefixes_.keep(number(s), s.tokens.span().sub(0, s.done));
  if (s.prompt != 0 && r.asked.on_prompt != nullptr)
    r.asked.on_prompt(r.asked.user, r.id, s.done, s.times.kept_tokens);
  if (s.done != s.tokens.size()) return;
  if (s.chosen) {  // the context was shifted
    s.chosen = false;
    s.phase = Phase::kGenerating;
    return;
  }
  s.read_ns = monotonic_ns();
  s.times.prompt_ns = s.read_ns - s.begun_ns;
  if (r.chooser.max_tokens() != 0) return;
  keep_prompt(s);
  finish(s, End::kLength);
}

void Engine::keep_prompt(Slot& s) {
  if (!s.request->asked.cache_prompt) return;
  set_held(number(s), prefixes_.keep(number(s), s.tokens));
}

// Where all logits are there, requests are shared out to the workers: a vocabulary takes each of them some 0.1 to 1 ms.
Status Engine::pick_all(const gc_sink& sink) {
  struct Job {
    Engine* engine;
    const gc_sink* sink;
    uint32_t workers;
  } job{this, &sink, session_.pool().workers()};
  const auto run = [](void* context, uint32_t worker) {
    const Job& j = *static_cast<Job*>(context);
    for (uint32_t i = worker; i < j.engine->outputs_.size(); i += j.workers) j.engine->pick(i, *j.sink);
  };
  if (sink.kind == GC_SINK_LOGITS && outputs_.size() > 1) return session_.pool().run(run, &job);
  job.workers = 1;
  run(&job, 0);
  return kOk;
}

void Engine::pick(uint32_t output, const gc_sink& sink) {
  Request& r = *slots_[outputs_[output]].request;
  Picked& p = picked_[output];
  p = Picked();
  p.forced = r.chooser.is_forced();
  if (sink.kind != GC_SINK_LOGITS) {
    const size_t at = uint64_t{output} * sink.k, most = r.chooser.most();
    p.status = r.chooser.pick_of(ids_.span().sub(at, most), values_.span().sub(at, most), &p.token);
    return;
  }
  const Span<const float> logits(sink.logits + output * sink.stride, session_.model().program->n_vocab);
  p.status = r.chooser.pick(logits, &p.token);
  if (p.status == kOk && r.wants_probs())
    p.status =
        r.chooser.top_probs(logits, static_cast<size_t>(r.asked.n_probs), p.token, r.likeliest, &p.own);
}

// A token was chosen.
void Engine::take(Slot& s, const Picked& picked) {
  Request& r = *s.request;
  const int32_t token = picked.token;
  message_[0] = 0;
  if (const Status status = r.chooser.take(picked.status, token, message_); status != kOk)
    return fail(s, status, message_);
  if (s.phase == Phase::kReading) {
    keep_prompt(s);
    s.phase = Phase::kGenerating;
  }
  ++s.times.tokens;
  ++metrics_.tokens;
  if (r.chooser.ends(token)) return finish(s, End::kEog);
  s.times.generate_ns = monotonic_ns() - s.read_ns;
  TokenEvent event{
      .request = r.id, .id = token, .forced = picked.forced, .times = s.times, .chosen = picked.own};
  if (const Status status = r.chooser.text_of(token, &event.text); status != kOk)
    return fail(s, status, Str());
  if (r.wants_probs()) event.likeliest = r.likeliest;
  speaking_ = r.id;
  const bool wanted = r.asked.on_token == nullptr || r.asked.on_token(r.asked.user, event);
  speaking_ = 0;
  if (r.chooser.stopped()) return finish(s, End::kStop);
  if (!wanted) return finish(s, End::kCaller);
  if (r.chooser.max_tokens() == static_cast<int64_t>(s.times.tokens)) return finish(s, End::kLength);
  // The state has what was read and generated but for this token.
  if (s.times.tokens > 1 && !s.tokens.push(s.next)) return fail(s, kErrMemory, Str());
  s.next = token;
  if (s.done != session_.options().n_ctx) return;
  if (r.chooser.shifts())
    shift(s);
  else
    finish(s, End::kContext);
}

// As Generator does: the first tokens stay, of the rest the older half goes, and what remains is read again as a prompt.
void Engine::shift(Slot& s) {
  const size_t n = s.tokens.size();
  const size_t keep = min_of(static_cast<size_t>(max_of(s.request->chooser.keep(), int64_t{0})), n - 1);
  const size_t drop = (n - keep + 1) / 2;
  int32_t* ids = s.tokens.data();
  for (size_t i = keep; i + drop < n; ++i) ids[i] = ids[i + drop];
  s.tokens.truncate(n - drop);
  s.done = session_.kv().truncate(number(s), static_cast<uint32_t>(keep));
  s.prompt = s.mark = 0;
  ++s.times.shifts;
  s.chosen = s.done != s.tokens.size();
  s.phase = s.chosen ? Phase::kReading : Phase::kGenerating;
}

// ---- Texts of encoders: each is read whole, as many in a step as have room ----

void Engine::step_texts() {
  Vec<Token>& tokens = session_.step_tokens();
  uint32_t n = 0;
  for (Slot& s : slots_) s.rows = 0;
  for (;;) {
    Slot* first = nullptr;  // that came before all others and has room
    for (Slot& s : slots_)
      if (s.phase == Phase::kReading && s.rows == 0 && s.tokens.size() <= session_.options().n_ubatch - n &&
          (first == nullptr || s.came < first->came))
        first = &s;
    if (first == nullptr) break;
    const auto count = static_cast<uint32_t>(first->tokens.size());
    first->rows = count;
    for (uint32_t i = 0; i < count; ++i)
      tokens[n++] = {first->tokens[i], number(*first), GC_ROLE_PROMPT,
                     embedding_output(first->request->asked.pooling, i, count)};
    if (!outputs_.push(number(*first))) __builtin_unreachable();  // reserved for all slots
  }
  if (n == 0) return;
  const int64_t begin = monotonic_ns();
  gc_sink sink = {};
  sink.kind = GC_SINK_EMBEDDING;
  sink.logits = logits_;
  sink.stride = session_.logits_stride();
  const Status status = session_.step(tokens.span().sub(0, n), &sink);
  ++metrics_.steps;
  metrics_.step_rows += n;
  metrics_.step_ns += monotonic_ns() - begin;
  metrics_.prompt_tokens += n;
  const float* rows = logits_;
  const uint32_t width = session_.model().program->n_output;
  for (uint32_t i : outputs_) {
    Slot& s = slots_[i];
    const BatchRequest& asked = s.request->asked;
    const uint32_t count = s.rows, results = embeddings_of(asked.pooling, count);
    s.done = s.times.prompt_tokens = count;
    s.times.prompt_ns = monotonic_ns() - s.begun_ns;
    if (status != kOk || !embeddings_.resize(uint64_t{results} * width)) {
      fail(s, status != kOk ? status : kErrMemory, Str());
      continue;
    }
    pool_embeddings(rows, sink.stride, count, width, asked.pooling, asked.normalize, embeddings_.data());
    rows += embedding_outputs(asked.pooling, count) * sink.stride;
    EndEvent event;
    event.embeddings = embeddings_.span();
    event.n_embeddings = results;
    leave(s, event);
  }
  outputs_.clear();
}

}  // namespace gcrt::batch
