#pragma once
// Numbers of JSON as sets of their spellings: bounds, multiples and equality become automata over digits, so that they can
// be combined with one another (dfa.h) whatever they are. All are exact: no double is involved.
//
// A constrained number is written without an exponent, with at most kIntegerDigits and kFractionDigits digits (a model
// that begins to repeat digits must come to an end).
#include <stdint.h>

#include "runtime/base/status.h"
#include "runtime/base/vec.h"
#include "runtime/text/grammar/dfa.h"

namespace gcrt {
namespace grammar {

constexpr int kIntegerDigits = 20, kFractionDigits = 16;

// An exact decimal: whole.fraction without superfluous zeros ("0" before the point when there is nothing).
struct Decimal {
  explicit Decimal(Allocator a) : whole(a), fraction(a) {}
  bool negative = false;
  Vec<char> whole, fraction;
  bool is_zero() const { return whole.size() == 1 && whole[0] == '0' && fraction.empty(); }
  bool is_integer() const { return fraction.empty(); }
  // The value when it is an integer of at most 9 digits, else -1.
  int64_t small() const;
};
// Of a JSON number. kErrFull: its exponent is beyond 400.
Status parse_decimal(Str text, Decimal& out);
// As it would be written.
Status append_decimal(const Decimal& d, Vec<char>& out);
int compare(const Decimal& a, const Decimal& b);

// Spellings without an exponent.
Status set_plain_numbers(Dfa& out);
Status set_integers(Dfa& out);        // as they should be written: no fraction
Status set_integer_values(Dfa& out);  // also 1.0
// Those that are less than, equal to or greater than `bound`, as asked for.
Status set_compared(const Decimal& bound, bool less, bool equal, bool greater, Dfa& out);
// Multiples of `of` > 0. kErrFull: there would be too many states.
Status set_multiples(const Decimal& of, Dfa& out);

}  // namespace grammar
}  // namespace gcrt
