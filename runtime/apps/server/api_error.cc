#include "runtime/apps/server/api_error.h"

namespace gcrt::serve {

std::string openai_error(const ApiError& error) {
  json::object e{{"message", text_value(error.message)}, {"type", error.type}};
  e["param"] = error.param.empty() ? json::value(nullptr) : json::value(text_value(error.param));
  e["code"] = error.code.empty() ? json::value(nullptr) : json::value(error.code);
  for (const auto& member : error.more) e[member.key()] = member.value();
  return dump(json::object{{"error", e}});
}

std::string anthropic_error(const ApiError& error) {
  const char* type = "invalid_request_error";
  switch (error.status) {
    case 401:
      type = "authentication_error";
      break;
    case 403:
      type = "permission_error";
      break;
    case 404:
      type = "not_found_error";
      break;
    case 413:
      type = "request_too_large";
      break;
    case 429:
      type = "rate_limit_error";
      break;
    case 503:
      type = "overloaded_error";
      break;
    default:
      if (error.status >= 500) type = "api_error";
  }
  return dump(
      json::object{{"type", "error"}, {"error", {{"type", type}, {"message", text_value(error.message)}}}});
}

}  // namespace gcrt::serve
