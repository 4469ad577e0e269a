"""Copies a GGUF file with more metadata: add_metadata.py IN OUT KEY=f32:X | KEY=i32:N | KEY=str:TEXT ...

What is put before the other keys is filled up to a multiple of 32 bytes, so that nothing after it changes its alignment.
"""
import shutil
import struct
import sys

TYPES = {"i32": (5, lambda v: struct.pack("<i", int(v))), "f32": (6, lambda v: struct.pack("<f", float(v))),
         "str": (8, lambda v: struct.pack("<Q", len(v.encode())) + v.encode())}


def entry(key, kind, value):
    number, pack = TYPES[kind]
    return struct.pack("<Q", len(key)) + key.encode() + struct.pack("<I", number) + pack(value)


def main():
    source, target, *pairs = sys.argv[1:]
    added = b"".join(entry(key, *value.split(":", 1)) for key, value in (p.split("=", 1) for p in pairs))
    empty = len(entry("test.filler", "str", ""))
    added += entry("test.filler", "str", "." * (-(len(added) + empty) % 32))
    with open(source, "rb") as f, open(target, "wb") as out:
        magic, version, n_tensors, n_keys = struct.unpack("<4sIQQ", f.read(24))
        out.write(struct.pack("<4sIQQ", magic, version, n_tensors, n_keys + len(pairs) + 1) + added)
        shutil.copyfileobj(f, out)


main()
