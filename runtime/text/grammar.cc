#include "runtime/text/grammar.h"

#include "runtime/base/format.h"
#include "runtime/text/grammar/gbnf.h"
#include "runtime/text/grammar/schema.h"
#include "runtime/text/grammar/token_refs.h"

namespace gcrt {
namespace {

template <class T, class... Args>
T* make(Allocator a, Args&&... args) {
  void* p = a.get(sizeof(T), alignof(T));
  return p ? ::new (gcrt_placement{}, p) T(static_cast<Args&&>(args)...) : nullptr;
}
template <class T>
void destroy(Allocator a, T*& p) {
  if (p) {
    p->~T();
    a.put(p, sizeof(T), alignof(T));
  }
  p = nullptr;
}

}  // namespace

Status Grammar::finish(grammar::Network& network, uint32_t root, Span<char> message) {
  program_ = grammar::Program(allocator_);
  const Status s = grammar::make_program(network, root, program_, message);
  compiled_ = s == kOk;
  return s;
}

Status Grammar::compile_gbnf(Str text, Span<char> message, const Tokenizer* vocabulary) {
  compiled_ = false;
  grammar::Network network(allocator_);
  uint32_t root = 0;
  const Status s = grammar::parse_gbnf(text, vocabulary, network, &root, message);
  return s == kOk ? finish(network, root, message) : s;
}

Status Grammar::compile_json_schema(Str text, Span<char> message) {
  compiled_ = false;
  grammar::Network network(allocator_);
  uint32_t root = 0;
  Status s = grammar::compile_schema(text, network, &root, message);
  if (s != kOk) return s;
  s = finish(network, root, message);
  if (s != kErrInput) return s;
  // No rule of a schema's is at fault: it allows no value, and so no text.
  message[0] = 0;
  program_ = grammar::Program(allocator_);
  compiled_ = program_.rules.resize(1);
  return compiled_ ? kOk : kErrMemory;
}

void GrammarState::close() {
  destroy(allocator_, masks_);
  destroy(allocator_, machine_);
}

Status GrammarState::init(const Grammar* g, const GrammarVocab* vocab) {
  close();
  if (!g->compiled()) return kErrArgument;
  vocab_ = vocab;
  machine_ = make<grammar::Machine>(allocator_, g->program(), allocator_);
  if (!machine_) return kErrMemory;
  if (const Status s = machine_->init(); s != kOk) return s;
  at_ = machine_->start();
  names_tokens_ = false;
  numbers_of_ = grammar::kNone;
  for (const grammar::ByteEdge& e : g->program().bytes) names_tokens_ |= e.hi == grammar::kTokenMark;
  if (vocab) masks_ = make<grammar::Masks>(allocator_, *machine_, *vocab, allocator_);
  return vocab && !masks_ ? kErrMemory : kOk;
}

grammar::Situation GrammarState::after_text(Str bytes) const {
  grammar::Situation s = at_;
  for (char c : bytes) s = machine_->step(s, static_cast<uint8_t>(c));
  return s;
}

grammar::Situation GrammarState::after_number(int32_t id) const {
  grammar::Situation s = machine_->step(at_, grammar::kTokenMark);
  for (int place = 0; place < grammar::kTokenBytes; ++place)
    s = machine_->step(s, grammar::token_byte(id, place));
  return s;
}

Status GrammarState::arrive(grammar::Situation s) {
  at_ = s;
  if (machine_->status() != kOk) return machine_->status();
  if (machine_->bytes() > kMostBytes && at_ != grammar::kDead) {
    at_ = machine_->collect(at_);
    ++collections_;
    numbers_of_ = grammar::kNone;
    if (masks_) masks_->forget_situations();
  }
  return at_ == grammar::kDead ? kErrInput : kOk;
}

Status GrammarState::accept_bytes(Str bytes) { return arrive(after_text(bytes)); }

Status GrammarState::accept_token(int32_t id) {
  if (!vocab_ || id < 0 || id >= vocab_->n_vocab()) return kErrArgument;
  if (vocab_->is_eog(id)) return can_end() ? kOk : kErrInput;
  const Str text = vocab_->text(id);
  const grammar::Situation by_text = text.empty() ? grammar::kDead : after_text(text);
  if (!names_tokens_) return arrive(by_text);
  return arrive(machine_->join(by_text, after_number(id)));
}

Status GrammarState::add_numbers(Span<uint64_t> mask) {
  const grammar::Situation marked = machine_->step(at_, grammar::kTokenMark);
  if (marked == grammar::kDead) return machine_->status();
  if (numbers_of_ != marked) {
    numbers_of_ = grammar::kNone;
    if (!numbers_.resize(mask.size())) return kErrMemory;
    memset(numbers_.data(), 0, numbers_.size() * sizeof(uint64_t));
    // The numbers in order; those of a dead beginning are passed over.
    grammar::Situation at[grammar::kTokenBytes + 1] = {marked};
    int known = 0;  // places of `at` that are right for this number
    for (int32_t id = 0; id < vocab_->n_vocab();) {
      while (known < grammar::kTokenBytes && at[known] != grammar::kDead) {
        at[known + 1] = machine_->step(at[known], grammar::token_byte(id, known));
        ++known;
      }
      if (at[known] != grammar::kDead && !vocab_->is_eog(id))
        numbers_[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
      const int32_t step = 1 << (6 * (grammar::kTokenBytes - known));
      id = (id / step + 1) * step;
      // The next number differs from the place on where this one's digits begin to overflow.
      --known;
      while (known > 0 && id % (1 << (6 * (grammar::kTokenBytes - known))) == 0) --known;
    }
    if (machine_->status() != kOk) return machine_->status();
    numbers_of_ = marked;
  }
  for (size_t i = 0; i < numbers_.size(); ++i) mask[i] |= numbers_[i];
  return kOk;
}

Status GrammarState::fill_mask(Span<uint64_t> mask) {
  if (!masks_ || mask.size() < vocab_->mask_words()) return kErrArgument;
  const size_t words = vocab_->mask_words();
  memset(mask.data() + words, 0, (mask.size() - words) * sizeof(uint64_t));
  if (const Status s = masks_->fill(at_, mask.sub(0, words)); s != kOk) return s;
  if (names_tokens_)
    if (const Status s = add_numbers(mask.sub(0, words)); s != kOk) return s;
  if (can_end())
    for (int32_t id : vocab_->eog())
      if (id >= 0 && id < vocab_->n_vocab()) mask[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
  return kOk;
}

}  // namespace gcrt
