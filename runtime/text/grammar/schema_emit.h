#pragma once
// Cubes (schema_terms.h) to rules: one rule for each term, with a part for each type of value.
#include <stdint.h>

#include "runtime/text/grammar/network.h"
#include "runtime/text/grammar/schema_terms.h"

namespace gcrt {
namespace grammar {

class SchemaEmitter {
 public:
  SchemaEmitter(Terms& terms, Network& net)
      : terms_(terms), doc_(terms.doc()), net_(net), a_(terms.allocator()), rules_(a_), todo_(a_) {}

  // The rule of the whole document.
  Status run(uint32_t* root);

 private:
  // Items of an array.
  struct ArrayShape {
    explicit ArrayShape(Allocator a) : at(a), from(a) {}
    uint32_t min = 0, max = Network::kUnbounded;
    uint32_t prefix = 0;  // items that are told apart by their index
    Vec<Fact> at, from;
    bool counts = false;  // `least` to `most` items from `first` on fulfil `counted`
    uint32_t first = 0, least = 0, most = Network::kUnbounded;
    Ref counted = kAnything;
  };
  struct Named {
    explicit Named(Allocator a) : refs(a) {}
    Str key;
    Vec<Ref> refs;
    bool required = false, absent = false;
  };
  // Keys that no fact names, and what their values fulfil.
  struct Cell {
    explicit Cell(Allocator a) : keys(a), refs(a) {}
    Dfa keys;
    bool any_key = false;  // all of them; keys is not set
    Vec<Ref> refs;
  };
  struct ObjectShape {
    explicit ObjectShape(Allocator a) : named(a), cells(a) {}
    Vec<Named> named;
    Vec<Cell> cells;
    uint32_t min = 0, max = Network::kUnbounded;
    bool has_witness = false;  // a property of `witness` must be there, and come last
    uint32_t node = kNone;     // to name in messages
  };

  Status rule_of(Span<const Ref> refs, uint32_t* rule);
  Status define(uint32_t term, uint32_t rule);
  Status cube(const Cube& c, Fragment all);

  void join(Fragment part, Fragment all) {
    net_.epsilon(all.start, part.start);
    net_.epsilon(part.end, all.end);
  }
  Fragment space() { return net_.of_rule(space_); }
  // A call of the rule of a value, and the white space after it.
  uint32_t value(uint32_t from, uint32_t rule);
  Fragment token(Str text) { return net_.sequence(net_.of_text(text), space()); }
  void make_shared();
  void json_char(uint32_t from, uint32_t lo, uint32_t hi, uint32_t to);
  Fragment of_set(const Dfa& set, bool json);
  Fragment quoted(Str text);
  Fragment quoted_set(const Dfa& set);

  Status number(const Cube& c, Fragment all);
  Status string(const Cube& c, Fragment all);
  Status array(const Cube& c, Fragment all);
  Status plain_items(const ArrayShape& s, uint32_t from, uint32_t to);
  Status counted_items(const ArrayShape& s, uint32_t node, uint32_t from, uint32_t to);
  Status item(const ArrayShape& s, uint32_t index, int counted, uint32_t* rule);
  Status object(const Cube& c, Fragment all);
  Status shape(const Cube& c, ObjectShape& s);
  Status key_set(const Fact& f, Dfa& out);
  Status split_cells(const Cube& c, ObjectShape& s);
  Status members(const Cube& c, ObjectShape& s, const Fact* witness, Fragment all);
  Status members_with_witness(const Cube& c, const Fact& some, Fragment all);
  Status member(const Cell& cell, Fragment* out);

  Terms& terms_;
  const JsonDocument& doc_;
  Network& net_;
  Allocator a_;
  Vec<uint32_t> rules_;  // [term] its rule
  struct Todo {
    uint32_t term, rule;
  };
  Vec<Todo> todo_;
  uint32_t space_ = 0, string_ = 0, char_ = 0, number_ = 0;
};

}  // namespace grammar
}  // namespace gcrt
