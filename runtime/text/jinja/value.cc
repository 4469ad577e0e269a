#include "runtime/text/jinja/value.h"

#include <math.h>

#include "runtime/text/utf8.h"

namespace gcrt {
namespace jinja {
namespace {

constexpr int kMaxEqualDepth = 200;

bool equal_items(const Value& a, const Value& b, uint64_t& steps, int depth) {
  if (a.n != b.n) return false;
  for (uint32_t i = 0; i < a.n; ++i)
    if (!equal(a.items[i], b.items[i], steps, depth + 1)) return false;
  return true;
}

bool equal_dicts(const Value& a, const Value& b, uint64_t& steps, int depth) {
  if (a.n != b.n) return false;
  for (uint32_t i = 0; i < a.n; ++i) {
    bool found = false;
    for (uint32_t j = 0; j < b.n && !found; ++j) {
      // Equal dicts mostly have their keys in the same order.
      const Entry& e = b.entries[(i + j) % b.n];
      if (!equal(a.entries[i].key, e.key, steps, depth + 1)) continue;
      if (!equal(a.entries[i].value, e.value, steps, depth + 1)) return false;
      found = true;
    }
    if (!found) return false;
  }
  return true;
}

}  // namespace

const char* type_name(Kind kind) {
  switch (kind) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kView:
      return "dict_items";
    case Kind::kIterator:
      return "generator";
    case Kind::kRange:
      return "range";
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kMacro:
      return "Macro";
    case Kind::kFunction:
      return "function";
    case Kind::kMethod:
      return "builtin_function_or_method";
    case Kind::kLoop:
      return "LoopContext";
    case Kind::kCycler:
      return "Cycler";
    case Kind::kJoiner:
      return "Joiner";
  }
  return "object";
}

const char* type_name(const Value& v) {
  if (v.kind == Kind::kString && v.sub) return "Markup";
  if (v.kind == Kind::kView && v.sub == static_cast<uint8_t>(ViewOf::kKeys)) return "dict_keys";
  if (v.kind == Kind::kView && v.sub == static_cast<uint8_t>(ViewOf::kValues)) return "dict_values";
  return type_name(v.kind);
}

bool truth(const Value& v) {
  switch (v.kind) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return v.b;
    case Kind::kInt:
      return v.i != 0;
    case Kind::kFloat:
      return v.f != 0;
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kView:
    case Kind::kRange:
      return v.n != 0;
    case Kind::kIterator:
    case Kind::kNamespace:
    case Kind::kMacro:
    case Kind::kFunction:
    case Kind::kMethod:
    case Kind::kLoop:
    case Kind::kCycler:
    case Kind::kJoiner:
      return true;
  }
  return true;
}

double to_double(const Value& v) {
  if (v.kind == Kind::kFloat) return v.f;
  return v.kind == Kind::kBool ? static_cast<double>(v.b) : static_cast<double>(v.i);
}

bool same_text(const Value& a, Str b) { return a.kind == Kind::kString && a.str() == b; }

bool equal(const Value& a, const Value& b, uint64_t& steps, int depth) {
  if (depth > kMaxEqualDepth || steps == 0) return false;
  --steps;
  if (a.is_number() && b.is_number()) {
    if (a.kind == Kind::kFloat || b.kind == Kind::kFloat) return to_double(a) == to_double(b);
    const int64_t x = a.kind == Kind::kBool ? a.b : a.i, y = b.kind == Kind::kBool ? b.b : b.i;
    return x == y;
  }
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      if (a.n != b.n) return false;
      steps -= min_of<uint64_t>(steps, a.n / 64);
      return a.str() == b.str();
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
      return equal_items(a, b, steps, depth);
    case Kind::kView:
      return a.sub == b.sub && equal_items(a, b, steps, depth);
    case Kind::kDict:
      return equal_dicts(a, b, steps, depth);
    case Kind::kFunction:
      return a.sub == b.sub;
    case Kind::kMethod:
      return a.method->id == b.method->id && equal(a.method->self, b.method->self, steps, depth + 1);
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
    case Kind::kIterator:
    case Kind::kNamespace:
    case Kind::kMacro:
    case Kind::kLoop:
    case Kind::kCycler:
    case Kind::kJoiner:
      return a.s == b.s;  // the same object
  }
  return false;
}

uint32_t code_at(const char* p, size_t n, size_t* bytes) {
  const uint8_t* u = reinterpret_cast<const uint8_t*>(p);
  *bytes = 1;
  if (u[0] < 0x80) return u[0];
  const int len = utf8_next({p, n});
  if (len <= 0) return 0xFFFD;
  *bytes = static_cast<size_t>(len);
  uint32_t c = u[0] & (0xFFu >> (len + 1));
  for (int i = 1; i < len; ++i) c = c << 6 | (u[i] & 0x3F);
  return c;
}

size_t count_chars(Str s) {
  size_t count = 0, bytes = 0;
  for (size_t i = 0; i < s.size(); i += bytes, ++count) {
    bytes = 1;
    if (static_cast<uint8_t>(s[i]) >= 0x80) code_at(s.data() + i, s.size() - i, &bytes);
  }
  return count;
}

size_t char_offset(Str s, size_t i) {
  size_t at = 0, bytes = 0;
  for (; i && at < s.size(); --i, at += bytes) code_at(s.data() + at, s.size() - at, &bytes);
  return at;
}

bool is_space(uint32_t c) {
  if (c < 0x80) return (c >= 9 && c <= 13) || (c >= 28 && c <= 32);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

// ---- Arena ----

namespace {
constexpr size_t kChunk = 64 * 1024;
constexpr size_t kAlign = 16;
}  // namespace

Arena::~Arena() {
  while (chunks_) {
    Chunk* next = chunks_->next;
    allocator_.put(chunks_, chunks_->bytes, kAlign);
    chunks_ = next;
  }
}

char* Arena::chunk(size_t bytes) {
  if (bytes > limit_ || used_ > limit_ - bytes) return nullptr;
  const size_t whole = bytes + kAlign;
  void* p = allocator_.get(whole, kAlign);
  if (!p) return nullptr;
  used_ += bytes;
  chunks_ = ::new (gcrt_placement{}, p) Chunk{chunks_, whole};
  return static_cast<char*>(p) + kAlign;
}
static_assert(sizeof(void*) + sizeof(size_t) <= kAlign);

void* Arena::get(size_t bytes) {
  bytes = (bytes + kAlign - 1) & ~(kAlign - 1);
  if (bytes > static_cast<size_t>(end_ - at_)) {
    // A large one has its own chunk, so that the rest of the current one is not lost.
    if (bytes > kChunk / 4) return chunk(bytes);
    char* fresh = chunk(kChunk);
    if (!fresh) return nullptr;
    at_ = fresh, end_ = fresh + kChunk;
  }
  void* p = at_;
  at_ += bytes;
  return p;
}

bool Arena::grow_text(char** text, uint8_t** marks, size_t used, size_t* capacity, size_t want) {
  if (want <= *capacity) return true;
  const size_t twice = max_of<size_t>(want, *capacity * 2);
  if (*text && *text + *capacity == tip_ && want - *capacity <= static_cast<size_t>(text_end_ - tip_)) {
    const size_t more = min_of(twice - *capacity, static_cast<size_t>(text_end_ - tip_));
    tip_ += more;
    *capacity += more;
    return true;
  }
  if (twice > static_cast<size_t>(text_end_ - tip_)) {
    const size_t bytes = max_of<size_t>(twice, kChunk);
    char* fresh = chunk(2 * bytes);
    if (!fresh) return false;
    tip_ = fresh, text_end_ = fresh + bytes, text_bytes_ = bytes;
  }
  char* to = tip_;
  uint8_t* to_marks = reinterpret_cast<uint8_t*>(tip_ + text_bytes_);
  if (used) {
    memcpy(to, *text, used);
    memcpy(to_marks, *marks, used);
  }
  tip_ += twice;
  *text = to, *marks = to_marks, *capacity = twice;
  return true;
}

void Arena::trim_text(const char* text, size_t used, size_t capacity) {
  if (text && text + capacity == tip_) tip_ -= capacity - used;
}

}  // namespace jinja
}  // namespace gcrt
