"""Copies a GGUF file with one string of its metadata replaced by another of the same length, so that nothing moves:
edit_gguf.py IN OUT KEY=VALUE
"""
import struct
import sys

source, target, setting = sys.argv[1:]
key, value = setting.split("=", 1)
data = bytearray(open(source, "rb").read())
STRING = 8  # the value type's number in the file
head = struct.pack("<Q", len(key)) + key.encode() + struct.pack("<I", STRING)
at = data.index(head) + len(head)
(length,) = struct.unpack_from("<Q", data, at)
if len(value) != length:
    sys.exit(f"edit_gguf: '{key}' has a string of {length} bytes, '{value}' has {len(value)}")
data[at + 8 : at + 8 + length] = value.encode()
open(target, "wb").write(data)
