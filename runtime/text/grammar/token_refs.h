#pragma once
// A token by its number, whatever its text is and if it has none, among the bytes that grammars are made of: a byte that no
// text has, then the number in four bytes of six bits. So references to tokens need nothing of automata or machines.
#include <stdint.h>

namespace gcrt {
namespace grammar {

constexpr uint8_t kTokenMark = 0xFF;
constexpr int kTokenBytes = 4;
constexpr uint8_t kTokenLo = 0x80, kTokenHi = 0xBF;
constexpr int32_t kMostTokens = 1 << 24;

inline uint8_t token_byte(int32_t id, int place) {
  return static_cast<uint8_t>(kTokenLo | (id >> (6 * (kTokenBytes - 1 - place)) & 0x3F));
}

}  // namespace grammar
}  // namespace gcrt
