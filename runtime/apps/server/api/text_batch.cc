#include "runtime/apps/server/api/text_batch.h"

#include <boost/asio/post.hpp>

#include "runtime/apps/server/generation.h"

namespace gcrt::serve {

TextBatch::TextBatch(Service& service, std::shared_ptr<Exchange> exchange, std::vector<Prompt> texts,
                     bool normalize, Say say)
    : service_(service),
      exchange_(std::move(exchange)),
      texts_(std::move(texts)),
      normalize_(normalize),
      say_(std::move(say)),
      results_(texts_.size()),
      running_(texts_.size()) {}

std::size_t TextBatch::n_tokens() const {
  std::size_t n = 0;
  for (const Prompt& p : texts_) n += p.ids.size();
  return n;
}

void TextBatch::start() {
  exchange_->on_gone([weak = weak_from_this()] {
    const auto batch = weak.lock();
    if (!batch) return;
    std::vector<std::uint64_t> ids;
    {
      const std::lock_guard lock(batch->mutex_);
      batch->gone_ = true;
      ids = batch->ids_;
    }
    for (const std::uint64_t id : ids) batch->service_.engine->cancel(id);
  });
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    BatchRequest r;
    r.kind = BatchRequest::kEmbed;
    r.prompt = {texts_[i].ids.data(), texts_[i].ids.size()};
    r.pooling = service_.facts.pooling;
    r.normalize = normalize_;
    r.user = new One{shared_from_this(), i};
    r.on_end = [](void* user, const EndEvent& event) {
      const std::unique_ptr<One> one(static_cast<One*>(user));
      one->batch->ended(one->index, event);
    };
    std::string message;
    std::uint64_t id = 0;
    const Status s = service_.engine->submit(r, &id, &message);
    const std::lock_guard lock(mutex_);
    if (s == kOk) {
      ids_.push_back(id);
      if (!gone_) continue;
      service_.engine->cancel(id);
    } else {
      delete static_cast<One*>(r.user);
      if (status_ == kOk) status_ = s, failed_ = i, message_ = message;
      --running_;
    }
    running_ -= texts_.size() - i - 1;
    if (running_ == 0) finish();
    return;
  }
}

// On the engine's thread.
void TextBatch::ended(std::size_t index, const EndEvent& event) {
  const std::lock_guard lock(mutex_);
  results_[index].assign(event.embeddings.begin(), event.embeddings.end());
  if (event.status != kOk && status_ == kOk) {
    status_ = event.status;
    failed_ = index;
    message_.assign(event.message.ptr, event.message.len);
  }
  if (--running_ == 0) finish();
}

// With the lock; nothing changes any more.
void TextBatch::finish() {
  boost::asio::post(service_.pool, [self = shared_from_this()] {
    if (self->status_ != kOk) {
      const std::size_t n = self->texts_[self->failed_].ids.size();
      const ApiError e = engine_error(self->service_, n, self->status_, self->message_);
      Headers extra;
      if (e.retry_seconds != 0) extra.emplace_back("Retry-After", std::to_string(e.retry_seconds));
      return self->exchange_->respond(e.status, "application/json", openai_error(e), extra);
    }
    self->exchange_->respond(200, "application/json", dump(self->say_(*self)));
  });
}

}  // namespace gcrt::serve
