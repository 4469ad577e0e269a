#pragma once
// A schema by the rules of logic. A *term* is a set of schemas, each as it is or negated, that one value must fulfil; the
// empty one is what any value fulfils. A term expands to *cubes*, one of which must hold: what types the value may have,
// and facts, each of which limits values of one type. Negations are pushed down to the facts ("not minLength 2": a string
// of at most one character), so a cube has none.
#include <stdint.h>

#include "runtime/base/format.h"
#include "runtime/base/status.h"
#include "runtime/base/vec.h"
#include "runtime/text/grammar/dfa.h"
#include "runtime/text/grammar/interner.h"
#include "runtime/text/grammar/json.h"
#include "runtime/text/grammar/schema_refs.h"

namespace gcrt {
namespace grammar {

// A schema of a term: the node, whether it is a value that is meant itself (const), whether it is negated.
using Ref = uint32_t;
constexpr Ref schema_ref(uint32_t node, bool negated = false) { return node << 2 | negated; }
constexpr Ref value_ref(uint32_t node, bool negated = false) { return node << 2 | 2 | negated; }
constexpr Ref kNothing = 0xFFFFFFFD;   // what no value fulfils
constexpr Ref kAnything = 0xFFFFFFFC;  // its negation

enum Type : uint32_t {
  kNull = 1,
  kFalse = 2,
  kTrue = 4,
  kNumber = 8,
  kString = 16,
  kArray = 32,
  kObject = 64,
  kAllTypes = 127
};

enum class FactKind : uint8_t {
  // Numbers.
  kInteger,  // negated: has a fraction
  kMinimum,  // node: the bound; exclusive
  kMaximum,
  kMultiple,  // node
  kNumberIn,  // node: an enum's array, or a value
  // Strings.
  kLength,    // a to b characters
  kPattern,   // text
  kFormat,    // text
  kStringIn,  // node
  // Arrays.
  kItems,      // a to b items
  kItemAt,     // item a, if it is there, fulfils ref
  kItemsFrom,  // items a, a + 1, ... fulfil ref
  kCount,      // a to b items from the first on fulfil ref
  kSomeFrom,   // one of items a, a + 1, ... fulfils ref
  // Objects.
  kRequired,      // text: the key
  kAbsent,        // text
  kProperty,      // text; if it is there, it fulfils ref
  kMatching,      // properties with keys that match text fulfil ref
  kOthers,        // properties that schema `node` doesn't name (or value `node` doesn't have) fulfil ref
  kNames,         // keys fulfil ref
  kSomeMatching,  // one of these properties is there and fulfils ref
  kSomeOther,
  kSomeName,    // a key fulfils ref
  kProperties,  // a to b properties
};

struct Fact {
  FactKind kind = FactKind::kInteger;
  bool negated = false;
  bool exclusive = false;  // a bound is; kOthers: `node` is a value
  uint32_t node = kNone;
  Ref ref = kAnything;
  uint32_t a = 0, b = 0xFFFFFFFF;
  Str text;
};

struct Cube {
  explicit Cube(Allocator a) : facts(a) {}
  uint32_t types = kAllTypes;
  bool closed = false;  // no properties but those that facts name
  Vec<Fact> facts;
};

class Terms {
 public:
  Terms(const JsonDocument& doc, Span<char> message, Allocator a)
      : doc_(doc),
        references_(doc, a),
        message_(message),
        allocator_(a),
        sets_(a),
        sorted_(a),
        checking_(a),
        checked_(a) {}

  Status init();
  // The id of a set of schemas.
  uint32_t term(Span<const Ref> refs);
  Span<const Ref> refs(uint32_t term) const { return sets_[term]; }
  Status expand(Span<const Ref> refs, Vec<Cube>& out);
  // What a cube says of its numbers and strings. *any: nothing, and `out` is not set.
  Status number_set(const Cube& cube, Dfa& out, bool* any);
  // `lengths`: those too; else they are left out, for whoever counts.
  Status string_set(const Cube& cube, bool lengths, Dfa& out, bool* any);
  // The strings that fulfil a set of schemas.
  Status string_language(Span<const Ref> refs, Dfa& out);
  Status regex(uint32_t node, Str keyword, Str pattern, Dfa& out);
  // Is there surely no value that fulfils both? (False where that takes too long to find out.)
  Status disjoint(Ref a, Ref b, bool* out);

  // "#/properties/a: what", once. Returns `s`.
  template <class... Parts>
  Status fail(Status s, uint32_t node, const Parts&... parts) {
    Writer w(message_.data(), message_.size());
    put_path(w, node);
    w.put(": ");
    format(w, parts...);
    return s;
  }
  const JsonDocument& doc() const { return doc_; }
  Allocator allocator() const { return allocator_; }

 private:
  // One way to fulfil something: more types ruled out, more schemas, more facts.
  struct Way {
    explicit Way(Allocator a) : refs(a), facts(a) {}
    uint32_t types = kAllTypes;
    Vec<Ref> refs;
    Vec<Fact> facts;
  };
  struct Choice {
    explicit Choice(Allocator a) : ways(a) {}
    Vec<Way> ways;
  };
  struct Work;  // schema_terms.cc

  void put_path(Writer& w, uint32_t node) const;
  Status check(uint32_t node);
  Status run(Work& work, Vec<Cube>& out);
  Status take(Work& work, Ref ref);
  Status take_value(Work& work, uint32_t node, bool negated);
  Status assert_schema(Work& work, uint32_t node);
  Status assert_keyword(Work& work, uint32_t schema, uint32_t member);
  Status deny_schema(Work& work, uint32_t node);
  Status deny_keyword(uint32_t schema, uint32_t member, Choice& c);
  Status take_one_of(Work& work, uint32_t member);
  Status take_enum(Work& work, uint32_t member);
  Status deny_enum(uint32_t member, Choice& c);
  Status number(uint32_t node, uint32_t* out);
  Status surely_empty(Span<const Ref> refs, int depth, bool* out);
  Status surely_empty(const Cube& cube, int depth, bool* out);
  Status format_set(uint32_t node, Str name, Dfa& out);
  Status types_of(uint32_t member, uint32_t* types, bool* integer);
  uint32_t first_item(uint32_t schema) const;
  bool evaluates_alone(uint32_t schema) const;
  Status target(uint32_t schema, uint32_t member, uint32_t* out);

  const JsonDocument& doc_;
  SchemaReferences references_;
  Span<char> message_;
  Allocator allocator_;
  Interner sets_;
  Vec<Ref> sorted_;
  Vec<uint8_t> checking_, checked_;  // [node]
  uint32_t n_cubes_ = 0;             // of the current expansion
  uint64_t steps_ = 0;
  int depth_ = 0;
};

}  // namespace grammar
}  // namespace gcrt
