#!/usr/bin/env python3
"""Prints char_width.inc: ranges of characters that take no column of a terminal, and of those that take two."""
import unicodedata


def width(c):
    x = chr(c)
    if unicodedata.category(x) in ("Mn", "Me", "Cf") and c != 0xAD or 0x1160 <= c <= 0x11FF:
        return 0
    if unicodedata.category(x) == "Cn":  # of which Python doesn't know: wide in the planes of ideographs
        return 2 if 0x20000 <= c <= 0x3FFFD else 1
    return 2 if unicodedata.east_asian_width(x) in "WF" else 1


print(f"// Made by make_char_width.py from Unicode {unicodedata.unidata_version}.")
for name, wanted in (("kZeroWide", 0), ("kTwoWide", 2)):
    ranges = []
    for c in range(0x110000):
        if width(c) == wanted:
            if ranges and ranges[-1][1] == c - 1:
                ranges[-1][1] = c
            else:
                ranges.append([c, c])
    print(f"constexpr CharRange {name}[] = {{")
    line = "   "
    for a, b in ranges:
        item = f" {{0x{a:X}, 0x{b:X}}},"
        if len(line) + len(item) > 110:
            print(line)
            line = "   "
        line += item
    print(line + "\n};")
