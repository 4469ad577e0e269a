#include "runtime/generate/generator.h"

#include <time.h>

#include "runtime/base/format.h"
#include "runtime/core/prompt_cache.h"

namespace gcrt {
namespace {

constexpr size_t kTextBytes = 1024;  // longer than any piece of a usual vocabulary

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
  tokenizer_ = tokenizer != nullptr && tokenizer->available() ? tokenizer : nullptr;
  max_tokens_ = options.max_tokens;
  show_special_ = options.show_special;
  shifts_ = options.context_shift;
  keep_ = options.keep;
  constraint_ = options.constraint;
  auto out_of_memory = [&] {
    format_to(message, "not enough memory for the sampler");
    return kErrMemory;
  };
  if (!state_.reserve(session->options().n_ctx)) return out_of_memory();
  if (shifts_ && !whole_.reserve(session->options().n_ctx)) return out_of_memory();
  if (!bytes_.reserve(kTextBytes) || !safe_.reserve(kTextBytes) || !text_.reserve(kTextBytes))
    return out_of_memory();
  Vec<LogitBias> bias(allocator_);
  if (!bias.append(options.bias)) return out_of_memory();
  if (tokenizer_ != nullptr)
    for (int32_t id : tokenizer_->view().suppressed())
      if (!bias.push({id, -__builtin_inff()})) return out_of_memory();
  if (options.ignore_eog && tokenizer_ != nullptr)
    for (int32_t id : tokenizer_->view().eog())
      if (!bias.push({id, -__builtin_inff()})) return out_of_memory();
  const int32_t n_vocab = static_cast<int32_t>(session->model().program->n_vocab);
  if (tokenizer_ != nullptr) sampler_.set_texts(token_texts(*tokenizer_));
  Status s = sampler_.init(n_vocab, options.chain, bias, options.seed, message);
  if (s == kErrMemory) return out_of_memory();
  if (s != kOk) return s;
  if (init_head(bias) != kOk) return out_of_memory();
  s = init_breakers(options);
  if (s == kErrMemory) return out_of_memory();
  if (s != kOk) return s;
  s = stop_.init(options.stops);
  if (s == kErrMemory) return out_of_memory();
  if (s != kOk) format_to(message, "a stop string is empty");
  return s;
}

// A place for what a step gives: the head's list where it can choose, else all logits.
Status Generator::init_head(Span<const LogitBias> bias) {
  const HeadChoice choice = sampler_.head_choice();
  const bool chooses = choice.k != 0 && choice.k <= session_->most_k() &&
                       choice.penalties.last_n <= static_cast<int64_t>(Choice::kMostRecent);
  if (!chooses) {
    sink_.kind = GC_SINK_LOGITS;
    sink_.stride = session_->logits_stride();
    logits_bytes_ = sink_.stride * sizeof(float);
    sink_.logits = logits_ = static_cast<float*>(allocator_.get(logits_bytes_, 64));
    return logits_ != nullptr ? kOk : kErrMemory;
  }
  if (!ids_.resize(choice.k) || !values_.resize(choice.k)) return kErrMemory;
  for (const LogitBias& b : bias)
    if (!bias_.push({b.id, b.value})) return kErrMemory;
  sink_.kind = choice.k == 1 ? GC_SINK_ARGMAX : GC_SINK_TOPK;
  sink_.k = choice.k;
  sink_.ids = ids_.data();
  sink_.values = values_.data();
  return kOk;
}

// The sink of the next step, with rules as the sampler now has them.
gc_sink* Generator::next_sink() {
  if (logits_ != nullptr) return &sink_;
  const HeadChoice choice = sampler_.head_choice();
  rules_.bias = bias_.data();
  rules_.n_bias = static_cast<uint32_t>(bias_.size());
  rules_.recent = choice.recent.data();
  rules_.n_recent = static_cast<uint32_t>(choice.recent.size());
  rules_.repeat_penalty = choice.penalties.repeat;
  rules_.frequency_penalty = choice.penalties.frequency;
  rules_.presence_penalty = choice.penalties.presence;
  rules_.mask = mask_;
  const bool any = rules_.n_bias != 0 || rules_.n_recent != 0 || mask_ != nullptr;
  sink_.rules = any ? &rules_ : nullptr;
  return &sink_;
}

// The mask of the next token, before the step that gives its logits.
Status Generator::constrain() {
  return constraint_.self != nullptr ? constraint_.mask(constraint_.self, &mask_) : kOk;
}

Status Generator::sample(int32_t* token) {
  if (logits_ != nullptr) {
    const uint32_t n_vocab = session_->model().program->n_vocab;
    for (uint32_t w = 0; mask_ != nullptr && w < (n_vocab + 63) / 64; ++w) {
      if (mask_[w] == ~uint64_t{0}) continue;
      for (uint32_t i = 64 * w; i < min_of(n_vocab, 64 * w + 64); ++i)
        if ((mask_[w] >> (i % 64) & 1) == 0) logits_[i] = -__builtin_inff();
    }
    return sampler_.sample(Span<const float>(logits_, n_vocab), token);
  }
  size_t n = 0;
  while (n < ids_.size() && ids_[n] >= 0) ++n;
  return sampler_.sample_list(ids_.span().sub(0, n), values_.span().sub(0, n), true, token);
}

// Only for a chain that uses them: it takes a pass over the vocabulary.
Status Generator::init_breakers(const GenerateOptions& options) {
  bool dry = false;
  for (const SamplerStage& stage : options.chain)
    dry |= stage.kind == SamplerKind::kDry && dry_works(stage.dry);
  if (!dry || tokenizer_ == nullptr) return kOk;
  DryBreakers breakers(allocator_);
  const Status s = add_breakers(*tokenizer_, options.dry_breakers, allocator_, breakers);
  return s == kOk ? sampler_.set_breakers(breakers) : s;
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
  times_.kept_tokens = state_.size();
  stop_.reset();
  utf8_ = Utf8Stream();
  mask_ = nullptr;
  if (const Status s = check_prompt(prompt, message); s != kOk) return s;
  Status s = constraint_.self != nullptr ? constraint_.begin(constraint_.self) : kOk;
  if (s == kOk) s = run(prompt, on_token, user, end, message);
  forced_.clear();
  at_forced_ = 0;
  if (s == kErrAborted) {
    *end = End::kAborted;
    s = kOk;
  }
  if (s != kOk || *end == End::kCaller) return s;
  return rest_of_text(on_token, user);
}

Status Generator::run(Span<const int32_t> prompt, OnToken on_token, void* user, End* end,
                      Span<char> message) {
  for (int32_t id : prompt)
    if (const Status s = sampler_.accept(id); s != kOk) return s;
  const int64_t begin = now_ns();
  Status s = constrain();
  if (s == kOk) s = read(prompt, max_tokens_ == 0 ? nullptr : next_sink());
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
  Status s = kOk;
  if (at_forced_ < forced_.size()) {
    *token = forced_[at_forced_++];
    return sampler_.accept(*token);
  }
  s = sample(token);
  if (s == kErrNan)
    format_to(message, mask_ == nullptr ? "the model's output is not a number"
                                        : "no token may come next that is not ruled out otherwise");
  if (s == kOk) s = sampler_.accept(*token);
  return s == kOk && constraint_.self != nullptr ? constraint_.accept(constraint_.self, *token) : s;
}

Status Generator::loop(OnToken on_token, void* user, End* end, Span<char> message) {
  while (max_tokens_ < 0 || times_.tokens < static_cast<uint64_t>(max_tokens_)) {
    int32_t token = 0;
    Status s = choose(&token, message);
    if (s != kOk) return s;
    ++times_.tokens;
    if (ends(token)) {
      *end = End::kEog;
      return kOk;
    }
    if (s = text_of(token); s != kOk) return s;
    const bool wanted = on_token(user, token, str(text_));
    if (stop_.stopped() || !wanted) {
      *end = stop_.stopped() ? End::kStop : End::kCaller;
      return kOk;
    }
    if (times_.tokens == static_cast<uint64_t>(max_tokens_)) break;
    if (session_->kv().length(seq_) == session_->options().n_ctx && !shifts_) {
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
  if (s == kOk) s = constrain();
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
  const size_t n = state_.size(), keep = min_of(static_cast<size_t>(max_of(keep_, int64_t{0})), n - 1),
               drop = (n - keep + 1) / 2;
  if (!whole_.copy(state_.span().sub(0, keep)) || !whole_.append(state_.span().sub(keep + drop)))
    return kErrMemory;
  const size_t reached = session_->kv().truncate(seq_, static_cast<uint32_t>(keep));
  state_.truncate(reached);
  ++times_.shifts;
  return reached == whole_.size() ? kOk : read(whole_.span().sub(reached), nullptr);
}

// What the file has computed of the prompt's beginning, where that is most of what it has.
Status Generator::start_from_cache(Span<const int32_t> whole) {
  const gc_model* model = session_->model().facts;
  if (model == nullptr || model->prompt_cache == nullptr) return kOk;
  const Span<const int32_t> ids = first_record(*model).ids;
  const size_t common = common_prefix(whole, ids);
  if (2 * common <= ids.size() || !restore_prompt(*session_, seq_)) return kOk;
  return state_.copy(ids) ? kOk : kErrMemory;
}

Status Generator::generate_whole(Span<const int32_t> whole, OnToken on_token, void* user, End* end,
                                 Span<char> message) {
  const uint32_t n_ctx = session_->options().n_ctx;
  if (whole.size() > n_ctx) {  // before anything is forgotten
    format_to(message, "the prompt has ", whole.size(), " tokens, and the context ", n_ctx);
    return kErrFull;
  }
  if (const Status s = notice_others(); s != kOk) return s;
  if (state_.empty())
    if (const Status s = start_from_cache(whole); s != kOk) return s;
  size_t common = common_prefix(whole, state_);
  // One token at least is run: its logits are wanted.
  if (common != 0 && common == whole.size()) --common;
  common = session_->kv().truncate(seq_, static_cast<uint32_t>(common));
  state_.truncate(common);
  sampler_.forget_tokens();
  for (int32_t id : state_)
    if (const Status s = sampler_.accept(id); s != kOk) return s;
  return generate(whole.sub(common), on_token, user, end, message);
}

Status Generator::text_of(int32_t token) {
  bytes_.clear();
  safe_.clear();
  text_.clear();
  if (tokenizer_ == nullptr) return kOk;
  if (const Status s = tokenizer_->append_piece(token, show_special_, bytes_); s != kOk) return s;
  if (const Status s = stop_.push(str(bytes_), safe_); s != kOk) return s;
  return utf8_.push(str(safe_), text_);
}

Status Generator::rest_of_text(OnToken on_token, void* user) {
  safe_.clear();
  text_.clear();
  if (!stop_.stopped())
    if (const Status s = stop_.finish(safe_); s != kOk) return s;
  if (const Status s = utf8_.push(str(safe_), text_); s != kOk) return s;
  if (const Status s = utf8_.finish(text_); s != kOk) return s;
  if (!text_.empty()) on_token(user, -1, str(text_));
  return kOk;
}

}  // namespace gcrt
