#pragma once
// A chat template as the compiler freezes it and the executor runs it in place: the tree of the template, flat,
// little-endian, position-independent. A tree and no code for a stack machine: a template runs once a turn for some
// microseconds, so what counts is that a reader can check the whole of it (check below takes 10 us for a template of
// 16 KB, and after it no index can be wrong), and that errors know their line.
//
//   Header
//   u64[n_numbers]     integers, and floats as their bits
//   Node[n_nodes]      children always before their parent, so the tree has no cycles
//   u32[n_refs]        the nodes' lists of children
//   Text[n_strings]    literals, names, pieces of template text; equal ones once
//   char[n_text]       their bytes, UTF-8
//
// A real template of 16 KB takes 60 KB; the average of 70 is 25.
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"

namespace gcrt {
namespace jinja {

constexpr uint32_t kMagic = 0x544A4347;  // "GCJT"
constexpr uint32_t kVersion = 1;
constexpr uint32_t kNoNode = 0xFFFFFFFF;

enum class Op : uint8_t {
#define JINJA_OP(name, category, shape, argument) name,
#include "runtime/text/jinja/ops.def"
#undef JINJA_OP
};
enum class FilterId : uint8_t {
#define JINJA_FILTER(id, name, parameters) id,
#include "runtime/text/jinja/filters.def"
#undef JINJA_FILTER
};
enum class TestId : uint8_t {
#define JINJA_TEST(id, name, arguments) id,
#include "runtime/text/jinja/tests.def"
#undef JINJA_TEST
};
enum class MethodId : uint8_t {
#define JINJA_METHOD(id, type, name, parameters) id,
#include "runtime/text/jinja/methods.def"
#undef JINJA_METHOD
};
enum class MethodOf : uint8_t { kStr, kDict, kList, kLoop, kCycler };
enum class FunctionId : uint8_t { kRange, kDict, kNamespace, kCycler, kJoiner, kRaise, kStrftimeNow };
enum class Compare : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kIn, kNotIn };
enum MacroUses : uint8_t { kUsesVarargs = 1, kUsesKwargs = 2, kUsesCaller = 4 };

// Names of the table's rows; kNotFound for a name that is in none.
constexpr int kNotFound = -1;
int find_filter(Str name);
int find_test(Str name);
int find_method(MethodOf type, Str name);
int find_function(Str name);
Str filter_name(FilterId id);
Str filter_parameters(FilterId id);
Str test_name(TestId id);
int test_arguments(TestId id);
Str method_name(MethodId id);
Str method_parameters(MethodId id);
// Exists in Python but changes its object, which chat templates may not do.
bool is_mutator(MethodOf type, Str name);
// Exists in Python and is not in methods.def.
bool is_missing_method(Str name);
// Cuts "a,b,c" at its first comma.
Str next_parameter(Str* parameters);

struct Header {
  uint32_t magic;
  uint32_t version;
  uint64_t bytes;  // of the whole program
  uint32_t n_numbers, n_nodes, n_refs, n_strings, n_text;
  uint32_t root;
  uint32_t reserved[6];
};
static_assert(sizeof(Header) == 64);

struct Node {
  Op op;
  uint8_t sub;
  uint16_t n;      // children
  uint32_t line;   // in the template, from 1
  uint32_t arg;    // index of a string or number
  uint32_t first;  // of its children in refs; a missing child is kNoNode
};
static_assert(sizeof(Node) == 16);

struct TextRef {
  uint32_t offset, bytes;
};

class Program {
 public:
  // Checks everything; kErrImage for what is damaged or of another version. `data` is aligned to 8 bytes and outlives
  // this.
  Status open(Span<const uint8_t> data);

  bool empty() const { return nodes_.empty(); }
  uint32_t root() const { return root_; }
  const Node& node(uint32_t i) const { return nodes_[i]; }
  uint32_t child(const Node& node, uint32_t k) const { return refs_[node.first + k]; }
  uint32_t n_strings() const { return static_cast<uint32_t>(strings_.size()); }
  Str text(uint32_t i) const { return {text_.ptr + strings_[i].offset, strings_[i].bytes}; }
  uint64_t number(uint32_t i) const { return numbers_[i]; }

 private:
  bool check_node(uint32_t i) const;

  uint32_t root_ = 0;
  Span<const uint64_t> numbers_;
  Span<const Node> nodes_;
  Span<const uint32_t> refs_;
  Span<const TextRef> strings_;
  Span<const char> text_;
};

}  // namespace jinja
}  // namespace gcrt
