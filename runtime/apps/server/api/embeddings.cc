// POST /v1/embeddings
#include <boost/asio/post.hpp>
#include <boost/beast/core/detail/base64.hpp>
#include <mutex>

#include "runtime/apps/server/api/openai.h"
#include "runtime/apps/server/fields.h"
#include "runtime/apps/server/plan.h"
#include "runtime/apps/server/routes.h"

namespace gcrt::serve {
namespace {

// The texts of one request, each a request of the engine.
class Batch : public std::enable_shared_from_this<Batch> {
 public:
  Batch(Service& service, std::shared_ptr<Exchange> exchange, bool base64, bool normalize,
        std::vector<Prompt> prompts)
      : service_(service),
        exchange_(std::move(exchange)),
        base64_(base64),
        normalize_(normalize),
        prompts_(std::move(prompts)),
        results_(prompts_.size()),
        running_(prompts_.size()) {}

  // Throws ApiError.
  void start();

 private:
  struct One {
    std::shared_ptr<Batch> batch;
    std::size_t index;
  };
  void ended(std::size_t index, const EndEvent& event);
  void finish(Status status, const std::string& message);
  json::value shown(const std::vector<float>& x) const;

  Service& service_;
  std::shared_ptr<Exchange> exchange_;
  bool base64_, normalize_;
  std::vector<Prompt> prompts_;
  std::vector<std::vector<float>> results_;
  std::mutex mutex_;  // of what follows
  std::vector<std::uint64_t> ids_;
  std::size_t running_;
  Status status_ = kOk;
  std::string message_;
  bool gone_ = false;
};

void Batch::start() {
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
  for (std::size_t i = 0; i < prompts_.size(); ++i) {
    BatchRequest r;
    r.kind = BatchRequest::kEmbed;
    r.prompt = {prompts_[i].ids.data(), prompts_[i].ids.size()};
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
      if (status_ == kOk) status_ = s, message_ = message;
      --running_;
    }
    running_ -= prompts_.size() - i - 1;
    if (running_ == 0) finish(status_, message_);
    return;
  }
}

// On the engine's thread.
void Batch::ended(std::size_t index, const EndEvent& event) {
  const std::lock_guard lock(mutex_);
  results_[index].assign(event.embeddings.begin(), event.embeddings.end());
  if (event.status != kOk && status_ == kOk) {
    status_ = event.status;
    message_.assign(event.message.ptr, event.message.len);
  }
  if (--running_ == 0) finish(status_, message_);
}

json::value Batch::shown(const std::vector<float>& x) const {
  if (base64_) {
    namespace base64 = boost::beast::detail::base64;
    std::string text(base64::encoded_size(x.size() * sizeof(float)), 0);
    text.resize(base64::encode(text.data(), x.data(), x.size() * sizeof(float)));
    return json::value(text);
  }
  json::array out;
  for (const float v : x) out.push_back(float_value(v));
  return out;
}

void Batch::finish(Status status, const std::string& message) {
  boost::asio::post(service_.pool, [self = shared_from_this(), status, message] {
    if (status != kOk) {
      const ApiError e = engine_error(self->service_, 0, status, message);
      Headers extra;
      if (e.retry_seconds != 0) extra.emplace_back("Retry-After", std::to_string(e.retry_seconds));
      return self->exchange_->respond(e.status, "application/json", openai_error(e), extra);
    }
    json::array data;
    std::size_t tokens = 0;
    for (std::size_t i = 0; i < self->results_.size(); ++i) {
      data.push_back(
          json::object{{"object", "embedding"}, {"index", i}, {"embedding", self->shown(self->results_[i])}});
      tokens += self->prompts_[i].ids.size();
    }
    self->exchange_->respond(
        200, "application/json",
        dump(json::object{{"object", "list"},
                          {"data", std::move(data)},
                          {"model", self->service_.options.model},
                          {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}}));
  });
}

}  // namespace

void route_embeddings(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const Params p = read_params(parse_json(exchange->request().body), kEmbedding, service.options.sampling);
  if (!service.encoder || service.facts.scores != 0) not_supported("this model gives no embeddings of texts");
  if (service.facts.pooling == GC_POOLING_NONE)
    not_supported("this model's embeddings are of tokens, not of texts");
  if (p.encoding_format != "float" && p.encoding_format != "base64")
    bad_request("'encoding_format': expected float or base64", "encoding_format");
  if (p.dimensions != 0 && p.dimensions != service.n_output)
    bad_request("'dimensions': this model has " + std::to_string(service.n_output) + ", and no others",
                "dimensions");
  if (p.normalize != -1 && p.normalize != 2)
    bad_request("'embd_normalize': expected 2 (to length 1) or -1 (not at all)", "embd_normalize");
  // Texts here are data: no control token is read from them.
  std::vector<Prompt> prompts = read_prompts(service, p.prompt, "input", false);
  std::make_shared<Batch>(service, exchange, p.encoding_format == "base64", p.normalize == 2,
                          std::move(prompts))
      ->start();
}

}  // namespace gcrt::serve
