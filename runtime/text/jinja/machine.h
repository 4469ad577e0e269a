#pragma once
// What a running template needs everywhere: memory, the budget, the error, and the operations of the language on
// values. Every function that can fail returns false after machine.fail(); the first error is the one that is told.
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/format.h"
#include "runtime/text/jinja/value.h"

namespace gcrt {
namespace jinja {

struct Limits {
  uint64_t steps = 50'000'000;            // nodes evaluated, and 1 for each 16 bytes of text made: about 2 s
  uint64_t memory = uint64_t{256} << 20;  // bytes
};
constexpr int kMaxDepth = 400;         // of nodes within nodes, macros' bodies included
constexpr int kMaxValueDepth = 200;    // of lists within lists where they are written
constexpr int64_t kMaxRange = 100000;  // items, as jinja's sandbox has it

struct NamedArg {
  Text name;
  Value value;
};
struct Args {
  Span<const Value> positional;
  Span<const NamedArg> named;
};

class Build;

class Machine {
 public:
  Machine(const Program& program, Allocator allocator, const Limits& limits)
      : program(program), arena(allocator, limits.memory), steps_left(limits.steps) {}

  // Always false.
  template <class... Parts>
  [[gnu::noinline]] bool fail(const Parts&... parts) {
    if (!failed) {
      failed = true;
      Writer w(message);
      format(w, parts...);
    }
    return false;
  }
  bool fail_memory() { return fail("the template used more memory than it may"); }
  bool spend(uint64_t steps) {
    if (steps > steps_left) return fail("the template took more steps than it may");
    steps_left -= steps;
    return true;
  }
  template <class T>
  T* make(size_t n = 1) {
    T* p = spend(n / 4) ? arena.make<T>(n) : nullptr;
    if (!p) fail_memory();
    return p;
  }

  const Program& program;
  Arena arena;
  uint64_t steps_left;
  int64_t now = 0;  // seconds since 1970 in the time zone to tell
  bool failed = false;
  uint32_t line = 0;  // of the error
  char message[800] = {};
};

// Text that grows; at the end a string. Several may be open at once.
class Build {
 public:
  explicit Build(Machine& m) : m_(m) {}
  Build(const Build&) = delete;
  Build& operator=(const Build&) = delete;

  bool put(Text t);
  bool put(const char* s) { return put(Text(Str(s))); }
  bool put_char(char c, uint8_t mark = 0) { return put(Text(&c, &mark, 1)); }
  bool put_code(uint32_t code, uint8_t mark = 0);
  bool put_repeated(Text t, uint64_t times);
  bool put_int(int64_t v);
  // Goes on with `t`, in place where that is possible.
  bool start(Text t);
  Text text() const { return {text_, marks_, n_}; }
  size_t size() const { return n_; }
  Value take();

 private:
  Machine& m_;
  char* text_ = nullptr;
  uint8_t* marks_ = nullptr;
  size_t n_ = 0, capacity_ = 0;
};

// A list that grows.
class ListBuild {
 public:
  explicit ListBuild(Machine& m) : m_(m) {}
  bool push(const Value& v);
  size_t size() const { return n_; }
  Value* items() { return items_; }
  Value take(Kind kind) { return sequence(kind, items_, n_); }
  Value take_iterator();

 private:
  Machine& m_;
  Value* items_ = nullptr;
  size_t n_ = 0, capacity_ = 0;
};

// A dict that grows; a key that is there keeps its place and gets the new value.
class DictBuild {
 public:
  explicit DictBuild(Machine& m) : m_(m) {}
  bool put(const Value& key, const Value& value);
  Value take() { return dict(entries_, n_); }

 private:
  bool index();
  uint32_t* slot(const Value& key);

  Machine& m_;
  Entry* entries_ = nullptr;
  size_t n_ = 0, capacity_ = 0;
  uint32_t* slots_ = nullptr;  // n + 1 by hash, from 16 entries on
  size_t n_slots_ = 0;
};

// ---- values.cc: conversions ----
bool to_text(Machine& m, const Value& v, Text* out);    // str(v)
bool put_text(Machine& m, Build& out, const Value& v);  // str(v) appended
bool put_repr(Machine& m, Build& out, const Value& v, int depth = 0);
bool iterate(Machine& m, const Value& v, Span<const Value>* out);
bool length_of(Machine& m, const Value& v, int64_t* out);
bool find_key(Machine& m, const Value& dict, const Value& key, const Value** out);  // null: not there
bool check_hashable(Machine& m, const Value& key);
Value undefined(Machine& m, Hint::What what, const Value& key, Kind object = Kind::kNone);
bool fail_undefined(Machine& m, const Value& v);
Value literal(Str s);  // a string of text that outlives the machine
// Arguments by the names in "a,b,c"; absent ones stay undefined with a null hint in out[]. `what` names the callee.
bool bind(Machine& m, Str what, Str parameters, const Args& args, Value* out, uint32_t* given = nullptr);
bool to_index(Machine& m, const Value& v, int64_t* out);  // an int or bool
// Sorts stably by less(keys[i], keys[j]); order is [0, n) at first.
bool sort_order(Machine& m, Span<const Value> keys, bool reverse, uint32_t* order);

// ---- operators.cc ----
bool binary(Machine& m, Op op, const Value& a, const Value& b, Value* out);
bool negate(Machine& m, Op op, const Value& a, Value* out);
bool compare(Machine& m, Compare how, const Value& a, const Value& b, bool* out);
bool get_attribute(Machine& m, const Value& v, const Value& name, Value* out);
bool get_item(Machine& m, const Value& v, const Value& key, Value* out);
bool get_slice(Machine& m, const Value& v, const Value& start, const Value& stop, const Value& step,
               Value* out);

// ---- strings.cc, format.cc, collections.cc ----
bool call_str_method(Machine& m, MethodId id, const Value& self, const Args& args, Value* out);
bool change_case(Machine& m, MethodId id, Text t, Build& out);
bool is_printable(uint32_t code);  // Python's str.isprintable
Text strip(Text t, const Value* chars, bool left, bool right);
bool replace_text(Machine& m, Text t, Text from, Text to, int64_t count, Build& out);
bool put_escaped(Build& out, Text t);  // & < > " ' as HTML entities
bool format_percent(Machine& m, Text format, const Value& args, Build& out);
bool format_braces(Machine& m, Text format, const Args& args, Build& out);
bool call_method(Machine& m, const Method& method, const Args& args, Value* out);
bool call_function(Machine& m, FunctionId id, const Args& args, Value* out);
bool format_time(Machine& m, Text format, int64_t seconds, Build& out);

// ---- filters.cc, tests.cc ----
bool apply_filter(Machine& m, FilterId id, const Value& v, const Args& args, Value* out);
bool apply_sequence_filter(Machine& m, FilterId id, const Value& v, const Args& args, Value* out);
bool apply_test(Machine& m, TestId id, const Value& v, Span<const Value> args, bool* out);

// ---- json.cc ----
enum class Marking : uint8_t { kNone, kAll, kContext };
// kContext: an object of variables, or an array of messages; what lies below messages, tools and documents is marked,
// but for roles that are plain words, which templates make control tokens of.
bool read_json(Machine& m, Str text, Marking marking, Value* out);
bool write_json(Machine& m, const Value& v, const Value& ensure_ascii, const Value& indent,
                const Value& separators, const Value& sort_keys, Build& out);

}  // namespace jinja
}  // namespace gcrt
