#include "runtime/apps/server/routes.h"

#include <boost/asio/post.hpp>
#include <new>

#include "runtime/apps/server/hosts.h"

namespace gcrt::serve {
namespace {

enum Where { kLoop, kPool };
enum Access { kOpen, kKeyed };
enum Style { kOpenAi, kAnthropic };

struct Row {
  std::string_view method, path;
  Where where;
  Access access;
  Style style;
  void (*run)(Service&, const std::shared_ptr<Exchange>&);
  const char* why_not;  // null: it is there
};

constexpr Row kRows[] = {
#define ROUTE(method, path, where, access, style, function) \
  {method, path, where, access, style, route_##function, nullptr},
#define ABSENT(method, path, why) {method, path, kLoop, kKeyed, kOpenAi, nullptr, why},
#include "runtime/apps/server/routes.def"
#undef ABSENT
#undef ROUTE
};

bool matches(const Row& row, std::string_view path) {
  if (!row.path.ends_with('*')) return row.path == path;
  return path.starts_with(row.path.substr(0, row.path.size() - 1)) && path.size() >= row.path.size();
}

// The first with that path, and the one with that method too; HEAD is GET.
struct Found {
  const Row* path = nullptr;
  const Row* row = nullptr;
};
Found find_route(const Request& request) {
  Found found;
  const std::string_view method = request.method == "HEAD" ? "GET" : std::string_view(request.method);
  for (const Row& row : kRows) {
    if (!matches(row, request.path)) continue;
    if (found.path == nullptr) found.path = &row;
    if (row.method == method) return {found.path, &row};
  }
  return found;
}

// The time does not tell where they differ.
bool same_secret(std::string_view given, std::string_view secret) {
  unsigned different = given.size() != secret.size();
  for (std::size_t i = 0; i < given.size(); ++i)
    different |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(secret[i % secret.size()]);
  return different == 0;
}

std::string error_text(Style style, const ApiError& error) {
  return style == kAnthropic ? anthropic_error(error) : openai_error(error);
}

ApiError what_is_wrong(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const ApiError& e) {
    return e;
  } catch (const std::bad_alloc&) {
    return {500, "server_error", "out of memory"};
  } catch (const std::exception& e) {
    return {500, "server_error", e.what()};
  }
}

void answer(const Row& row, Service& service, const std::shared_ptr<Exchange>& exchange) {
  try {
    row.run(service, exchange);
  } catch (...) {
    const ApiError error = what_is_wrong(std::current_exception());
    Headers extra;
    if (error.retry_seconds != 0) extra.emplace_back("Retry-After", std::to_string(error.retry_seconds));
    exchange->respond(error.status, "application/json", error_text(row.style, error), extra);
  }
}

}  // namespace

bool Router::allowed(const Request& request) const {
  const auto& keys = service_.options.api_keys;
  if (keys.empty()) return true;
  std::string_view given = request.header("authorization");
  if (given.size() >= 7 && (given.starts_with("Bearer ") || given.starts_with("bearer ")))
    given.remove_prefix(7);
  else
    given = request.header("x-api-key");
  bool right = false;
  for (const std::string& key : keys) right = same_secret(given, key) | right;
  return right;
}

Handler::Refusal Router::refuse(const Request& request) {
  Refusal r = refusal(request);
  for (auto& header : cors(request)) r.headers.push_back(std::move(header));
  return r;
}

Handler::Refusal Router::refusal(const Request& request) const {
  const Found found = find_route(request);
  const Style style = found.path != nullptr ? found.path->style : kOpenAi;
  if (!host_allowed(request.header("host"), service_.options.hosts))
    return {403,
            error_text(style, {403, "permission_error",
                               "this server is not called '" + std::string(request.header("host")) +
                                   "': --allowed-host NAME says what else it is called"}),
            {}};
  if (found.path == nullptr)
    return {404, error_text(style, {404, "not_found_error", "there is nothing at " + request.path}), {}};
  if (request.method == "OPTIONS") return {};
  if (found.row == nullptr)
    return {405,
            error_text(style, {405, "invalid_request_error",
                               request.path + " is for " + std::string(found.path->method)}),
            {{"Allow", std::string(found.path->method)}}};
  if (found.row->access == kKeyed && !allowed(request)) {
    const ApiError e(401, "authentication_error", "Incorrect API key provided", "", "invalid_api_key");
    return {401, error_text(style, e), {{"WWW-Authenticate", "Bearer"}}};
  }
  if (found.row->why_not != nullptr)
    return {501,
            error_text(style, {501, "not_supported_error",
                               request.method + " " + request.path +
                                   " is not supported by this server: " + found.row->why_not}),
            {}};
  // Nothing else: other types can be sent by any web page without asking first.
  const std::string_view length = request.header("content-length");
  const bool body = !request.header("transfer-encoding").empty() || (!length.empty() && length != "0");
  if (request.method == "POST" && body && !request.header("content-type").starts_with("application/json"))
    return {
        415, error_text(style, {415, "invalid_request_error", "expected a body of application/json"}), {}};
  return {};
}

void Router::handle(std::shared_ptr<Exchange> exchange) {
  exchange->common_headers() = cors(exchange->request());
  if (exchange->request().method == "OPTIONS")
    return exchange->respond(
        204, "", "",
        {{"Access-Control-Allow-Methods", "GET, POST, OPTIONS"},
         {"Access-Control-Allow-Headers", "authorization, content-type, x-api-key, anthropic-version"},
         {"Access-Control-Max-Age", "600"}});
  const Row& row = *find_route(exchange->request()).row;
  if (row.where == kLoop) return answer(row, service_, exchange);
  boost::asio::post(service_.pool, [&row, this, exchange] { answer(row, service_, exchange); });
}

Headers Router::cors(const Request& request) const {
  const std::string_view origin = request.header("origin");
  if (origin.empty()) return {};
  for (const std::string& allowed : service_.options.cors_origins)
    if (allowed == "*" || allowed == origin)
      return {{"Access-Control-Allow-Origin", allowed == "*" ? "*" : std::string(origin)},
              {"Vary", "Origin"}};
  return {};
}

std::string Router::error_body(int status, std::string_view message) {
  return openai_error(
      {status, status >= 500 ? "server_error" : "invalid_request_error", std::string(message)});
}

}  // namespace gcrt::serve
