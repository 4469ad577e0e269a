#include "runtime/apps/server/grammars.h"

#include <new>

#include "runtime/apps/server/api_error.h"

namespace gcrt::serve {

Constraint::Constraint(std::shared_ptr<const Grammar> grammar, const GrammarVocab& vocab)
    : grammar_(std::move(grammar)), mask_(vocab.mask_words()) {
  Status s = state_.init(grammar_.get(), &vocab);
  if (s == kOk) s = state_.prepare();
  if (s == kErrFull) bad_request("the grammar is ambiguous beyond reason", "grammar");
  if (s != kOk) throw std::bad_alloc();
}

TokenConstraint Constraint::hooks() {
  TokenConstraint c;
  c.self = this;
  c.begin = [](void* self) -> Status {
    static_cast<Constraint*>(self)->state_.reset();
    return kOk;
  };
  c.mask = [](void* self, const std::uint64_t** mask) -> Status {
    auto* c = static_cast<Constraint*>(self);
    *mask = nullptr;
    if (c->suspended_) return kOk;
    *mask = c->mask_.data();
    return c->state_.fill_mask({c->mask_.data(), c->mask_.size()});
  };
  c.accept = [](void* self, std::int32_t token) -> Status {
    auto* c = static_cast<Constraint*>(self);
    return c->suspended_ ? kOk : c->state_.accept_token(token);
  };
  return c;
}

std::unique_ptr<Constraint> Grammars::make(Kind kind, const std::string& text, const std::string& param) {
  if (!tokenizer_.available()) bad_request("this model has no tokenizer, which a grammar needs", param);
  std::shared_ptr<const Grammar> grammar;
  {
    const std::lock_guard lock(mutex_);
    if (!has_vocab_ && vocab_.init(tokenizer_) != kOk) throw std::bad_alloc();
    has_vocab_ = true;
    for (auto e = entries_.begin(); e != entries_.end() && !grammar; ++e) {
      if (e->kind != kind || e->text != text) continue;
      grammar = e->grammar;
      entries_.splice(entries_.begin(), entries_, e);
      break;
    }
  }
  if (!grammar) {
    auto fresh = std::make_shared<Grammar>();
    char message[512] = "";
    const Status s = kind == Kind::kGbnf ? fresh->compile_gbnf(str(text), message, &tokenizer_)
                                         : fresh->compile_json_schema(str(text), message);
    const std::string what = kind == Kind::kGbnf ? "the grammar: " : "the JSON schema: ";
    if (s == kErrMemory) throw std::bad_alloc();
    if (s != kOk) bad_request(what + (message[0] != 0 ? message : "too large"), param);
    if (fresh->allows_nothing()) bad_request(what + "it allows nothing", param);
    grammar = std::move(fresh);
    const std::lock_guard lock(mutex_);
    entries_.push_front({kind, text, grammar});
    if (entries_.size() > kKept) entries_.pop_back();
  }
  return std::make_unique<Constraint>(std::move(grammar), vocab_);
}

}  // namespace gcrt::serve
