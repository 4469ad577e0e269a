#include "runtime/generate/token_chooser.h"

#include "runtime/base/format.h"
#include "runtime/core/choice.h"

namespace gcrt {
namespace {

constexpr size_t kTextBytes = 1024;  // longer than any piece of a usual vocabulary

}  // namespace

Status TokenChooser::init(uint32_t n_vocab, uint32_t most_k, const Tokenizer* tokenizer,
                          const GenerateOptions& options, Span<char> message) {
  tokenizer_ = tokenizer != nullptr && tokenizer->available() ? tokenizer : nullptr;
  n_vocab_ = n_vocab;
  max_tokens_ = options.max_tokens;
  show_special_ = options.show_special;
  shifts_ = options.context_shift;
  keep_ = options.keep;
  constraint_ = options.constraint;
  Status s =
      bytes_.reserve(kTextBytes) && safe_.reserve(kTextBytes) && text_.reserve(kTextBytes) ? kOk : kErrMemory;
  if (s == kOk) s = init_sampler(options, message);
  if (s == kOk) s = init_breakers(options);
  if (s == kErrMemory) format_to(message, "not enough memory for the sampler");
  if (s != kOk) return s;
  const HeadChoice choice = sampler_.head_choice();
  const bool head_can =
      choice.k <= most_k && choice.penalties.last_n <= static_cast<int64_t>(Choice::kMostRecent);
  k_ = head_can ? choice.k : 0;
  s = stop_.init(options.stops);
  if (s == kErrMemory) format_to(message, "not enough memory for the stop strings");
  if (s == kErrInput) format_to(message, "a stop string is empty");
  return s;
}

// With the biases, those of tokens that never come included; the head gets them as it wants them.
Status TokenChooser::init_sampler(const GenerateOptions& options, Span<char> message) {
  Vec<LogitBias> bias(allocator_);
  if (!bias.append(options.bias)) return kErrMemory;
  if (tokenizer_ != nullptr)
    for (int32_t id : tokenizer_->view().suppressed())
      if (!bias.push({id, -__builtin_inff()})) return kErrMemory;
  if (options.ignore_eog && tokenizer_ != nullptr)
    for (int32_t id : tokenizer_->view().eog())
      if (!bias.push({id, -__builtin_inff()})) return kErrMemory;
  for (const LogitBias& b : bias)
    if (!bias_.push({b.id, b.value})) return kErrMemory;
  if (tokenizer_ != nullptr) sampler_.set_texts(token_texts(*tokenizer_));
  return sampler_.init(static_cast<int32_t>(n_vocab_), options.chain, bias, options.seed, message);
}

// Only for a chain that uses them: it takes a pass over the vocabulary.
Status TokenChooser::init_breakers(const GenerateOptions& options) {
  bool dry = false;
  for (const SamplerStage& stage : options.chain)
    dry |= stage.kind == SamplerKind::kDry && dry_works(stage.dry);
  if (!dry || tokenizer_ == nullptr) return kOk;
  DryBreakers breakers(allocator_);
  const Status s = add_breakers(*tokenizer_, options.dry_breakers, allocator_, breakers);
  return s == kOk ? sampler_.set_breakers(breakers) : s;
}

Status TokenChooser::begin() {
  stop_.reset();
  utf8_ = Utf8Stream();
  mask_ = nullptr;
  return constraint_.self != nullptr ? constraint_.begin(constraint_.self) : kOk;
}

Status TokenChooser::accept(Span<const int32_t> ids) {
  for (int32_t id : ids)
    if (const Status s = sampler_.accept(id); s != kOk) return s;
  return kOk;
}

Status TokenChooser::prepare() {
  return constraint_.self != nullptr ? constraint_.mask(constraint_.self, &mask_) : kOk;
}

bool TokenChooser::rules(gc_logit_rules* rules) const {
  const HeadChoice choice = sampler_.head_choice();
  rules->bias = bias_.data();
  rules->n_bias = static_cast<uint32_t>(bias_.size());
  rules->recent = choice.recent.data();
  rules->n_recent = static_cast<uint32_t>(choice.recent.size());
  rules->repeat_penalty = choice.penalties.repeat;
  rules->frequency_penalty = choice.penalties.frequency;
  rules->presence_penalty = choice.penalties.presence;
  rules->mask = mask_;
  return rules->n_bias != 0 || rules->n_recent != 0 || mask_ != nullptr;
}

bool TokenChooser::take_forced(int32_t* token) {
  was_forced_ = is_forced();
  if (was_forced_) *token = forced_[at_forced_++];
  return was_forced_;
}

Status TokenChooser::pick(Span<const float> logits, int32_t* token) {
  return take_forced(token) ? static_cast<Status>(kOk) : sampler_.sample(logits, token, mask_);
}

Status TokenChooser::pick_of(Span<const int32_t> ids, Span<const float> logits, int32_t* token) {
  if (take_forced(token)) return kOk;
  size_t n = 0;
  while (n < ids.size() && ids[n] >= 0) ++n;
  if (n == 0) return kErrNan;
  return sampler_.sample_list(ids.sub(0, n), logits.sub(0, n), true, token);
}

Status TokenChooser::take(Status picked, int32_t token, Span<char> message) {
  if (picked == kErrNan)
    format_to(message, mask_ == nullptr ? "the model's output is not a number"
                                        : "no token may come next that is not ruled out otherwise");
  if (picked == kOk) picked = sampler_.accept(token);
  const bool constrained = constraint_.self != nullptr && !was_forced_;
  return picked == kOk && constrained ? constraint_.accept(constraint_.self, token) : picked;
}

Status TokenChooser::text_of(int32_t token, Str* text) {
  bytes_.clear();
  safe_.clear();
  text_.clear();
  *text = Str();
  if (tokenizer_ == nullptr) return kOk;
  if (const Status s = tokenizer_->append_piece(token, show_special_, bytes_); s != kOk) return s;
  if (const Status s = stop_.push(str(bytes_), safe_); s != kOk) return s;
  const Status s = utf8_.push(str(safe_), text_);
  *text = str(text_);
  return s;
}

Status TokenChooser::rest_of_text(Str* text) {
  safe_.clear();
  text_.clear();
  *text = Str();
  if (!stop_.stopped())
    if (const Status s = stop_.finish(safe_); s != kOk) return s;
  if (const Status s = utf8_.push(str(safe_), text_); s != kOk) return s;
  if (const Status s = utf8_.finish(text_); s != kOk) return s;
  *text = str(text_);
  return kOk;
}

void TokenChooser::end_text() {
  forced_.clear();
  at_forced_ = 0;
}

}  // namespace gcrt
