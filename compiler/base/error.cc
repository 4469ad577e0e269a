#include "compiler/base/error.h"

#include <system_error>

namespace gc {
namespace {

// An internal error may hold a dump of several lines; the others are one safe line.
std::string presentable(ErrorKind kind, std::string message) {
  return kind == ErrorKind::kInternal ? std::move(message) : escape_controls(message);
}

}  // namespace

Error::Error(ErrorKind kind, std::string message)
    : kind_(kind), message_(presentable(kind, std::move(message))), what_(message_) {}
Error::~Error() = default;
const char* Error::what() const noexcept { return what_.c_str(); }
void Error::add_context(std::string_view context) { what_ = cat(escape_controls(context), ": ", what_); }

UserError::UserError(std::string message) : Error(ErrorKind::kUser, std::move(message)) {}
UserError::~UserError() = default;
UnsupportedError::UnsupportedError(std::string message)
    : Error(ErrorKind::kUnsupported, std::move(message)) {}
UnsupportedError::~UnsupportedError() = default;
InternalError::InternalError(std::string message) : Error(ErrorKind::kInternal, std::move(message)) {}
InternalError::~InternalError() = default;

void raise(ErrorKind kind, std::string message) {
  switch (kind) {
    case ErrorKind::kUser:
      throw UserError(std::move(message));
    case ErrorKind::kUnsupported:
      throw UnsupportedError(std::move(message));
    case ErrorKind::kInternal:
      throw InternalError(std::move(message));
  }
  __builtin_unreachable();
}

void throw_errno(int error_number, std::string_view doing, std::string_view path) {
  throw_user(doing, " ", quote(path, kWholePath), ": ", std::generic_category().message(error_number));
}

}  // namespace gc
