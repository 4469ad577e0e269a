#include "runtime/text/grammar/json.h"

#include "runtime/base/format.h"
#include "runtime/text/utf8.h"

namespace gcrt {
namespace grammar {

class JsonReader {
 public:
  JsonReader(JsonDocument& d, Str s, Span<char> message) : d_(d), s_(s), message_(message) {}

  Status run() {
    if (s_.size() > UINT32_MAX / 2) {
      fault("the text is too long");
      return status_;
    }
    space();
    uint32_t root = 0;
    if (!value(0, kNone, &root)) return status_;
    space();
    if (at_ < s_.size()) fault("unexpected text after the end");
    return status_;
  }

 private:
  using Node = JsonDocument::Node;

  bool fault(const char* what) {
    format_to(message_, "byte ", at_, ": ", what);
    status_ = kErrInput;
    return false;
  }
  bool out_of_memory() {
    status_ = kErrMemory;
    return false;
  }
  char peek() const { return at_ < s_.size() ? s_[at_] : '\0'; }
  void space() {
    while (peek() == ' ' || peek() == '\n' || peek() == '\t' || peek() == '\r') ++at_;
  }

  bool value(int depth, uint32_t parent, uint32_t* out) {
    if (depth > JsonDocument::kMostDepth) return fault("nested too deep");
    const uint32_t n = static_cast<uint32_t>(d_.nodes_.size());
    if (!d_.nodes_.push({JsonKind::kNull, parent, kNone, kNone, 0, 0, 0, 0, 0})) return out_of_memory();
    *out = n;
    switch (peek()) {
      case '{':
        return children(depth, n, JsonKind::kObject, '}');
      case '[':
        return children(depth, n, JsonKind::kArray, ']');
      case '"':
        d_.nodes_[n].kind = JsonKind::kString;
        return string(&d_.nodes_[n].begin, &d_.nodes_[n].bytes);
      case 't':
        return word(n, "true", JsonKind::kTrue);
      case 'f':
        return word(n, "false", JsonKind::kFalse);
      case 'n':
        return word(n, "null", JsonKind::kNull);
      default:
        return number(n);
    }
  }

  bool word(uint32_t n, Str w, JsonKind kind) {
    if (!s_.sub(at_).starts_with(w)) return fault("expected a value");
    at_ += w.size();
    d_.nodes_[n].kind = kind;
    return true;
  }

  bool digits() {
    const size_t begin = at_;
    while (peek() >= '0' && peek() <= '9') ++at_;
    return at_ > begin || fault("expected a value");
  }
  bool number(uint32_t n) {
    const size_t begin = at_;
    if (peek() == '-') ++at_;
    if (peek() == '0')
      ++at_;
    else if (!digits())
      return false;
    if (peek() == '.' && (++at_, !digits())) return false;
    if (peek() == 'e' || peek() == 'E') {
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      if (!digits()) return false;
    }
    d_.nodes_[n].kind = JsonKind::kNumber;
    d_.nodes_[n].begin = static_cast<uint32_t>(d_.text_.size());
    d_.nodes_[n].bytes = static_cast<uint32_t>(at_ - begin);
    return append(d_.text_, s_.sub(begin, at_ - begin)) || out_of_memory();
  }

  bool hex(uint32_t* out) {
    uint32_t v = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = peek();
      const int h = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
      if (h < 0) return fault("expected four hexadecimal digits");
      v = v * 16 + static_cast<uint32_t>(h);
    }
    *out = v;
    return true;
  }
  bool escape() {
    static constexpr char kNames[] = "\"\\/bfnrt", kValues[] = "\"\\/\b\f\n\r\t";
    const char c = peek();
    for (int i = 0; kNames[i]; ++i)
      if (c == kNames[i]) return ++at_, d_.text_.push(kValues[i]) || out_of_memory();
    if (c != 'u') return fault("unknown escape");
    ++at_;
    uint32_t code = 0, low = 0;
    if (!hex(&code)) return false;
    if (code >= 0xD800 && code <= 0xDFFF) {
      if (code > 0xDBFF || !s_.sub(at_).starts_with("\\u")) return fault("half a surrogate pair");
      at_ += 2;
      if (!hex(&low)) return false;
      if (low < 0xDC00 || low > 0xDFFF) return fault("half a surrogate pair");
      code = 0x10000 + ((code - 0xD800) << 10 | (low - 0xDC00));
    }
    return utf8_append(code, d_.text_) || out_of_memory();
  }
  bool string(uint32_t* begin, uint32_t* bytes) {
    const uint32_t from = static_cast<uint32_t>(d_.text_.size());
    ++at_;
    while (peek() != '"') {
      if (at_ >= s_.size()) return fault("a string has no end");
      if (static_cast<uint8_t>(peek()) < 0x20) return fault("a control character in a string");
      if (peek() == '\\') {
        ++at_;
        if (!escape()) return false;
        continue;
      }
      const int n = utf8_next(s_.sub(at_));
      if (n <= 0) return fault("the text is not UTF-8");
      if (!append(d_.text_, s_.sub(at_, static_cast<size_t>(n)))) return out_of_memory();
      at_ += static_cast<size_t>(n);
    }
    ++at_;
    *begin = from;
    *bytes = static_cast<uint32_t>(d_.text_.size()) - from;
    return true;
  }

  bool children(int depth, uint32_t n, JsonKind kind, char close) {
    d_.nodes_[n].kind = kind;
    ++at_;
    space();
    uint32_t last = kNone;
    for (bool more = peek() != close; more;) {
      uint32_t key_begin = 0, key_bytes = 0, child = 0;
      space();
      if (kind == JsonKind::kObject) {
        if (peek() != '"') return fault("expected a key");
        if (!string(&key_begin, &key_bytes)) return false;
        if (d_.nodes_[n].count >= JsonDocument::kMostMembers) return fault("an object has too many members");
        if (d_.find(n, Str(d_.text_.data() + key_begin, key_bytes)) != kNone)
          return fault("a key is there twice");
        space();
        if (peek() != ':') return fault("expected ':'");
        ++at_;
        space();
      }
      if (!value(depth + 1, n, &child)) return false;
      d_.nodes_[child].key_begin = key_begin, d_.nodes_[child].key_bytes = key_bytes;
      (last == kNone ? d_.nodes_[n].first : d_.nodes_[last].next) = child;
      last = child;
      ++d_.nodes_[n].count;
      space();
      more = peek() == ',';
      at_ += more;
    }
    if (peek() != close) return fault(close == '}' ? "expected ',' or '}'" : "expected ',' or ']'");
    ++at_;
    return true;
  }

  JsonDocument& d_;
  Str s_;
  Span<char> message_;
  Status status_ = kOk;
  size_t at_ = 0;
};

Status JsonDocument::parse(Str text, Span<char> message) {
  nodes_.clear(), text_.clear();
  return JsonReader(*this, text, message).run();
}

uint32_t JsonDocument::find(uint32_t n, Str key) const {
  if (n == kNone || nodes_[n].kind != JsonKind::kObject) return kNone;
  for (uint32_t c = first(n); c != kNone; c = next(c))
    if (this->key(c) == key) return c;
  return kNone;
}

}  // namespace grammar
}  // namespace gcrt
