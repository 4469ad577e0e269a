#pragma once
// A JSON document as a tree in one array, for schemas: numbers keep their text, strings are decoded. RFC 8259, UTF-8 checked,
// at most kMostDepth deep; a key that is there twice is an error.
//
// Chat templates have a reader of their own (jinja/json.cc), which makes values of a running template in its arena and
// turns numbers into doubles; a schema's bounds need every digit.
#include <stdint.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/base/vec.h"
#include "runtime/text/grammar/interner.h"

namespace gcrt {
namespace grammar {

enum class JsonKind : uint8_t { kNull, kFalse, kTrue, kNumber, kString, kArray, kObject };

class JsonDocument {
 public:
  static constexpr int kMostDepth = 256;
  static constexpr uint32_t kMostMembers = 16384;  // of an object: keys are found by looking at each

  explicit JsonDocument(Allocator a) : nodes_(a), text_(a) {}

  // kErrInput: `message` says "byte N: what is wrong".
  Status parse(Str text, Span<char> message);

  size_t size() const { return nodes_.size(); }
  JsonKind kind(uint32_t n) const { return nodes_[n].kind; }
  bool is(uint32_t n, JsonKind k) const { return nodes_[n].kind == k; }
  // Of a string its bytes, of a number its digits as written.
  Str text(uint32_t n) const { return {text_.data() + nodes_[n].begin, nodes_[n].bytes}; }
  // The key of an object's member.
  Str key(uint32_t n) const { return {text_.data() + nodes_[n].key_begin, nodes_[n].key_bytes}; }
  uint32_t first(uint32_t n) const { return nodes_[n].first; }  // child, kNone
  uint32_t next(uint32_t n) const { return nodes_[n].next; }    // sibling, kNone
  uint32_t parent(uint32_t n) const { return nodes_[n].parent; }
  uint32_t count(uint32_t n) const { return nodes_[n].count; }
  // The member of an object, kNone when there is none (or `n` is none).
  uint32_t find(uint32_t n, Str key) const;

 private:
  struct Node {
    JsonKind kind;
    uint32_t parent, first, next, count;
    uint32_t begin, bytes, key_begin, key_bytes;
  };
  friend class JsonReader;
  Vec<Node> nodes_;
  Vec<char> text_;
};

}  // namespace grammar
}  // namespace gcrt
