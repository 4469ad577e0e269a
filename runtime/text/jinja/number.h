#pragma once
// Floats as Python writes and reads them, without libc's printf and strtod: those follow the locale of the host
// program. Exact: the digits come from integers of any length where doubles do not suffice.
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/span.h"

namespace gcrt {
namespace jinja {

// repr(v): the shortest digits that read back to v ("0.1", "1e+16", "1000.0", "nan", "-inf"). Returns the bytes written.
size_t float_repr(double v, char (&out)[40]);
// "%.{decimals}f", decimals 0 to 60, v finite, below 1e300: at most 400 bytes.
size_t float_fixed(double v, int decimals, char (&out)[400]);
// Of a finite v: `n` (1 to 40) significant digits, correctly rounded, and *point: v = 0.d1d2d3... * 10^point.
void float_digits(double v, int n, char* digits, int* point);
// All of s is digits[.digits][e[+-]digits], with a sign or without. Correctly rounded (exact up to 700 digits); too
// large gives infinity.
bool parse_float(Str s, double* v);

}  // namespace jinja
}  // namespace gcrt
