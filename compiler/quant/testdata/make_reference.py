#!/usr/bin/env python3
"""Writes reference.txt and interleaved.txt: what the PyPI package `gguf` (numpy) decodes from pseudo-random blocks, as a hash over 256
blocks and the bits of the first 8 values. reference_test.cc makes the same blocks. Needs `pip install gguf`; run from
anywhere.

  make_reference.py LIBRARY

LIBRARY: ik_llama.cpp's decoders as a shared library (its iqk_quantize.cpp and ggml-quants.c), for the types that only
it has and whose rows begin with a scale (one row of 256 blocks with a scale of 0.1) and for those of interleaved rows
(one group of rows of 512 values, scales of 0.1; -0 is written as 0, since a few decoders there differ in that)."""

import ctypes
import os
import pathlib
import sys

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


IQ6K = """-127 -121 -115 -109 -104 -98 -93 -88 -84 -79 -74 -70 -66 -62 -58 -54 -51 -47 -44 -40 -37 -34 -31 -28 -25 -22 -19
-16 -13 -11 -8 -5 -2 0 3 6 9 12 14 17 20 23 27 30 33 36 40 44 47 51 55 59 63 68 72 77 82 87 92 98 103 109 115 121"""


def decode_iq6_k(b):  # by the table that ik_llama.cpp's products use; its decoder has a curve through it
    raw = np.frombuffer(b, np.uint8)
    extra = np.unpackbits(raw[2:4], bitorder="little").astype(np.int32)
    qs = raw[20:148].reshape(4, 32)
    q = np.stack([qs & 15, qs >> 4], axis=1).reshape(-1) | pairs_of_bits(raw[148:]) << 4
    value = np.array(IQ6K.split(), np.int32)[q] + np.repeat(extra, 16)
    return f16(b[:2]) * np.repeat(raw[4:20].view(np.int8), 16).astype(np.float32) * value.astype(np.float32)


# Rows with a head, by the library: name, (gguf id, bytes of a block, bytes of the head). The decoders of BITNET's begin behind
# the head and leave it out.
BITNET = ("IQ1_BN", "IQ2_BN")
HEADED = {
    "IQ1_BN": (134, 13, 2),
    "IQ2_BN": (135, 16, 4),
    "IQ4_KS": (144, 136, 4),
    "IQ2_KS": (145, 70, 2),
    "IQ4_KSS": (146, 128, 4),
    "IQ5_KS": (152, 168, 4),
    "IQ3_KS": (156, 102, 2),
    "IQ2_KL": (157, 86, 2),
    "IQ2_KT": (153, 68, 4),
    "IQ3_KT": (154, 100, 4),
    "IQ4_KT": (155, 128, 4),
    "IQ1_KT": (158, 56, 4),
}


def decode_headed(library, name):
    gguf_id, size, head = HEADED[name]
    scale = np.array(0.1, "<f4" if head == 4 else "<f2").tobytes()
    row = scale + random_bytes(size * BLOCKS + head, gguf_id)[head:]
    bitnet = name in BITNET
    values = np.zeros((64 if bitnet else 256) * BLOCKS, np.float32)
    function = getattr(library, "dequantize_row_" + name.lower())
    function(row[head if bitnet else 0 :], values.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(values.size))
    return values * np.frombuffer(scale, "<f4" if head == 4 else "<f2").astype(np.float32) if bitnet else values


# Types of interleaved rows: (gguf id, rows, bytes of 512 values, bytes of the head).
INTERLEAVED = {
    "Q4_0_R8": (202, 8, 288, 0),
    "Q5_0_R4": (206, 4, 352, 0),
    "Q8_0_R8": (208, 8, 544, 0),
    "Q2_K_R4": (210, 4, 168, 0),
    "Q3_K_R4": (211, 4, 220, 0),
    "Q4_K_R4": (212, 4, 288, 0),
    "Q5_K_R4": (213, 4, 352, 0),
    "Q6_K_R4": (214, 4, 420, 0),
    "IQ2_XXS_R4": (216, 4, 132, 0),
    "IQ2_XS_R4": (217, 4, 148, 0),
    "IQ3_XXS_R4": (218, 4, 196, 0),
    "IQ1_S_R4": (219, 4, 96, 2),
    "IQ4_NL_R4": (220, 4, 288, 0),
    "IQ3_S_R4": (221, 4, 220, 0),
    "IQ2_S_R4": (222, 4, 164, 0),
    "IQ4_XS_R8": (223, 8, 272, 0),
    "IQ1_M_R4": (229, 4, 112, 2),
    "BF16_R16": (230, 16, 1024, 0),
    "Q6_0_R4": (233, 4, 416, 0),
    "IQ2_BN_R4": (335, 4, 128, 4),
    "IQ2_K_R4": (337, 4, 152, 0),
    "IQ3_K_R4": (338, 4, 220, 0),
    "IQ4_K_R4": (339, 4, 288, 0),
    "IQ5_K_R4": (340, 4, 352, 0),
    "IQ4_KS_R4": (344, 4, 272, 4),
    "IQ5_KS_R4": (352, 4, 336, 4),
    "MXFP4_R8": (353, 8, 272, 0),
}


def decode_interleaved(library, name):
    gguf_id, rows, size, head = INTERLEAVED[name]
    scales = np.full(rows, 0.1, "<f4" if head == 4 else "<f2").tobytes() if head else b""
    group = scales + random_bytes(rows * (size + head), gguf_id)[len(scales):]
    if name == "BF16_R16":
        pairs = np.frombuffer(group, "<u2").reshape(256, 16, 2).transpose(1, 0, 2).astype(np.uint32) << 16
        return np.ascontiguousarray(pairs).view(np.float32).reshape(-1)
    if name == "MXFP4_R8":  # the library's walks past the end
        blocks = np.frombuffer(group, np.uint8).reshape(16, 136)
        codes = blocks[:, 8:].reshape(16, 4, 8, 4).transpose(2, 0, 1, 3).reshape(8, 16, 16)
        plain = np.concatenate([blocks[:, :8].T[:, :, None], codes], axis=2)
        return gguf.quants.dequantize(np.ascontiguousarray(plain).reshape(-1), gguf.GGMLQuantizationType.MXFP4)
    values = np.zeros(512 * rows, np.float32)
    function = getattr(library, "dequantize_row_" + name.lower())
    function(group, values.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(values.size))
    return values


def line(name, values):
    bits = np.ascontiguousarray(values, dtype=np.float32).reshape(-1).view(np.uint32).copy()
    bits[np.isnan(bits.view(np.float32))] = 0x7FC00000
    return f"{name} {fnv1a(bits.tobytes()):016x} " + " ".join(f"{b:08x}" for b in bits[:8])


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
    "IQ6_K": (141, 256, 212, decode_iq6_k),
}
PACKAGE = """F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ3_XXS
IQ3_S IQ4_NL IQ4_XS TQ1_0 TQ2_0 MXFP4 NVFP4""".split()

library = ctypes.CDLL(sys.argv[1], mode=os.RTLD_LAZY)
lines = ["# name, FNV-1a of the f32 bytes (any NaN as 0x7fc00000), bits of the first values. By make_reference.py."]
with np.errstate(all="ignore"):
    for name in PACKAGE + list(OWN) + list(HEADED):
        if name in HEADED:
            values = decode_headed(library, name)
        elif name in OWN:
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
        lines.append(line(name, values))
    interleaved = [lines[0]] + [line(name, decode_interleaved(library, name) + np.float32(0)) for name in INTERLEAVED]
pathlib.Path(__file__).with_name("reference.txt").write_text("\n".join(lines) + "\n")
pathlib.Path(__file__).with_name("interleaved.txt").write_text("\n".join(interleaved) + "\n")
