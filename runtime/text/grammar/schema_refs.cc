#include "runtime/text/grammar/schema_refs.h"

namespace gcrt {
namespace grammar {
namespace {

// Keywords whose value is a schema, an array of schemas, an object of schemas.
constexpr Str kOne[] = {"items",
                        "contains",
                        "not",
                        "if",
                        "then",
                        "else",
                        "additionalProperties",
                        "propertyNames",
                        "unevaluatedItems",
                        "unevaluatedProperties",
                        "contentSchema"};
constexpr Str kMany[] = {"allOf", "anyOf", "oneOf", "prefixItems"};
constexpr Str kNamed[] = {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"};

template <size_t N>
bool is_one_of(Str s, const Str (&list)[N]) {
  for (Str l : list)
    if (l == s) return true;
  return false;
}

size_t find_char(Str s, char c, size_t from = 0) {
  while (from < s.size() && s[from] != c) ++from;
  return from;
}
// "http:" and the like, with the colon; 0: none.
size_t scheme_bytes(Str s) {
  for (size_t i = 0; i < s.size(); ++i) {
    const char c = s[i];
    if (c == ':') return i ? i + 1 : 0;
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!letter && !(i && ((c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.'))) return 0;
  }
  return 0;
}

}  // namespace

bool SchemaReferences::append_resolved(Str base, Str ref, Vec<char>& out) const {
  ref = ref.sub(0, find_char(ref, '#'));
  if (ref.empty()) return append(out, base);
  if (scheme_bytes(ref)) return append(out, ref);
  const size_t scheme = scheme_bytes(base);
  size_t authority = scheme;
  if (base.sub(scheme).starts_with("//")) authority = find_char(base, '/', scheme + 2);
  if (ref.starts_with("//")) return append(out, base.sub(0, scheme)) && append(out, ref);
  if (ref[0] == '/') return append(out, base.sub(0, authority)) && append(out, ref);
  size_t directory = find_char(base, '?');
  while (directory > authority && base[directory - 1] != '/') --directory;
  for (;; ref = ref.sub(ref.starts_with("../") ? 3 : 2)) {
    if (ref.starts_with("../")) {
      if (directory > authority + 1) --directory;
      while (directory > authority && base[directory - 1] != '/') --directory;
    } else if (!ref.starts_with("./")) {
      break;
    }
  }
  return append(out, base.sub(0, directory)) && append(out, ref);
}

bool SchemaReferences::push_children(uint32_t node, uint32_t resource) {
  for (uint32_t c = doc_.first(node); c != kNone; c = doc_.next(c)) {
    const Str key = doc_.key(c);
    if (is_one_of(key, kOne)) {
      if (!todo_.push({c, resource})) return false;
    } else if (is_one_of(key, kMany) || is_one_of(key, kNamed)) {
      for (uint32_t s = doc_.first(c); s != kNone; s = doc_.next(s))
        if (!todo_.push({s, resource})) return false;
    }
  }
  return true;
}

Status SchemaReferences::visit(Todo t) {
  if (!doc_.is(t.node, JsonKind::kObject)) return kOk;
  const uint32_t id = doc_.find(t.node, "$id");
  if (id != kNone && doc_.is(id, JsonKind::kString)) {
    Vec<char> made(uris_.allocator());
    if (!append_resolved(uri(resources_[t.resource]), doc_.text(id), made)) return kErrMemory;
    const Resource r = {t.node, static_cast<uint32_t>(uris_.size()), static_cast<uint32_t>(made.size())};
    if (!append(uris_, str(made)) || !resources_.push(r)) return kErrMemory;
    t.resource = static_cast<uint32_t>(resources_.size() - 1);
  }
  resource_of_[t.node] = t.resource + 1;
  const Str names[] = {"$anchor", "$dynamicAnchor"};
  for (Str name : names) {
    const uint32_t a = doc_.find(t.node, name);
    if (a != kNone && doc_.is(a, JsonKind::kString) && !anchors_.push({t.resource, t.node, doc_.text(a)}))
      return kErrMemory;
  }
  return push_children(t.node, t.resource) ? kOk : kErrMemory;
}

Status SchemaReferences::index() {
  if (!resource_of_.resize(doc_.size()) || !resources_.push({0, 0, 0}) || !todo_.push({0, 0}))
    return kErrMemory;
  while (!todo_.empty()) {
    const Todo t = todo_.back();
    todo_.pop();
    if (const Status s = visit(t); s != kOk) return s;
  }
  return kOk;
}

uint32_t SchemaReferences::resource_at(uint32_t node) const {
  for (; node != kNone; node = doc_.parent(node))
    if (resource_of_[node]) return resource_of_[node] - 1;
  return 0;
}

Status SchemaReferences::point(uint32_t node, Str pointer, uint32_t* out) const {
  Vec<char> token(uris_.allocator());
  for (size_t at = 0; at < pointer.size() && node != kNone;) {
    ++at;  // the slash
    token.clear();
    for (; at < pointer.size() && pointer[at] != '/'; ++at) {
      char c = pointer[at];
      if (c == '~' && at + 1 < pointer.size()) c = pointer[++at] == '1' ? '/' : '~';
      if (!token.push(c)) return kErrMemory;
    }
    if (doc_.is(node, JsonKind::kArray)) {
      uint64_t index = 0;
      for (char c : token)
        index =
            c >= '0' && c <= '9' && index < 1u << 30 ? index * 10 + static_cast<uint64_t>(c - '0') : 1u << 31;
      node = token.empty() ? kNone : doc_.first(node);
      for (; index && node != kNone; --index) node = doc_.next(node);
    } else {
      node = doc_.find(node, str(token));
    }
  }
  *out = node;
  return kOk;
}

Status SchemaReferences::resolve(uint32_t schema, Str ref, uint32_t* out) {
  *out = kNone;
  const size_t hash = find_char(ref, '#');
  Vec<char> whole(uris_.allocator()), fragment(uris_.allocator());
  uint32_t resource = resource_at(schema);
  if (!append_resolved(uri(resources_[resource]), ref, whole)) return kErrMemory;
  if (hash != 0) {
    // By its name; one without a name cannot be meant.
    uint32_t found = kNone;
    for (uint32_t r = 0; r < resources_.size() && found == kNone; ++r) {
      Str u = uri(resources_[r]);
      u = u.sub(0, find_char(u, '#'));
      if (u == str(whole) && !u.empty()) found = r;
    }
    if (found == kNone) return kOk;
    resource = found;
  }
  auto hex = [](char c) {
    return c >= '0' && c <= '9'                     ? c - '0'
           : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                    : -1;
  };
  for (size_t i = hash + 1; i < ref.size(); ++i) {
    char c = ref[i];
    if (c == '%' && i + 2 < ref.size() && hex(ref[i + 1]) >= 0 && hex(ref[i + 2]) >= 0) {
      c = static_cast<char>(hex(ref[i + 1]) * 16 + hex(ref[i + 2]));
      i += 2;
    }
    if (!fragment.push(c)) return kErrMemory;
  }
  const uint32_t root = resources_[resource].node;
  if (fragment.empty()) {
    *out = root;
  } else if (fragment[0] == '/') {
    return point(root, str(fragment), out);
  } else {
    // A resource may be found twice: once as itself, once by the pointer that leads there.
    for (const Anchor& a : anchors_)
      if (a.name == str(fragment) && resources_[a.resource].node == root) *out = a.node;
  }
  return kOk;
}

}  // namespace grammar
}  // namespace gcrt
