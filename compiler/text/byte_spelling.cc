#include "compiler/text/byte_spelling.h"

#include <array>

namespace gc::text {
namespace {

// Index: code point below 0x144; value: its byte, or -1.
constexpr std::array<std::int16_t, 0x144> make_alphabet() {
  std::array<std::int16_t, 0x144> byte_of{};
  for (auto& b : byte_of) b = -1;
  std::size_t next = 0x100;
  for (std::size_t b = 0; b < 256; ++b) {
    bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    byte_of[printable ? b : next++] = static_cast<std::int16_t>(b);
  }
  return byte_of;
}
constexpr auto kByteOf = make_alphabet();

}  // namespace

std::optional<std::string> unspell_bytes(std::string_view spelled) {
  std::string out;
  out.reserve(spelled.size());
  for (std::size_t i = 0; i < spelled.size();) {
    auto lead = static_cast<unsigned char>(spelled[i++]);
    std::size_t code = lead;
    if (lead >= 0x80) {
      // The alphabet's characters take one or two bytes.
      if (lead < 0xC2 || lead > 0xC5 || i == spelled.size()) return std::nullopt;
      auto low = static_cast<unsigned char>(spelled[i++]);
      if ((low & 0xC0) != 0x80) return std::nullopt;
      code = (lead & 0x1Fu) << 6 | (low & 0x3Fu);
    }
    if (code >= kByteOf.size() || kByteOf[code] < 0) return std::nullopt;
    out += static_cast<char>(kByteOf[code]);
  }
  return out;
}

}  // namespace gc::text
