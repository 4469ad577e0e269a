#include "compiler/base/strings.h"

#include <cstdio>

namespace gc {
namespace {

// Characters that a terminal obeys or that hide or reorder their neighbours.
bool is_unsafe(std::uint32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x61c || (c >= 0x200b && c <= 0x200f) ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff ||
         (c >= 0xfff9 && c <= 0xfffb) || (c >= 0xe0000 && c <= 0xe007f);
}

void append_hex(std::string& out, const char* form, std::uint32_t value) {
  char buffer[16];
  std::snprintf(buffer, sizeof buffer, form, value);
  out += buffer;
}

std::string escape(std::string_view text, bool quoting, std::size_t max_bytes) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= max_bytes) return out + "...";
    std::uint32_t c = 0;
    std::size_t length = utf8_char(text, &c);
    if (length == 0) {
      append_hex(out, "\\x%02x", static_cast<unsigned char>(text[0]));
      length = 1;
    } else if (c == '\n' || c == '\t' || c == '\r') {
      out += c == '\n' ? "\\n" : c == '\t' ? "\\t" : "\\r";
    } else if (is_unsafe(c)) {
      append_hex(out, c < 0x80 ? "\\x%02x" : "\\u{%04x}", c);
    } else {
      if (quoting && (c == '\\' || c == '\'')) out += '\\';
      out += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return out;
}

}  // namespace

std::size_t utf8_char(std::string_view text, std::uint32_t* code_point) {
  if (text.empty()) return 0;
  auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  std::size_t length = lead < 0x80   ? 1
                       : lead < 0xc2 ? 0
                       : lead < 0xe0 ? 2
                       : lead < 0xf0 ? 3
                       : lead < 0xf5 ? 4
                                     : 0;
  if (length == 0 || text.size() < length) return 0;
  std::uint32_t c = length == 1 ? lead : lead & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    c = c << 6 | (byte(i) & 0x3f);
  }
  const bool overlong = (length == 3 && c < 0x800) || (length == 4 && c < 0x10000);
  if (overlong || (c >= 0xd800 && c < 0xe000) || c > 0x10ffff) return 0;
  if (code_point != nullptr) *code_point = c;
  return length;
}

std::string escape_controls(std::string_view text) {
  return escape(text, false, static_cast<std::size_t>(-1));
}

std::string quote(std::string_view text, std::size_t max_bytes) {
  return "'" + escape(text, true, max_bytes) + "'";
}

std::string human_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return cat(bytes, " B");
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.1f %s", value, kUnits[unit]);
  return buffer;
}

}  // namespace gc
