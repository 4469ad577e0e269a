"""Writes unicode.inc. Run with unicodedata2 15.1.0 from PyPI, the version that vocabularies' makers use.

usage: make_unicode.py > unicode.inc
"""
import unicodedata2

CLASSES = {"L": 1, "N": 2, "M": 3, "P": 4, "S": 5}
SPACE = 6
CONTROL = 7
SPACES = {0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000} | set(range(9, 14)) | {0x20} | set(
    range(0x2000, 0x200B))


def class_of(c):
    if c in SPACES:
        return SPACE
    category = unicodedata2.category(chr(c))
    if category in ("Cc", "Cf", "Co", "Cs"):
        return CONTROL
    return CLASSES.get(category[0], 0)


def show(name, comment, items):
    print(f"// {comment}")
    print(f"constexpr std::uint32_t {name}[] = {{")
    row = "   "
    for item in items:
        if len(row) + len(item) + 2 > 110:
            print(row)
            row = "   "
        row += f" {item},"
    print(row)
    print("};")


def changes(of):
    last = None
    for c in range(0x110000):
        k = of(c)
        if k != last:
            yield c, k
        last = k


def distance_ranges(to):
    """first, last, to(first) - first for each run of characters that are moved by the same distance."""
    run = None
    for c in range(0x110000):
        d = 0 if 0xD800 <= c < 0xE000 else to(c) - c
        if run and (d != run[2] or c != run[1] + 1):
            yield run
            run = None
        if d and run:
            run = (run[0], c, d)
        elif d:
            run = (c, c, d)
    if run:
        yield run


def target_ranges(to):
    """first, last, target for each run of characters that become the same one."""
    run = None
    for c in range(0x110000):
        t = c if 0xD800 <= c < 0xE000 else to(c)
        if run and (t != run[2] or c != run[1] + 1):
            yield run
            run = None
        if t != c:
            run = (run[0], c, t) if run else (c, c, t)
    if run:
        yield run


def flat(ranges):
    for first, last, d in ranges:
        yield f"0x{first:X}, 0x{last:X}, 0x{d & 0xFFFFFFFF:X}"


assert unicodedata2.unidata_version == "15.1.0"
print("// Made by make_unicode.py from Unicode 15.1.")
show("kClassChanges", "Code point << 3 | class, where the class changes.",
     (f"0x{c << 3 | k:X}" for c, k in changes(class_of)))
show("kDecompositions", "First, last, the first character of their canonical decomposition.",
     flat(target_ranges(lambda c: ord(unicodedata2.normalize("NFD", chr(c))[0]))))
show("kLowercase", "First, last, distance from a character to its lower case's first.",
     flat(distance_ranges(lambda c: ord(chr(c).lower()[0]))))
