"""Writes unicode_classes.inc. Run with unicodedata2 15.1.0 from PyPI, the version that vocabularies' makers use.

usage: make_unicode_classes.py > unicode_classes.inc
"""
import unicodedata2

CLASSES = {"L": 1, "N": 2, "M": 3, "P": 4, "S": 5}
SPACE = 6
SPACES = {0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000} | set(range(9, 14)) | {0x20} | set(
    range(0x2000, 0x200B))


def class_of(c):
    return SPACE if c in SPACES else CLASSES.get(unicodedata2.category(chr(c))[0], 0)


assert unicodedata2.unidata_version == "15.1.0"
print("// Made by make_unicode_classes.py from Unicode 15.1: code point << 3 | class, where the class changes.")
last, row = None, ""
for c in range(0x110000):
    k = class_of(c)
    if k == last:
        continue
    last = k
    item = f"0x{c << 3 | k:X}, "
    if len(row) + len(item) > 110:
        print(row.rstrip())
        row = ""
    row += item
print(row.rstrip())
