#include "runtime/text/jinja/program.h"

#include "runtime/base/checked.h"

namespace gcrt {
namespace jinja {
namespace {

struct OpRow {
  char category;
  const char* shape;
  char argument;
};
constexpr OpRow kOps[] = {
#define JINJA_OP(name, category, shape, argument) {#category[0], shape, argument},
#include "runtime/text/jinja/ops.def"
#undef JINJA_OP
};
struct Named {
  const char* name;
  const char* parameters;
};
constexpr Named kFilters[] = {
#define JINJA_FILTER(id, name, parameters) {name, parameters},
#include "runtime/text/jinja/filters.def"
#undef JINJA_FILTER
};
struct TestRow {
  const char* name;
  int arguments;
};
constexpr TestRow kTests[] = {
#define JINJA_TEST(id, name, arguments) {name, arguments},
#include "runtime/text/jinja/tests.def"
#undef JINJA_TEST
};
struct MethodRow {
  MethodOf type;
  const char* name;
  const char* parameters;
};
constexpr MethodRow kMethods[] = {
#define JINJA_METHOD(id, type, name, parameters) {MethodOf::type, name, parameters},
#include "runtime/text/jinja/methods.def"
#undef JINJA_METHOD
};
// In the order of FunctionId.
constexpr const char* kFunctions[] = {"range",           "dict",        "namespace", "cycler", "joiner",
                                      "raise_exception", "strftime_now"};
constexpr const char* kListMutators[] = {"append", "clear",  "extend",  "insert",
                                         "pop",    "remove", "reverse", "sort"};
constexpr const char* kDictMutators[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr const char* kMissing[] = {"encode",       "expandtabs",  "format_map",       "isdecimal",
                                    "isidentifier", "isprintable", "istitle",          "maketrans",
                                    "translate",    "fromkeys",    "as_integer_ratio", "bit_length",
                                    "conjugate",    "from_bytes",  "to_bytes",         "is_integer"};

template <class Row, size_t N, class Name>
int find_row(const Row (&rows)[N], Str name, Name name_of) {
  for (size_t i = 0; i < N; ++i)
    if (Str(name_of(rows[i])) == name) return static_cast<int>(i);
  return kNotFound;
}
template <size_t N>
bool one_of(const char* const (&names)[N], Str name) {
  for (const char* n : names)
    if (Str(n) == name) return true;
  return false;
}

}  // namespace

int find_filter(Str name) {
  return find_row(kFilters, name, [](const Named& r) { return r.name; });
}
int find_test(Str name) {
  return find_row(kTests, name, [](const TestRow& r) { return r.name; });
}
int find_method(MethodOf type, Str name) {
  for (size_t i = 0; i < sizeof kMethods / sizeof kMethods[0]; ++i)
    if (kMethods[i].type == type && Str(kMethods[i].name) == name) return static_cast<int>(i);
  return kNotFound;
}
int find_function(Str name) {
  return find_row(kFunctions, name, [](const char* n) { return n; });
}
Str filter_name(FilterId id) { return kFilters[static_cast<size_t>(id)].name; }
Str filter_parameters(FilterId id) { return kFilters[static_cast<size_t>(id)].parameters; }
Str test_name(TestId id) { return kTests[static_cast<size_t>(id)].name; }
int test_arguments(TestId id) { return kTests[static_cast<size_t>(id)].arguments; }
Str method_name(MethodId id) { return kMethods[static_cast<size_t>(id)].name; }
Str method_parameters(MethodId id) { return kMethods[static_cast<size_t>(id)].parameters; }
bool is_mutator(MethodOf type, Str name) {
  if (type == MethodOf::kList) return one_of(kListMutators, name);
  return type == MethodOf::kDict && one_of(kDictMutators, name);
}
bool is_missing_method(Str name) { return one_of(kMissing, name); }

Str next_parameter(Str* parameters) {
  size_t end = 0;
  while (end < parameters->size() && (*parameters)[end] != ',') ++end;
  Str first = parameters->sub(0, end);
  *parameters = parameters->sub(end + 1);
  return first;
}

Status Program::open(Span<const uint8_t> data) {
  *this = Program();
  if (data.size() < sizeof(Header)) return kErrImage;
  const Header& h = *reinterpret_cast<const Header*>(data.data());
  if (h.magic != kMagic || h.version != kVersion || h.bytes > data.size()) return kErrImage;
  const uint64_t numbers = sizeof(Header), nodes = numbers + uint64_t{8} * h.n_numbers,
                 refs = nodes + sizeof(Node) * uint64_t{h.n_nodes}, strings = refs + uint64_t{4} * h.n_refs,
                 text = strings + sizeof(TextRef) * uint64_t{h.n_strings};
  if (text + h.n_text > h.bytes) return kErrImage;
  const uint8_t* p = data.data();
  Program q;
  q.root_ = h.root;
  q.numbers_ = {reinterpret_cast<const uint64_t*>(p + numbers), h.n_numbers};
  q.nodes_ = {reinterpret_cast<const Node*>(p + nodes), h.n_nodes};
  q.refs_ = {reinterpret_cast<const uint32_t*>(p + refs), h.n_refs};
  q.strings_ = {reinterpret_cast<const TextRef*>(p + strings), h.n_strings};
  q.text_ = {reinterpret_cast<const char*>(p + text), h.n_text};
  for (const TextRef& t : q.strings_)
    if (!in_bounds(t.offset, t.bytes, 1, h.n_text)) return kErrImage;
  for (uint32_t i = 0; i < h.n_nodes; ++i)
    if (!q.check_node(i)) return kErrImage;
  if (h.root >= h.n_nodes || kOps[static_cast<size_t>(q.nodes_[h.root].op)].category != 'S') return kErrImage;
  *this = q;
  return kOk;
}

bool Program::check_node(uint32_t i) const {
  const Node& node = nodes_[i];
  const size_t op = static_cast<size_t>(node.op);
  if (op >= sizeof kOps / sizeof kOps[0]) return false;
  const OpRow& row = kOps[op];
  if (!in_bounds(node.first, node.n, 1, refs_.size())) return false;
  if (row.argument == 's' && node.arg >= strings_.size()) return false;
  if (row.argument == 'n' && node.arg >= numbers_.size()) return false;
  if (node.op == Op::kFilter && node.sub >= sizeof kFilters / sizeof kFilters[0]) return false;
  if (node.op == Op::kTest && node.sub >= sizeof kTests / sizeof kTests[0]) return false;
  if (node.op == Op::kOperand && node.sub > static_cast<uint8_t>(Compare::kNotIn)) return false;
  if (node.op == Op::kTargetAttr && node.n && child(node, 0) < i && nodes_[child(node, 0)].op != Op::kName)
    return false;
  const char* shape = row.shape;
  for (uint32_t k = 0; k < node.n; ++k) {
    if (*shape == 0) return false;
    const char want = *shape;
    const bool optional = want >= 'a';
    const uint32_t c = child(node, k);
    if (c == kNoNode) {
      if (!optional) return false;
    } else {
      if (c >= i) return false;
      const char upper = optional ? static_cast<char>(want - 'a' + 'A') : want;
      const char is = kOps[static_cast<size_t>(nodes_[c].op)].category;
      const bool fits = is == upper || (upper == 'A' && is == 'E') || (upper == 'S' && is == 'M');
      if (!fits) return false;
    }
    if (shape[1] != '*') ++shape;
  }
  return *shape == 0 || shape[1] == '*';
}

}  // namespace jinja
}  // namespace gcrt
