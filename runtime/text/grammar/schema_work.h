#pragma once
// What schema_terms.cc and schema_deny.cc share.
#include "runtime/text/grammar/schema_terms.h"

namespace gcrt {
namespace grammar {

inline Fact fact(FactKind kind, uint32_t node = kNone) {
  Fact f;
  f.kind = kind, f.node = node;
  return f;
}
inline Fact keyed(FactKind kind, Str text, Ref ref = kAnything) {
  Fact f;
  f.kind = kind, f.text = text, f.ref = ref;
  return f;
}
inline Fact counted(FactKind kind, uint32_t a, uint32_t b) {
  Fact f;
  f.kind = kind, f.a = a, f.b = b;
  return f;
}

// Cubes in the making: what must still be taken apart, what was, choices that are open.
struct Terms::Work {
  explicit Work(Allocator a) : cube(a), pending(a), done(a), open(a) {}
  bool copy(const Work& w) {
    cube.types = w.cube.types, cube.closed = w.cube.closed, choices = w.choices;
    return cube.facts.copy(w.cube.facts) && pending.copy(w.pending) && done.copy(w.done) && open.copy(w.open);
  }
  bool add(const Fact& f) { return cube.facts.push(f); }
  Choice* choice(Allocator a) {
    if (!open.push(static_cast<uint32_t>(choices->size())) || !choices->push(Choice(a))) return nullptr;
    return &choices->back();
  }

  Cube cube;
  Vec<Ref> pending, done;
  Vec<uint32_t> open;              // of *choices
  Vec<Choice>* choices = nullptr;  // of the whole expansion
};

}  // namespace grammar
}  // namespace gcrt
