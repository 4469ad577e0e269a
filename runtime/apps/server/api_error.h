#pragma once
// What is wrong with a request, as every API says it. Thrown where it is found, caught where the response is made.
#include <exception>
#include <string>
#include <utility>

#include "runtime/apps/server/json.h"

namespace gcrt::serve {

struct ApiError : std::exception {
  ApiError(int status, std::string type, std::string message, std::string param = "", std::string code = "")
      : status(status),
        type(std::move(type)),
        message(std::move(message)),
        param(std::move(param)),
        code(std::move(code)) {}
  const char* what() const noexcept override { return message.c_str(); }

  int status;
  std::string type, message;
  std::string param;      // the field
  std::string code;       // OpenAI's, where clients look for one
  json::object more;      // further members
  int retry_seconds = 0;  // Retry-After
};

[[noreturn]] inline void bad_request(std::string message, std::string param = "", std::string code = "") {
  throw ApiError(400, "invalid_request_error", std::move(message), std::move(param), std::move(code));
}
[[noreturn]] inline void not_supported(std::string message, std::string param = "") {
  throw ApiError(501, "not_supported_error", std::move(message), std::move(param));
}

// {"error": {"message", "type", "param", "code"}}
std::string openai_error(const ApiError& error);
// {"type": "error", "error": {"type", "message"}}
std::string anthropic_error(const ApiError& error);

}  // namespace gcrt::serve
