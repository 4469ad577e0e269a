#pragma once
// Columns of a terminal that a character takes: 0 for marks that join the one before, 2 for East Asian wide ones and
// emoji, else 1. A table of our own (4 kB), because libc's wcwidth() needs a locale, which a static program in a bare
// container doesn't have.
#include <stdint.h>

#include "runtime/base/span.h"

namespace gcrt {

int char_width(uint32_t code);
int text_width(Str utf8);

// The character at text[at], which is not the text's end: its bytes (a byte that is no UTF-8 is one by itself) and,
// unless null, its code point.
size_t char_bytes(Str text, size_t at, uint32_t* code = nullptr);
// Where the character after the one at `at`, or the one before `at`, begins, with the marks that join it.
size_t next_char(Str text, size_t at);
size_t previous_char(Str text, size_t at);

}  // namespace gcrt
