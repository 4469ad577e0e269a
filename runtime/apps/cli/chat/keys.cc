#include "runtime/apps/cli/chat/keys.h"

#include "runtime/text/utf8.h"

namespace gcrt {

bool KeyDecoder::push(uint8_t byte, Press* press) {
  switch (state_) {
    case State::kGround:
      return ground(byte, press);
    case State::kEscape:
      return escape(byte, press);
    case State::kCsi:
    case State::kSs3:
      return csi(byte, press);
    case State::kCharacter:
      return character(byte, press);
  }
  return false;
}

bool KeyDecoder::ground(uint8_t byte, Press* press) {
  constexpr uint8_t kEscapeByte = 0x1B;
  alt_ = false;
  if (byte == kEscapeByte) {
    state_ = State::kEscape;
    return false;
  }
  if (byte >= 0x80) {
    n_bytes_ = 0;
    return character(byte, press);
  }
  if (byte == '\r')
    *press = {Key::kEnter};
  else if (byte == '\t')
    *press = {Key::kTab};
  else if (byte == 0x7F || byte == '\b')
    *press = {Key::kBackspace};
  else if (byte >= 0x20)
    *press = {Key::kChar, byte};
  else if (byte >= 1 && byte <= 26)
    *press = {Key::kControl, static_cast<uint32_t>('A' + byte - 1)};
  else
    *press = {Key::kOther};
  return true;
}

bool KeyDecoder::escape(uint8_t byte, Press* press) {
  if (byte == '[' || byte == 'O') {
    state_ = byte == '[' ? State::kCsi : State::kSs3;
    n_numbers_ = 0;
    numbers_[0] = numbers_[1] = 0;
    return false;
  }
  state_ = State::kGround;
  if (byte == 0x1B) {  // the escape key, twice
    state_ = State::kEscape;
    return false;
  }
  if (byte >= 0x80) {
    n_bytes_ = 0;
    alt_ = true;
    return character(byte, press);
  }
  const bool enter = byte == '\r' || byte == '\n', erase = byte == 0x7F || byte == '\b';
  *press = {Key::kAlt, enter ? '\n' : erase ? '\b' : static_cast<uint32_t>(byte)};
  return true;
}

// "ESC [ 1 ; 5 D": numbers, then a letter or '~'. After "ESC O" it is the letter alone.
bool KeyDecoder::csi(uint8_t byte, Press* press) {
  if (byte >= '0' && byte <= '9') {
    uint32_t& n = numbers_[n_numbers_ < 2 ? n_numbers_ : 1];
    n = n < 100000 ? 10 * n + (byte - '0') : n;
    return false;
  }
  if (byte == ';') {
    ++n_numbers_;
    return false;
  }
  if (byte < 0x40 && byte >= 0x20) return false;  // intermediate bytes of sequences that mean nothing here
  state_ = State::kGround;
  const bool modified = numbers_[1] > 1;
  Key key = Key::kOther;
  switch (byte) {
    case 'A':
      key = Key::kUp;
      break;
    case 'B':
      key = Key::kDown;
      break;
    case 'C':
      key = modified ? Key::kWordRight : Key::kRight;
      break;
    case 'D':
      key = modified ? Key::kWordLeft : Key::kLeft;
      break;
    case 'H':
      key = Key::kHome;
      break;
    case 'F':
      key = Key::kEnd;
      break;
    case '~':
      switch (numbers_[0]) {
        case 1:
        case 7:
          key = Key::kHome;
          break;
        case 3:
          key = Key::kDelete;
          break;
        case 4:
        case 8:
          key = Key::kEnd;
          break;
        case 200:
          key = Key::kPasteBegin;
          break;
        case 201:
          key = Key::kPasteEnd;
          break;
        default:
          break;
      }
      break;
    default:
      break;
  }
  *press = {key};
  return true;
}

bool KeyDecoder::character(uint8_t byte, Press* press) {
  state_ = State::kCharacter;
  bytes_[n_bytes_++] = static_cast<char>(byte);
  const int n = utf8_next(Str(bytes_, static_cast<size_t>(n_bytes_)));
  if (n == 0) return false;
  state_ = State::kGround;
  if (n < 0 && n_bytes_ > 1) return ground(byte, press);  // what was there is no character: it is let go
  *press = {alt_ ? Key::kAlt : Key::kChar, n > 0 ? utf8_decode(bytes_, n) : 0xFFFD};
  return true;
}

}  // namespace gcrt
