#pragma once
// JSON of requests and responses: Boost.JSON. It comes with the HTTP library, keeps members in their order, checks UTF-8 and
// limits depth while it reads; the runtime's own readers (text/jinja, text/grammar) make values of templates and schemas.
#include <boost/json.hpp>
#include <string>
#include <string_view>

#include "runtime/base/span.h"

namespace gcrt::serve {

namespace json = boost::json;

// Throws ApiError: not JSON, too deep, a key that is there twice.
json::value parse_json(std::string_view text);
std::string dump(const json::value& value);
// Bytes that are no UTF-8 become U+FFFD: what models say need not be text.
json::string text_value(std::string_view bytes);

// The number that a float is written as: 0.95 and not 0.949999988079071.
double float_value(float x);

// A member that is there and not null.
const json::value* find(const json::object& object, std::string_view key);

inline std::string_view view(Str s) { return {s.ptr, s.len}; }
inline Str str(std::string_view s) { return {s.data(), s.size()}; }

}  // namespace gcrt::serve
