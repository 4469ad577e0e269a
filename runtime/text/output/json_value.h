#pragma once
// One value, read as it arrives and written as JSON at once. What models write where a value belongs: JSON; Python
// (single quotes, True, None, tuples), which they mix with JSON; or Gemma's notation with keys bare and text between
// <|"|>. JSON keeps its spacing, so that a value of JSON comes out byte for byte.
//
// What is written is a prefix of valid JSON at any time, with one exception: control characters inside a JSON string,
// which JSON forbids and models write. Whether they are meant (then they become escapes) or the string was never
// closed (then all that follows is shown as it came) is known at the closing quote, so such a string is held until
// then.
#include <stdint.h>

#include "runtime/base/allocator.h"
#include "runtime/base/span.h"
#include "runtime/base/vec.h"

namespace gcrt {

class JsonValue {
 public:
  enum class Dialect : uint8_t { kJson, kLoose, kGemma };
  enum class Root : uint8_t {
    kAny,
    kObject,  // nothing but an object
    kOpened,  // an object whose brace has been written already; it may come as a JSON string of an object, or as null
  };
  enum class Result : uint8_t { kDone, kMore, kBad, kMemory };

  explicit JsonValue(Allocator a = libc_allocator()) : space_(a), held_(a) {}
  void begin(Dialect dialect, Root root);
  // Reads from `text`, as far as the value goes, and appends to `out`. `*used`: bytes of `text` that are done with.
  // A number ends at what cannot belong to it, or when `final` says that nothing follows.
  Result read(Str text, bool final, size_t* used, Vec<char>& out);
  // The text ended inside the value: appends what was held.
  [[nodiscard]] bool flush(Vec<char>& out);
  // The first character of the value: '{', '[', '"', '0' (a number), 't', 'n' (null); 0 before there is one.
  char kind() const { return kind_; }
  bool begun() const { return kind_ != 0; }

 private:
  enum class Expect : uint8_t { kValue, kFirstItem, kFirstKey, kKey, kColon, kNext, kEnd };
  enum class Lex : uint8_t { kNone, kString, kEscape, kUnicode, kNumber, kWord, kBareKey };
  static constexpr int kMaxDepth = 100;

  Result feed(char c, Vec<char>& out, bool* used);
  Result token(char c, Vec<char>& out);
  Result next(char c, Vec<char>& out);
  Result in_string(char c, Vec<char>& out);
  Result in_escape(char c, Vec<char>& out);
  Result in_number(char c, Vec<char>& out, bool* used);
  Result in_word(char c, Vec<char>& out);
  Result unwrap(char c, Vec<char>& out);
  Result open_string(char quote, Vec<char>& out);
  Result close_string(Vec<char>& out);
  Result open(char c, Vec<char>& out);
  Result close(char c, Vec<char>& out);
  Result value_done();
  bool put_space(Vec<char>& out);
  bool number_ends() const { return digits_ == 2 || digits_ == 3 || digits_ == 5 || digits_ == 8; }
  Vec<char>& target(Vec<char>& out) { return holding_ ? held_ : out; }

  Dialect dialect_ = Dialect::kJson;
  Root root_ = Root::kAny;
  Expect expect_ = Expect::kValue;
  Lex lex_ = Lex::kNone;
  char kind_ = 0;
  char quote_ = 0;
  bool key_ = false;      // the string is a key
  bool holding_ = false;  // the string has control characters
  bool wrapped_ = false, wrap_escape_ = false;
  uint8_t digits_ = 0;  // state of a number; digits left of \u
  uint8_t word_bytes_ = 0;
  char word_[8] = {};
  uint32_t wrap_code_ = 0;
  uint8_t wrap_digits_ = 0;
  int depth_ = 0;
  char stack_[kMaxDepth] = {};
  Vec<char> space_, held_;
};

// Appends `text` as the inside of a JSON string.
[[nodiscard]] bool append_json_inside(Vec<char>& out, Str text);
// Is `text` one value of the dialect and nothing else? Then it is appended to `out` as JSON, and `*kind` is as above.
JsonValue::Result whole_json(Str text, JsonValue::Dialect dialect, Vec<char>& out, char* kind);

// ---- Walking JSON that is known to be valid ----
Str json_trim(Str s);
// The value that begins at s[0], after white space.
Str json_first(Str s);
// The next member of an object or element of an array; `*at` starts as 0. Keys keep their quotes.
bool json_member(Str object, size_t* at, Str* key, Str* value);
bool json_element(Str array, size_t* at, Str* value);
// The value of a member, empty when there is none.
Str json_find(Str object, Str key);
// Is this token the string `text`?
bool json_is_string(Str token, Str text);
// Appends the text of a string token.
[[nodiscard]] bool json_unescape(Str token, Vec<char>& out);

}  // namespace gcrt
