// Text for people: concatenation, joining, sizes, and strings of unknown origin made safe to print.
//
// A model file is written by strangers: its keys, names and templates may hold escape sequences that move the
// cursor, retitle the terminal or reverse the direction of text. Whatever quotes such a string goes through
// `quote` (with quotes, shortened) or `escape_controls` (whole, no quotes).
#pragma once

#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>

namespace gc {

namespace internal {

template <class T>
void append_part(std::string& out, const T& part) {
  if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    out += std::string_view(part);
  } else if constexpr (std::is_same_v<T, char>) {
    out += part;
  } else if constexpr (std::is_same_v<T, bool>) {
    out += part ? "true" : "false";
  } else if constexpr (std::is_integral_v<T>) {  // std::int8_t is a number here, not a character
    out += std::to_string(part);
  } else {
    std::ostringstream stream;
    stream.imbue(std::locale::classic());
    stream << part;
    out += stream.str();
  }
}

}  // namespace internal

// The parts one after the other; numbers in decimal, anything else by its operator<<.
template <class... Parts>
std::string cat(const Parts&... parts) {
  std::string out;
  (internal::append_part(out, parts), ...);
  return out;
}

template <class Range>
std::string join(const Range& range, std::string_view separator) {
  std::string out;
  bool first = true;
  for (const auto& item : range) {
    if (!first) out += separator;
    first = false;
    internal::append_part(out, item);
  }
  return out;
}

inline constexpr std::size_t kWholePath = 4096;

// `text` with control characters (C0, C1, DEL), characters that change the direction of text or are
// invisible, and bytes that are no UTF-8 as \n, \t, \r, \xNN or \u{NNNN}. Everything else as it is.
std::string escape_controls(std::string_view text);

// 'text': as above, with backslash and quote escaped too, cut after about max_bytes with "..." inside the
// quotes.
std::string quote(std::string_view text, std::size_t max_bytes = 120);

// "512 B", "1.5 KiB", "241.4 MiB".
std::string human_bytes(std::uint64_t bytes);

// Length in bytes (1-4) of the well-formed UTF-8 character at the start of `text`, 0 when there is none; its
// code point goes to *code_point unless that is null.
std::size_t utf8_char(std::string_view text, std::uint32_t* code_point);

}  // namespace gc
