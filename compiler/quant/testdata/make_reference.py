#!/usr/bin/env python3
"""Writes reference.txt: what the PyPI package `gguf` (numpy) decodes from pseudo-random blocks, as a hash over 256
blocks and the bits of the first 8 values. reference_test.cc makes the same blocks. Needs `pip install gguf`; run from
anywhere."""

import pathlib

import gguf
import numpy as np

BLOCKS = 256
U64 = (1 << 64) - 1


def random_bytes(n, seed):  # splitmix64, 8 bytes a step, little-endian
    out = bytearray()
    while len(out) < n:
        seed = (seed + 0x9E3779B97F4A7C15) & U64
        z = seed
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & U64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & U64
        out += (z ^ (z >> 31)).to_bytes(8, "little")
    return bytes(out[:n])


def fnv1a(data):
    h = 0xCBF29CE484222325
    for byte in data:
        h = ((h ^ byte) * 0x100000001B3) & U64
    return h


def f16(raw):
    return np.frombuffer(raw, dtype="<f2").astype(np.float32)


def decode_q8_1(b):
    return f16(b[:2]) * np.frombuffer(b[4:], dtype=np.int8).astype(np.float32)


def decode_q8_k(b):
    return np.frombuffer(b[:4], dtype="<f4") * np.frombuffer(b[4:260], dtype=np.int8).astype(np.float32)


def decode_q1_0(b):
    bits = np.unpackbits(np.frombuffer(b[2:], dtype=np.uint8), bitorder="little")
    return np.where(bits == 1, f16(b[:2]), -f16(b[:2]))


def decode_q2_0(b):
    codes = np.frombuffer(b[2:], dtype=np.uint8)[:, None] >> np.array([0, 2, 4, 6], dtype=np.uint8) & 3
    return f16(b[:2]) * (codes.reshape(-1).astype(np.float32) - np.float32(1))


def pairs_of_bits(b):  # u8[64] to 2-bit codes [256], as Q2_K
    return (b.reshape(2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[None, :, None] & 3).reshape(-1)


def nibbles(b):  # u8[n] to [2 n], low first
    return np.stack([b & 15, b >> 4], axis=1).reshape(-1)


def planes_of_bits(b):  # u8[32] to bit i/32 of byte i%32
    return (b[None, :] >> np.arange(8, dtype=np.uint8)[:, None] & 1).reshape(-1)


def decode_q6_0(b):
    qh, qs = np.frombuffer(b[2:10], np.uint8), np.frombuffer(b[10:], np.uint8)
    low = np.concatenate([qs & 15, qs >> 4])
    high = np.concatenate([qh >> s & 3 for s in (0, 4, 2, 6)])
    return f16(b[:2]) * ((low | high << 4).astype(np.float32) - np.float32(32))


# The tables of the IQ*_K: all that a set bit of `extra` adds is the last number.
IQK = {
    "IQ2_K": ([-31, -13, 1, 17], 5),
    "IQ3_K": ([-63, -40, -23, -10, 1, 13, 28, 47], 4),
    "IQ4_K": ([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], 4),
    "IQ5_K": ([-126, -114, -103, -92, -83, -74, -65, -57, -50, -43, -36, -30, -24, -18, -12, -6,
               -1, 5, 11, 17, 23, 29, 36, 43, 51, 59, 68, 77, 87, 97, 109, 121], 2),
}


def decode_iq_k(name, b):
    raw = np.frombuffer(b, np.uint8)
    extra = np.unpackbits(raw[2:4], bitorder="little").astype(np.int32)
    if name == "IQ2_K":
        scale, q = nibbles(raw[4:12]).astype(np.int32) - 8, pairs_of_bits(raw[12:])
    elif name == "IQ3_K":
        sign = 1 - 2 * np.unpackbits(raw[4:6], bitorder="little").astype(np.int32)
        scale = (2 * nibbles(raw[6:14]).astype(np.int32) + 1) * sign
        q = pairs_of_bits(raw[14:78]) | planes_of_bits(raw[78:]) << 2
    else:
        high = (raw[4:8, None] >> np.array([0, 2, 4, 6], np.uint8) & 3).reshape(-1)
        scale = (nibbles(raw[8:16]) | high << 4).astype(np.int32) - 32
        if name == "IQ4_K":
            qs = raw[16:].reshape(8, 16)
            q = np.stack([qs & 15, qs >> 4], axis=1).reshape(-1)
        else:
            qs = raw[16:144].reshape(4, 32)
            q = np.stack([qs & 15, qs >> 4], axis=1).reshape(-1) | planes_of_bits(raw[144:]) << 4
    table, shift = IQK[name]
    value = np.array(table)[q] + np.repeat(extra, 16) * shift
    return f16(b[:2]) * np.repeat(scale, 16).astype(np.float32) * value.astype(np.float32)


# Types whose decoder the package lacks: name, (gguf id, values, bytes), formula.
OWN = {
    "Q8_1": (9, 32, 36, decode_q8_1),
    "Q8_K": (15, 256, 292, decode_q8_k),
    "Q1_0": (41, 128, 18, decode_q1_0),
    "Q2_0": (42, 64, 18, decode_q2_0),
    "Q6_0": (133, 32, 26, decode_q6_0),
    "IQ2_K": (137, 256, 76, lambda b: decode_iq_k("IQ2_K", b)),
    "IQ3_K": (138, 256, 110, lambda b: decode_iq_k("IQ3_K", b)),
    "IQ4_K": (139, 256, 144, lambda b: decode_iq_k("IQ4_K", b)),
    "IQ5_K": (140, 256, 176, lambda b: decode_iq_k("IQ5_K", b)),
}
PACKAGE = """F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ3_XXS
IQ3_S IQ4_NL IQ4_XS TQ1_0 TQ2_0 MXFP4 NVFP4""".split()

lines = ["# name, FNV-1a of the f32 bytes (any NaN as 0x7fc00000), bits of the first values. By make_reference.py."]
with np.errstate(all="ignore"):
    for name in PACKAGE + list(OWN):
        if name in OWN:
            gguf_id, _, size, formula = OWN[name]
            raw = random_bytes(size * BLOCKS, gguf_id)
            values = np.concatenate([formula(raw[i : i + size]) for i in range(0, len(raw), size)])
        else:
            kind = gguf.GGMLQuantizationType[name]
            size = gguf.GGML_QUANT_SIZES[kind][1]
            raw = random_bytes(size * BLOCKS, int(kind))
            if name == "F32":
                values = np.frombuffer(raw, dtype="<f4")
            elif name == "F16":
                values = f16(raw)
            else:
                values = gguf.quants.dequantize(np.frombuffer(raw, dtype=np.uint8), kind)
        bits = np.ascontiguousarray(values, dtype=np.float32).reshape(-1).view(np.uint32).copy()
        bits[np.isnan(bits.view(np.float32))] = 0x7FC00000
        lines.append(f"{name} {fnv1a(bits.tobytes()):016x} " + " ".join(f"{b:08x}" for b in bits[:8]))
path = pathlib.Path(__file__).with_name("reference.txt")
path.write_text("\n".join(lines) + "\n")
