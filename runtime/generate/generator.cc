#include "runtime/generate/generator.h"

#include <time.h>

#include "runtime/base/format.h"
#include "runtime/core/prompt_cache.h"

namespace gcrt {
namespace {

int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}

}  // namespace

Generator::~Generator() {
  if (logits_ != nullptr) allocator_.put(logits_, logits_bytes_, 64);
}

Status Generator::init(Session* session, uint32_t seq, const Tokenizer* tokenizer,
                       const GenerateOptions& options, Span<char> message) {
  GCRT_ASSERT(session_ == nullptr);
  session_ = session;
  seq_ = seq;
  const uint32_t n_ctx = session->options().n_ctx;
  Status s = chooser_.init(session->model().program->n_vocab, session->most_k(), tokenizer, options, message);
  if (s != kOk) return s;
  if (!state_.reserve(n_ctx) || (chooser_.shifts() && !whole_.reserve(n_ctx))) s = kErrMemory;
  if (s == kOk) s = init_sink();
  if (s != kOk) format_to(message, "not enough memory for the sampler");
  return s;
}

// A place for what a step gives: the head's list where it can choose, else all logits.
Status Generator::init_sink() {
  const uint32_t k = chooser_.most();
  if (k == 0) {
    sink_.kind = GC_SINK_LOGITS;
    sink_.stride = session_->logits_stride();
    logits_bytes_ = sink_.stride * sizeof(float);
    sink_.logits = logits_ = static_cast<float*>(allocator_.get(logits_bytes_, 64));
    return logits_ != nullptr ? kOk : kErrMemory;
  }
  if (!ids_.resize(k) || !values_.resize(k)) return kErrMemory;
  sink_.kind = k == 1 ? GC_SINK_ARGMAX : GC_SINK_TOPK;
  sink_.k = k;
  sink_.ids = ids_.data();
  sink_.values = values_.data();
  return kOk;
}

// The sink of the next step, with rules as the sampler now has them.
gc_sink* Generator::next_sink() {
  if (logits_ == nullptr) sink_.rules = chooser_.rules(&rules_) ? &rules_ : nullptr;
  return &sink_;
}

Status Generator::check_prompt(Span<const int32_t> prompt, Span<char> message) const {
  const uint32_t n_vocab = session_->model().program->n_vocab, n_ctx = session_->options().n_ctx,
                 used = session_->kv().length(seq_);
  if (prompt.empty()) {
    format_to(message, "the prompt has no tokens");
    return kErrArgument;
  }
  for (int32_t id : prompt) {
    if (id >= 0 && static_cast<uint32_t>(id) < n_vocab) continue;
    format_to(message, "token ", id, ": the model has ", n_vocab, " tokens");
    return kErrArgument;
  }
  if (prompt.size() <= n_ctx - used) return kOk;
  Writer w(message.data(), message.size());
  format(w, "the prompt has ", prompt.size(), " tokens, and the context ", n_ctx);
  if (used != 0) format(w, ", of which ", used, " are in use");
  return kErrFull;
}

// Whoever else extended, cut or restored the sequence: what is in the state now is not known here.
Status Generator::notice_others() {
  const size_t n = session_->kv().length(seq_);
  if (n == state_.size()) return kOk;
  if (!state_.resize(n)) return kErrMemory;
  for (int32_t& id : state_) id = -1;
  return kOk;
}

Status Generator::generate(Span<const int32_t> prompt, OnToken on_token, void* user, End* end,
                           Span<char> message) {
  if (const Status s = notice_others(); s != kOk) return s;
  times_ = GenerateTimes();
  if (const Status s = check_prompt(prompt, message); s != kOk) return s;
  Status s = chooser_.begin();
  if (s == kOk) s = run(prompt, on_token, user, end, message);
  chooser_.end_text();
  if (s == kErrAborted) {
    *end = End::kAborted;
    s = kOk;
  }
  if (s != kOk || *end == End::kCaller) return s;
  return rest_of_text(on_token, user);
}

Status Generator::run(Span<const int32_t> prompt, OnToken on_token, void* user, End* end,
                      Span<char> message) {
  Status s = chooser_.accept(prompt);
  const int64_t begin = now_ns();
  if (s == kOk && state_.empty()) {
    const uint32_t kept = start_from_cache(*session_, seq_, prompt);
    if (!state_.copy(prompt.sub(0, kept))) s = kErrMemory;
    prompt = prompt.sub(kept);
  }
  times_.kept_tokens = state_.size();
  if (s == kOk) s = chooser_.prepare();
  if (s == kOk) s = read(prompt, chooser_.max_tokens() == 0 ? nullptr : next_sink());
  const int64_t end_of_prompt = now_ns();
  times_.prompt_ns = end_of_prompt - begin;
  times_.prompt_tokens = prompt.size();
  if (s == kErrNan) format_to(message, "the model's output is not a number");
  if (s != kOk) return s;
  s = loop(on_token, user, end, message);
  times_.generate_ns = now_ns() - end_of_prompt;
  return s;
}

Status Generator::choose(int32_t* token, Span<char> message) {
  if (logits_ == nullptr) return chooser_.choose_of(ids_, values_, token, message);
  return chooser_.choose({logits_, session_->model().program->n_vocab}, token, message);
}

Status Generator::loop(OnToken on_token, void* user, End* end, Span<char> message) {
  const int64_t most = chooser_.max_tokens();
  while (most < 0 || times_.tokens < static_cast<uint64_t>(most)) {
    int32_t token = 0;
    Str text;
    Status s = choose(&token, message);
    if (s != kOk) return s;
    ++times_.tokens;
    if (chooser_.ends(token)) {
      *end = End::kEog;
      return kOk;
    }
    if (s = chooser_.text_of(token, &text); s != kOk) return s;
    const bool wanted = on_token(user, token, text);
    if (chooser_.stopped() || !wanted) {
      *end = chooser_.stopped() ? End::kStop : End::kCaller;
      return kOk;
    }
    if (times_.tokens == static_cast<uint64_t>(most)) break;
    if (session_->kv().length(seq_) == session_->options().n_ctx && !chooser_.shifts()) {
      *end = End::kContext;
      return kOk;
    }
    if (s = go_on(token); s != kOk) {
      if (s == kErrNan) format_to(message, "the model's output is not a number");
      return s;
    }
    ++times_.steps;
  }
  *end = End::kLength;
  return kOk;
}

// Runs a chosen token: the next one's logits are in the sink then.
Status Generator::go_on(int32_t token) {
  Status s = session_->kv().length(seq_) == session_->options().n_ctx ? shift() : kOk;
  if (s == kOk) s = chooser_.prepare();
  if (s == kOk) s = session_->decode_into(seq_, token, next_sink());
  if (s != kOk) follow_back();
  return s != kOk || state_.push(token) ? s : kErrMemory;
}

// A prompt's steps. `state_` has what the state has, however far they come.
Status Generator::read(Span<const int32_t> prompt, gc_sink* sink) {
  const Status s = session_->prompt_into(seq_, prompt, sink);
  follow_back();
  const size_t done = session_->kv().length(seq_) - state_.size();
  return state_.append(prompt.sub(0, done)) ? s : kErrMemory;
}

// A step that failed may have left less of a recurrent state than there was.
void Generator::follow_back() {
  const size_t length = session_->kv().length(seq_);
  if (length < state_.size()) state_.truncate(length);
}

Status Generator::shift() {
  const size_t n = state_.size(),
               keep = min_of(static_cast<size_t>(max_of(chooser_.keep(), int64_t{0})), n - 1),
               drop = (n - keep + 1) / 2;
  if (!whole_.copy(state_.span().sub(0, keep)) || !whole_.append(state_.span().sub(keep + drop)))
    return kErrMemory;
  const size_t reached = session_->kv().truncate(seq_, static_cast<uint32_t>(keep));
  state_.truncate(reached);
  ++times_.shifts;
  return reached == whole_.size() ? kOk : read(whole_.span().sub(reached), nullptr);
}

Status Generator::generate_whole(Span<const int32_t> whole, OnToken on_token, void* user, End* end,
                                 Span<char> message) {
  const uint32_t n_ctx = session_->options().n_ctx;
  if (whole.size() > n_ctx) {  // before anything is forgotten
    format_to(message, "the prompt has ", whole.size(), " tokens, and the context ", n_ctx);
    return kErrFull;
  }
  if (const Status s = notice_others(); s != kOk) return s;
  size_t common = common_prefix(whole, state_);
  // One token at least is run: its logits are wanted.
  if (common != 0 && common == whole.size()) --common;
  common = session_->kv().truncate(seq_, static_cast<uint32_t>(common));
  state_.truncate(common);
  chooser_.forget_tokens();
  if (const Status s = chooser_.accept(state_); s != kOk) return s;
  return generate(whole.sub(common), on_token, user, end, message);
}

Status Generator::rest_of_text(OnToken on_token, void* user) {
  Str text;
  if (const Status s = chooser_.rest_of_text(&text); s != kOk) return s;
  if (!text.empty()) on_token(user, -1, text);
  return kOk;
}

}  // namespace gcrt
