#pragma once
// What answers which path (routes.def). A route runs on the pool, or where it needs no time on the event loop, and throws
// ApiError for what is wrong with a request.
#include <memory>

#include "runtime/apps/server/api_error.h"
#include "runtime/apps/server/http/exchange.h"
#include "runtime/apps/server/service.h"

namespace gcrt::serve {

#define ROUTE(method, path, where, access, style, function) \
  void route_##function(Service& service, const std::shared_ptr<Exchange>& exchange);
#define ABSENT(method, path, why)
#include "runtime/apps/server/routes.def"
#undef ABSENT
#undef ROUTE

// Throws ApiError for a model that gives embeddings alone.
inline void must_generate(const Service& service) {
  if (service.encoder) not_supported("this model gives embeddings, not text");
}

class Router : public Handler {
 public:
  explicit Router(Service& service) : service_(service) {}

  Refusal refuse(const Request& request) override;
  void handle(std::shared_ptr<Exchange> exchange) override;
  std::string error_body(int status, std::string_view message) override;

 private:
  bool allowed(const Request& request) const;
  Refusal refusal(const Request& request) const;
  Headers cors(const Request& request) const;

  Service& service_;
};

}  // namespace gcrt::serve
