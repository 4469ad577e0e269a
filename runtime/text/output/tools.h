#pragma once
// The tools that a request offers, as far as reading calls needs them: names, and what type an argument has, since
// formats with tags write 12 and "12" alike.
#include <stdint.h>

#include "runtime/base/allocator.h"
#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/base/vec.h"

namespace gcrt {

// Types that a JSON schema allows, as bits.
enum JsonType : uint32_t {
  kTypeString = 1,
  kTypeNumber = 2,  // integers too
  kTypeBoolean = 4,
  kTypeObject = 8,
  kTypeArray = 16,
  kTypeNull = 32,
  kTypeAny = 63,
};

class ToolSet {
 public:
  explicit ToolSet(Allocator a = libc_allocator()) : json_(a), names_(a), tools_(a) {}

  // `json`: an array of tools as in OpenAI's API ({"type": "function", "function": {"name", "parameters"}}), or of
  // the functions themselves; "" and null: none. kErrInput: malformed, or a tool without a name.
  Status open(Str json);

  size_t size() const { return tools_.size(); }
  Str name(size_t i) const { return str(names_).sub(tools_[i].name, tools_[i].name_bytes); }
  // -1: no such tool.
  int32_t find(Str name) const;
  // The schema of a tool's arguments, as JSON; empty when it has none.
  Str parameters(size_t i) const { return str(json_).sub(tools_[i].parameters, tools_[i].parameters_bytes); }

 private:
  struct Tool {
    size_t name, name_bytes, parameters, parameters_bytes;
  };
  Vec<char> json_, names_;
  Vec<Tool> tools_;
};

// What a schema allows; `root` is what its references are relative to.
uint32_t schema_types(Str schema, Str root);
// The schema of a property, or of an array's items; empty when nothing is said of it.
Str schema_property(Str schema, Str root, Str key);
Str schema_items(Str schema, Str root);
// The bit of a value by JsonValue::kind().
uint32_t type_of_kind(char kind);

}  // namespace gcrt
