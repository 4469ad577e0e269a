#pragma once
// The texts of one request to an encoder, each a request of the engine; the answer is made when all have ended.
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/apps/server/http/exchange.h"
#include "runtime/apps/server/prompt.h"
#include "runtime/apps/server/service.h"

namespace gcrt::serve {

class TextBatch : public std::enable_shared_from_this<TextBatch> {
 public:
  // From results as the model gives them, f32[embeddings of text i, n_output], to a body. Runs on the pool.
  using Say = std::function<json::value(const TextBatch& batch)>;

  // `normalize`: embeddings become of length 1.
  TextBatch(Service& service, std::shared_ptr<Exchange> exchange, std::vector<Prompt> texts, bool normalize,
            Say say);
  // Throws ApiError.
  void start();

  const Service& service() const { return service_; }
  std::size_t size() const { return texts_.size(); }
  const std::vector<float>& result(std::size_t i) const { return results_[i]; }
  std::size_t n_tokens() const;

 private:
  struct One {
    std::shared_ptr<TextBatch> batch;
    std::size_t index;
  };
  void ended(std::size_t index, const EndEvent& event);
  void finish();

  Service& service_;
  std::shared_ptr<Exchange> exchange_;
  std::vector<Prompt> texts_;
  bool normalize_;
  Say say_;
  std::vector<std::vector<float>> results_;
  std::mutex mutex_;  // of what follows
  std::vector<std::uint64_t> ids_;
  std::size_t running_;
  Status status_ = kOk;
  std::size_t failed_ = 0;  // the text that status_ is of
  std::string message_;
  bool gone_ = false;
};

}  // namespace gcrt::serve
