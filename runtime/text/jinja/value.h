#pragma once
// Values of a running template: Python's, as far as templates can tell. Small, copied freely, never freed one by one:
// all memory is the arena's and goes when the rendering ends. Everything but namespaces, loops and iterators is
// immutable (chat templates run in a sandbox where lists and dicts cannot be changed), so copies share.
//
// A string knows of each of its bytes where it came from: `marks` has a byte for each, 1 for what a message's author
// wrote, 0 for the template's own text; null means all 0. Slicing is pointer arithmetic on both; whatever builds new
// text copies both. So after any chain of trim, replace, +, tojson the output still tells which parts must not be
// read as special tokens. The alternative, marks in the text itself (unused code points), would be visible to the
// template's length, ==, split.
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/allocator.h"
#include "runtime/base/span.h"
#include "runtime/text/jinja/program.h"

namespace gcrt {
namespace jinja {

enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kView,      // d.items(), .keys(), .values()
  kIterator,  // what Python evaluates lazily; can be gone through once
  kRange,
  kNamespace,
  kMacro,
  kFunction,
  kMethod,
  kLoop,
  kCycler,
  kJoiner,
};

struct Text {
  const char* ptr = nullptr;
  const uint8_t* marks = nullptr;
  size_t len = 0;

  Text() = default;
  Text(Str s) : ptr(s.ptr), len(s.len) {}
  Text(const char* p, const uint8_t* m, size_t n) : ptr(p), marks(m), len(n) {}
  Str str() const { return {ptr, len}; }
  // Both within [0, len].
  Text sub(size_t from, size_t to) const { return {ptr + from, marks ? marks + from : nullptr, to - from}; }
  uint8_t mark(size_t i) const { return marks ? marks[i] : 0; }
};

struct Value;
struct Entry;
struct Hint;
struct Iterator;
struct Namespace;
struct Macro;
struct Method;
struct LoopState;
struct Cycle;

struct Value {
  Kind kind = Kind::kUndefined;
  uint8_t sub = 0;  // kString: 1 for markup that is safe; kView: ViewOf; kFunction: FunctionId
  uint32_t n = 0;   // bytes of a string, items of a list, tuple, view, range; entries of a dict
  union {
    const Hint* hint = nullptr;  // kUndefined: why, or null
    bool b;
    int64_t i;
    double f;
    const char* s;
    const Value* items;
    const Entry* entries;  // in order of insertion
    Iterator* iterator;
    Namespace* space;
    const Macro* macro;
    const Method* method;
    LoopState* loop;
    Cycle* cycle;  // kCycler, kJoiner
  };
  const uint8_t* marks = nullptr;  // kString

  Text text() const { return {s, marks, n}; }
  Str str() const { return {s, n}; }
  Span<const Value> list() const { return {items, n}; }
  bool is(Kind k) const { return kind == k; }
  bool is_number() const { return kind == Kind::kInt || kind == Kind::kFloat || kind == Kind::kBool; }
  bool is_sequence() const { return kind == Kind::kList || kind == Kind::kTuple || kind == Kind::kRange; }
  bool is_callable() const { return kind >= Kind::kMacro && kind != Kind::kLoop; }
};
static_assert(sizeof(Value) == 24);

struct Entry {
  Value key, value;
};
enum class ViewOf : uint8_t { kItems, kKeys, kValues };

// Why something is undefined, for the message of whoever uses it.
struct Hint {
  enum What : uint8_t { kName, kAttribute, kParameter, kMessage, kUnsafe } what;
  Kind object;  // kAttribute, kUnsafe: of what
  Value key;    // the name, attribute, parameter or the whole message
};
struct Iterator {
  const Value* items;
  uint32_t n, at;
};
struct Variable {
  uint32_t name;  // string of the program
  Value value;
  Variable* next;
};
struct Scope {
  Scope* parent;
  Variable* first;
};
struct Namespace {
  Entry* entries;
  uint32_t n, capacity;
};
struct Macro {
  uint32_t node;
  Scope* scope;  // where it was defined
};
struct Method {
  MethodId id;
  Value self;
};
struct LoopState {
  const Value* items;
  uint32_t n, at, depth;
  uint32_t node;  // the kFor, for recursion
  Scope* scope;
  Value changed;  // last arguments of changed()
  bool has_changed, recursive;
};
struct Cycle {
  const Value* items;  // a joiner has its separator alone
  uint32_t n, at;
};

// ---- Making values ----
inline Value none() {
  Value v;
  v.kind = Kind::kNone;
  return v;
}
inline Value boolean(bool b) {
  Value v;
  v.kind = Kind::kBool;
  v.hint = nullptr;
  v.b = b;
  return v;
}
inline Value integer(int64_t i) {
  Value v;
  v.kind = Kind::kInt;
  v.i = i;
  return v;
}
inline Value real(double f) {
  Value v;
  v.kind = Kind::kFloat;
  v.f = f;
  return v;
}
inline Value string(Text t) {
  Value v;
  v.kind = Kind::kString;
  v.s = t.ptr;
  v.marks = t.marks;
  v.n = static_cast<uint32_t>(t.len);  // Build keeps texts below 2^31
  return v;
}
inline Value sequence(Kind kind, const Value* items, size_t n) {
  Value v;
  v.kind = kind;
  v.items = items;
  v.n = static_cast<uint32_t>(n);
  return v;
}
inline Value dict(const Entry* entries, size_t n) {
  Value v;
  v.kind = Kind::kDict;
  v.entries = entries;
  v.n = static_cast<uint32_t>(n);
  return v;
}

// ---- Facts that need no machine ----
// Python's name of the type: "str", "NoneType", "dict".
const char* type_name(const Value& v);
const char* type_name(Kind kind);
bool truth(const Value& v);
// a == b, for a step each; with no steps left, and deeper than some hundred levels, they count as different.
bool equal(const Value& a, const Value& b, uint64_t& steps, int depth = 0);
bool same_text(const Value& a, Str b);
// The value of a number as double or int; bools are 0 and 1.
double to_double(const Value& v);
// Code point at p[0, n), n > 0, and its bytes; a byte that is no UTF-8 counts as U+FFFD of one byte.
uint32_t code_at(const char* p, size_t n, size_t* bytes);
size_t count_chars(Str s);
// Byte offset of character i, at most s.size().
size_t char_offset(Str s, size_t i);
// Python's str.isspace.
bool is_space(uint32_t code);

// ---- Memory ----
// Bump allocation in chunks; everything is freed at the end. Also text with its marks, which can be extended in place
// while it is the last made: `text = text + more` in a loop then copies only what is new.
class Arena {
 public:
  Arena(Allocator allocator, uint64_t limit) : allocator_(allocator), limit_(limit) {}
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Null when memory or the limit is reached.
  void* get(size_t bytes);
  template <class T>
  T* make(size_t n = 1) {
    if (n > SIZE_MAX / 64) return nullptr;
    T* p = static_cast<T*>(get(n * sizeof(T)));
    if (p)
      for (size_t i = 0; i < n; ++i) ::new (gcrt_placement{}, static_cast<void*>(p + i)) T();
    return p;
  }
  // Makes a text block of `capacity` bytes hold at least `want`: in place while it is the last, else a larger one that
  // the first `used` bytes are copied to. `*text` is null for a new one. False when memory or the limit is reached.
  bool grow_text(char** text, uint8_t** marks, size_t used, size_t* capacity, size_t want);
  // Gives back what is not used, when it is the last block.
  void trim_text(const char* text, size_t used, size_t capacity);
  // Are [text, text + used) the last bytes of text? Then they may grow in place.
  bool last_text(const char* text, size_t used) const { return text && text + used == tip_; }
  uint64_t used() const { return used_; }

 private:
  struct Chunk {
    Chunk* next;
    size_t bytes;
  };
  char* chunk(size_t bytes);

  Allocator allocator_;
  uint64_t limit_, used_ = 0;
  Chunk* chunks_ = nullptr;
  char *at_ = nullptr, *end_ = nullptr;
  char *tip_ = nullptr, *text_end_ = nullptr;  // of the current chunk of text
  size_t text_bytes_ = 0;                      // marks lie so far behind the text
};

}  // namespace jinja
}  // namespace gcrt
