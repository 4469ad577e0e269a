#include "runtime/text/output/tools.h"

#include <string.h>

#include "runtime/text/output/json_value.h"

namespace gcrt {
namespace {

constexpr int kMaxReferences = 8;
// Schemas come from clients, and choices within choices multiply: so many are looked at for one question.
constexpr int kMaxVisits = 200;

uint32_t type_named(Str token) {
  struct Named {
    const char* name;
    uint32_t bits;
  };
  constexpr Named kNames[] = {{"string", kTypeString},   {"integer", kTypeNumber}, {"number", kTypeNumber},
                              {"boolean", kTypeBoolean}, {"object", kTypeObject},  {"array", kTypeArray},
                              {"null", kTypeNull}};
  for (const Named& n : kNames)
    if (json_is_string(token, n.name)) return n.bits;
  return kTypeAny;
}

uint32_t type_of_value(Str value) {
  const char c = value.empty() ? 0 : value[0];
  return type_of_kind(c == 'f' ? 't' : c == '-' || (c >= '0' && c <= '9') ? '0' : c);
}

// Follows {"$ref": "#/a/b"}; an empty schema for what leads nowhere.
Str resolve(Str schema, Str root) {
  for (int i = 0; i < kMaxReferences; ++i) {
    const Str ref = json_find(schema, "$ref");
    if (ref.empty()) return schema;
    if (!ref.starts_with("\"#")) return {};
    Str path = ref.sub(2, ref.size() - 3);
    schema = root;
    while (path.starts_with("/")) {
      path = path.sub(1);
      size_t n = 0;
      while (n < path.size() && path[n] != '/') ++n;
      schema = json_find(schema, path.sub(0, n));
      path = path.sub(n);
    }
  }
  return {};
}

uint32_t types(Str schema, Str root, int* visits) {
  schema = resolve(schema, root);
  if (!schema.starts_with("{") || --*visits < 0) return kTypeAny;
  size_t at = 0;
  Str item;
  if (const Str type = json_find(schema, "type"); !type.empty()) {
    if (type[0] != '[') return type_named(type);
    uint32_t all = 0;
    while (json_element(type, &at, &item)) all |= type_named(item);
    return all ? all : kTypeAny;
  }
  if (const Str value = json_find(schema, "const"); !value.empty()) return type_of_value(value);
  if (const Str values = json_find(schema, "enum"); values.starts_with("[")) {
    uint32_t all = 0;
    while (json_element(values, &at, &item)) all |= type_of_value(item);
    return all ? all : kTypeAny;
  }
  constexpr const char* kChoices[] = {"anyOf", "oneOf"};
  for (const char* key : kChoices)
    if (const Str choices = json_find(schema, key); choices.starts_with("[")) {
      uint32_t all = 0;
      while (json_element(choices, &at, &item)) all |= types(item, root, visits);
      return all ? all : kTypeAny;
    }
  if (const Str parts = json_find(schema, "allOf"); parts.starts_with("[")) {
    uint32_t all = kTypeAny;
    while (json_element(parts, &at, &item)) all &= types(item, root, visits);
    return all ? all : kTypeAny;
  }
  if (!json_find(schema, "properties").empty()) return kTypeObject;
  if (!json_find(schema, "items").empty()) return kTypeArray;
  return kTypeAny;
}

// The first of the schema and its choices that has `key`.
Str with_key(Str schema, Str root, const char* key, int* visits) {
  schema = resolve(schema, root);
  if (const Str value = json_find(schema, key); !value.empty()) return value;
  if (--*visits < 0) return {};
  constexpr const char* kChoices[] = {"anyOf", "oneOf", "allOf"};
  for (const char* choice : kChoices) {
    const Str all = json_find(schema, choice);
    size_t at = 0;
    for (Str item; json_element(all, &at, &item);)
      if (const Str value = with_key(item, root, key, visits); !value.empty()) return value;
  }
  return {};
}

}  // namespace

uint32_t type_of_kind(char kind) {
  switch (kind) {
    case '"':
      return kTypeString;
    case '0':
      return kTypeNumber;
    case 't':
      return kTypeBoolean;
    case '{':
      return kTypeObject;
    case '[':
      return kTypeArray;
    case 'n':
      return kTypeNull;
    default:
      return 0;
  }
}

uint32_t schema_types(Str schema, Str root) {
  int visits = kMaxVisits;
  return types(schema, root, &visits);
}

Str schema_property(Str schema, Str root, Str key) {
  int visits = kMaxVisits, more = kMaxVisits;
  if (const Str found = json_find(with_key(schema, root, "properties", &visits), key); !found.empty())
    return found;
  const Str others = with_key(schema, root, "additionalProperties", &more);
  return others.starts_with("{") ? others : Str();
}

Str schema_items(Str schema, Str root) {
  int visits = kMaxVisits;
  return with_key(schema, root, "items", &visits);
}

Status ToolSet::open(Str json) {
  json_.clear();
  names_.clear();
  tools_.clear();
  json = json_trim(json);
  if (json.empty() || json == "null") return kOk;
  // Checked and copied; keys and strings stay as they are written.
  char kind = 0;
  switch (whole_json(json, JsonValue::Dialect::kJson, json_, &kind)) {
    case JsonValue::Result::kDone:
      break;
    case JsonValue::Result::kMemory:
      return kErrMemory;
    case JsonValue::Result::kMore:
    case JsonValue::Result::kBad:
      return kErrInput;
  }
  if (kind != '[') return kErrInput;
  const Str all = str(json_);
  size_t at = 0;
  for (Str item; json_element(all, &at, &item);) {
    Str function = json_find(item, "function");
    if (function.empty()) function = item;
    const Str name = json_find(function, "name");
    if (!name.starts_with("\"")) return kErrInput;
    Str parameters = json_find(function, "parameters");
    if (parameters.empty()) parameters = json_find(function, "input_schema");
    Tool t{};
    t.name = names_.size();
    if (!json_unescape(name, names_)) return kErrMemory;
    t.name_bytes = names_.size() - t.name;
    if (!parameters.empty()) {
      t.parameters = static_cast<size_t>(parameters.data() - all.data());
      t.parameters_bytes = parameters.size();
    }
    if (!tools_.push(t)) return kErrMemory;
  }
  return kOk;
}

int32_t ToolSet::find(Str name) const {
  for (size_t i = 0; i < tools_.size(); ++i)
    if (this->name(i) == name) return static_cast<int32_t>(i);
  return -1;
}

}  // namespace gcrt
