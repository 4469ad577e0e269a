// Three kinds of failure, three ways out:
//   user         the user's file or flag is wrong: one line that names the file, the thing, what was expected
//   unsupported  the input may be fine but this compiler cannot do it: names what, and what would support it
//   internal     our bug: says so, may carry a dump of IR
//
// The innermost code knows what is wrong but rarely where (which file, which tensor, which pass). Callers add
// that on the way out with `with_context("FILE", ...)`; the text reads outermost first: "FILE: tensor 'x':
// ...". Text of user and unsupported errors is always one line that is safe to print on a terminal, whatever
// bytes of a stranger's file it quotes.
//
// The classes have their key functions and every `throw` in error.cc, so code built without RTTI can use
// them.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "compiler/base/strings.h"

namespace gc {

enum class ErrorKind { kUser, kUnsupported, kInternal };

class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message);
  ~Error() override;

  // "context: context: message".
  const char* what() const noexcept override;
  ErrorKind kind() const { return kind_; }
  // Without the contexts.
  const std::string& message() const { return message_; }
  // Puts `context` in front of what is there.
  void add_context(std::string_view context);

 private:
  ErrorKind kind_;
  std::string message_;
  std::string what_;
};

struct UserError : Error {
  explicit UserError(std::string message);
  ~UserError() override;
};

struct UnsupportedError : Error {
  explicit UnsupportedError(std::string message);
  ~UnsupportedError() override;
};

struct InternalError : Error {
  explicit InternalError(std::string message);
  ~InternalError() override;
};

[[noreturn]] void raise(ErrorKind kind, std::string message);
// "<path>: <strerror>"; `doing` is e.g. "cannot open".
[[noreturn]] void throw_errno(int error_number, std::string_view doing, std::string_view path);

template <class... Parts>
[[noreturn]] void throw_user(const Parts&... parts) {
  raise(ErrorKind::kUser, cat(parts...));
}

template <class... Parts>
[[noreturn]] void throw_unsupported(const Parts&... parts) {
  raise(ErrorKind::kUnsupported, cat(parts...));
}

template <class... Parts>
[[noreturn]] void throw_internal(const Parts&... parts) {
  raise(ErrorKind::kInternal, cat(parts...));
}

// Runs f; an Error that leaves it has `context` in front of its text and keeps its type.
template <class F>
decltype(auto) with_context(std::string_view context, F&& f) {
  try {
    return std::forward<F>(f)();
  } catch (Error& error) {
    error.add_context(context);
    throw;
  }
}

// A condition that only a bug of ours can break.
#define GC_CHECK(condition, ...)                                                                        \
  do {                                                                                                  \
    if (!(condition)) [[unlikely]]                                                                      \
      ::gc::throw_internal(__FILE__, ":", __LINE__, ": ", #condition __VA_OPT__(, ": ", ) __VA_ARGS__); \
  } while (0)

}  // namespace gc
