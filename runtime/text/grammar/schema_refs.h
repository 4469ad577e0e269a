#pragma once
// Where the references of a schema lead: $id, $anchor, JSON pointers. Nothing outside of the document is looked up.
#include <stdint.h>

#include "runtime/base/status.h"
#include "runtime/base/vec.h"
#include "runtime/text/grammar/json.h"

namespace gcrt {
namespace grammar {

class SchemaReferences {
 public:
  SchemaReferences(const JsonDocument& doc, Allocator a)
      : doc_(doc), resources_(a), anchors_(a), resource_of_(a), uris_(a), todo_(a) {}

  // Finds all identifiers. kErrMemory.
  Status index();
  // What `ref`, a keyword of `schema`, means; kNone when nothing in the document is called so.
  Status resolve(uint32_t schema, Str ref, uint32_t* out);

 private:
  struct Resource {
    uint32_t node;
    uint32_t uri_begin, uri_bytes;
  };
  struct Anchor {
    uint32_t resource, node;
    Str name;
  };
  struct Todo {
    uint32_t node, resource;
  };
  Str uri(const Resource& r) const { return {uris_.data() + r.uri_begin, r.uri_bytes}; }
  Status visit(Todo t);
  bool push_children(uint32_t node, uint32_t resource);
  // Appends `ref` as seen from `base`, without its fragment.
  bool append_resolved(Str base, Str ref, Vec<char>& out) const;
  uint32_t resource_at(uint32_t node) const;
  Status point(uint32_t node, Str pointer, uint32_t* out) const;

  const JsonDocument& doc_;
  Vec<Resource> resources_;
  Vec<Anchor> anchors_;
  Vec<uint32_t> resource_of_;  // [node] + 1; 0: not known as a schema
  Vec<char> uris_;
  Vec<Todo> todo_;
};

}  // namespace grammar
}  // namespace gcrt
