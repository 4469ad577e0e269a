#!/usr/bin/env python3
"""Prints unicode.inc: simple case mappings as ranges {first, last, step, delta}, the characters whose upper case is more
than one character as {code, {c1, c2, c3}}, and what Python's str says of characters: code << 4 | flags, where the flags
change (1 printable, 2 alpha, 4 digit, 8 numeric)."""
import unicodedata


def ranges(pairs):
    out = []
    for c, to in pairs:
        d = to - c
        if out and out[-1][3] == d:
            first, last, step, _ = out[-1]
            if (first == last and c - last in (1, 2)) or c - last == step:
                out[-1] = [first, c, c - last, d]
                continue
        out.append([c, c, 1, d])
    return out


def show(kind, name, rows):
    print(f"constexpr {kind} {name}[] = {{")
    line = "   "
    for row in rows:
        if len(line) + len(row) + 2 > 108:
            print(line)
            line = "   "
        line += " " + row + ","
    print(line + "\n};")


chars = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
print(f"// Made by make_unicode.py from Unicode {unicodedata.unidata_version}.")
for name, f in (("kToUpper", str.upper), ("kToLower", str.lower)):
    pairs = [(c, ord(f(chr(c)))) for c in chars if len(f(chr(c))) == 1 and f(chr(c)) != chr(c)]
    show("CaseRange", name, [f"{{0x{a:X}, 0x{b:X}, {s}, {d}}}" for a, b, s, d in ranges(pairs)])
wide = [(c, [ord(u) for u in chr(c).upper()]) for c in chars if len(chr(c).upper()) > 1]
show("WideUpper", "kWideUpper", [f"{{0x{c:X}, {{" + ", ".join(f"0x{u:X}" for u in us) + "}}" for c, us in wide])


def flags(c):
    x = chr(c)
    return x.isprintable() | x.isalpha() << 1 | x.isdigit() << 2 | x.isnumeric() << 3


rows, last = [], None
for c in range(0x110000):
    if flags(c) != last:
        last = flags(c)
        rows.append(f"0x{c << 4 | last:X}")
show("uint32_t", "kCharFlags", rows)
