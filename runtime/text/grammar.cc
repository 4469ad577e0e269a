#include "runtime/text/grammar.h"

#include "runtime/base/format.h"
#include "runtime/text/grammar/gbnf.h"
#include "runtime/text/grammar/schema.h"

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

Status Grammar::compile_gbnf(Str text, Span<char> message) {
  compiled_ = false;
  grammar::Network network(allocator_);
  uint32_t root = 0;
  const Status s = grammar::parse_gbnf(text, network, &root, message);
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
  if (vocab) masks_ = make<grammar::Masks>(allocator_, *machine_, *vocab, allocator_);
  return vocab && !masks_ ? kErrMemory : kOk;
}

Status GrammarState::accept_bytes(Str bytes) {
  for (char c : bytes) {
    if (at_ == grammar::kDead) break;
    at_ = machine_->step(at_, static_cast<uint8_t>(c));
  }
  if (machine_->status() != kOk) return machine_->status();
  if (machine_->bytes() > kMostBytes && at_ != grammar::kDead) {
    at_ = machine_->collect(at_);
    ++collections_;
    if (masks_) masks_->forget_situations();
  }
  return at_ == grammar::kDead ? kErrInput : kOk;
}

Status GrammarState::accept_token(int32_t id) {
  if (!vocab_ || id < 0 || id >= vocab_->n_vocab()) return kErrArgument;
  if (vocab_->is_eog(id)) return can_end() ? kOk : kErrInput;
  const Str text = vocab_->text(id);
  if (text.empty()) {
    at_ = grammar::kDead;
    return kErrInput;
  }
  return accept_bytes(text);
}

Status GrammarState::fill_mask(Span<uint64_t> mask) {
  if (!masks_ || mask.size() < vocab_->mask_words()) return kErrArgument;
  const size_t words = vocab_->mask_words();
  memset(mask.data() + words, 0, (mask.size() - words) * sizeof(uint64_t));
  if (const Status s = masks_->fill(at_, mask.sub(0, words)); s != kOk) return s;
  if (can_end())
    for (int32_t id : vocab_->eog())
      if (id >= 0 && id < vocab_->n_vocab()) mask[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
  return kOk;
}

}  // namespace gcrt
