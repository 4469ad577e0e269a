"""Writes GGUF files byte by byte, wrong ones included: nothing is checked, and every number of the file can be another
than the true one.

  f = tiny.gemma3()
  f.set("gemma3.block_count", U32, 0)
  f.tensor("token_embd.weight").dims = [4, 0]
  f.bytes(n_keys=2**64 - 1)
"""
import struct

import numpy as np

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
FORMAT = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "?", U64: "Q", I64: "q", F64: "d"}
TYPE_F32, TYPE_Q8_0, TYPE_I32 = 0, 8, 26


class Raw(bytes):
    """A value that is written as it is."""


class Array:
    """`count` and `element` may lie."""

    def __init__(self, element, items, count=None):
        self.element, self.items, self.count = element, items, count


def string(text, length=None):
    data = text.encode() if isinstance(text, str) else bytes(text)
    return struct.pack("<Q", len(data) if length is None else length) + data


def value(kind, v):
    if isinstance(v, Raw):
        return bytes(v)
    if isinstance(v, Array):
        head = struct.pack("<IQ", v.element, len(v.items) if v.count is None else v.count)
        return head + b"".join(value(v.element, item) for item in v.items)
    return string(v) if kind == STRING else struct.pack("<" + FORMAT[kind], v)


class Tensor:
    """`dims` as in the file: the row's length first. `offset`, `n_dims`: None means the true one."""

    def __init__(self, name, dims, data, kind=TYPE_F32):
        self.name, self.dims, self.data, self.kind = name, list(dims), data, kind
        self.offset = self.n_dims = None

    @staticmethod
    def of(name, values, kind=TYPE_F32):
        """`values`: an array, its last axis the rows' values."""
        return Tensor(name, values.shape[::-1], values.astype("<f4").tobytes(), kind)


class File:
    def __init__(self, keys=(), tensors=()):
        self.keys = list(keys)  # (name, type, value)
        self.tensors = list(tensors)
        self.alignment = 32
        self.version = 3
        self.magic = b"GGUF"

    def set(self, name, kind, v):
        """Replaces the key or adds it."""
        for i, key in enumerate(self.keys):
            if key[0] == name:
                self.keys[i] = (name, kind, v)
                return self
        self.keys.append((name, kind, v))
        return self

    def set_array(self, name, element, items, count=None):
        return self.set(name, ARRAY, Array(element, items, count))

    def get(self, name):
        return next(v for key, _, v in self.keys if key == name)

    def drop(self, name):
        before = len(self.keys)
        self.keys = [key for key in self.keys if key[0] != name]
        assert len(self.keys) < before, name
        return self

    def tensor(self, name):
        return next(t for t in self.tensors if t.name == name)

    def drop_tensor(self, name):
        self.tensors.remove(self.tensor(name))
        return self

    def head(self, n_keys=None, n_tensors=None):
        """All before the data, unpadded."""
        out = self.magic + struct.pack("<I", self.version)
        out += struct.pack("<Q", len(self.tensors) if n_tensors is None else n_tensors)
        out += struct.pack("<Q", len(self.keys) if n_keys is None else n_keys)
        for name, kind, v in self.keys:
            out += (name if isinstance(name, Raw) else string(name)) + struct.pack("<I", kind) + value(kind, v)
        at = 0
        for t in self.tensors:
            n_dims = len(t.dims) if t.n_dims is None else t.n_dims
            out += (t.name if isinstance(t.name, Raw) else string(t.name)) + struct.pack("<I", n_dims)
            out += b"".join(struct.pack("<Q", d % 2**64) for d in t.dims)
            out += struct.pack("<IQ", t.kind, at if t.offset is None else t.offset)
            at += self.padded(len(t.data))
        return out

    def padded(self, n):
        return -(-n // self.alignment) * self.alignment

    def bytes(self, **numbers):
        head = self.head(**numbers)
        out = [head.ljust(self.padded(len(head)), b"\0")]
        out += [t.data.ljust(self.padded(len(t.data)), b"\0") for t in self.tensors]
        return b"".join(out)


def noise(name, shape, scale):
    """The same for the same name, on every machine."""
    seed = np.frombuffer(name.encode().ljust(64, b"\0"), np.uint32)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed.tolist()))).uniform(-scale, scale, shape)


def blocks_q8_0(values):
    """f32 [rows, columns] as Q8_0: a scale in f16 and 32 bytes."""
    v = values.reshape(-1, 32).astype(np.float32)
    scale = np.abs(v).max(1, keepdims=True) / 127
    q = np.rint(v / np.where(scale == 0, 1, scale)).astype(np.int8)
    return np.concatenate([scale.astype("<f2").view(np.uint8), q.view(np.uint8)], 1).tobytes()
