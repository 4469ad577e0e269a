#pragma once
// Keys from the bytes that a terminal sends: characters, control characters, and the escape sequences of xterm and its
// descendants (which is what terminals of today speak; the codes of older ones would need a terminfo database beside
// the program).
#include <stdint.h>

#include "runtime/base/span.h"

namespace gcrt {

enum class Key : uint8_t {
  kChar,     // Press::code
  kControl,  // Press::code is the letter, 'A' to 'Z'
  kAlt,      // Press::code is the character
  kEnter,
  kTab,
  kBackspace,
  kDelete,
  kUp,
  kDown,
  kLeft,
  kRight,
  kWordLeft,
  kWordRight,
  kHome,
  kEnd,
  kPasteBegin,
  kPasteEnd,
  kOther,  // a sequence that means nothing here
};

struct Press {
  Key key = Key::kOther;
  uint32_t code = 0;
};

class KeyDecoder {
 public:
  // Takes the next byte. True when it completes a key.
  bool push(uint8_t byte, Press* press);

 private:
  enum class State : uint8_t { kGround, kEscape, kCsi, kSs3, kCharacter };
  bool ground(uint8_t byte, Press* press);
  bool escape(uint8_t byte, Press* press);
  bool csi(uint8_t byte, Press* press);
  bool character(uint8_t byte, Press* press);

  State state_ = State::kGround;
  bool alt_ = false;
  char bytes_[4] = {};  // of a character
  int n_bytes_ = 0;
  uint32_t numbers_[2] = {};
  int n_numbers_ = 0;
};

}  // namespace gcrt
