#!/usr/bin/env python3
"""Models of the zoo in the types that only ik_llama.cpp writes, and their twins: the same values as F32.

  ik.py make MODEL DIR COMPILER        DIR/TYPE.gguf and DIR/TYPE.twin.gguf for every type, whose values are what
                                       `COMPILER inspect --weights` shows (tests beside the decoders hold those against
                                       ik_llama.cpp's)
  ik.py check DIR SUFFIX [--but-one]   DIR/TYPE.SUFFIX, f32[tokens, 128], is near DIR/TYPE.twin.SUFFIX for every type;
                                       bounds as zoo.py's
"""
import argparse
import pathlib
import subprocess
import sys

import numpy as np
from gguf import GGML_QUANT_SIZES

import zoo


class Type:
    """Rows interleave in groups of `rows`; heads of a group stand before its blocks, f16 scales `at` bytes of one."""

    def __init__(self, gguf_id, values, block_bytes, magnitude, at=(0,), head=None, rows=1):
        self.gguf_id, self.values, self.block_bytes = gguf_id, values, block_bytes
        self.magnitude, self.at, self.head, self.rows = magnitude, at, head and np.dtype(head), rows

    def row_bytes(self, columns):
        return (self.head.itemsize if self.head else 0) + columns // self.values * self.block_bytes


def four(first=0):
    return tuple(range(first, first + 8, 2))


TYPES = {
    "Q6_0": Type(133, 32, 26, 0.003),
    "IQ1_BN": Type(134, 64, 13, 0.03, head="<f2"),
    "IQ2_BN": Type(135, 64, 16, 0.03, head="<f4"),
    "IQ2_K": Type(137, 256, 76, 0.0006),
    "IQ3_K": Type(138, 256, 110, 0.0001),
    "IQ4_K": Type(139, 256, 144, 0.00005),
    "IQ5_K": Type(140, 256, 176, 0.00005),
    "IQ6_K": Type(141, 256, 212, 0.000012),
    "IQ4_KS": Type(144, 256, 136, 0.000012, head="<f4"),
    "IQ2_KS": Type(145, 256, 70, 0.00035, head="<f2"),
    "IQ4_KSS": Type(146, 256, 128, 0.000012, head="<f4"),
    "IQ5_KS": Type(152, 256, 168, 0.000012, head="<f4"),
    "IQ2_KT": Type(153, 256, 68, 0.000024, head="<f4"),
    "IQ3_KT": Type(154, 256, 100, 0.0002, head="<f4"),
    "IQ4_KT": Type(155, 256, 128, 0.00005, head="<f4"),
    "IQ3_KS": Type(156, 256, 102, 0.0002, head="<f2"),
    "IQ2_KL": Type(157, 256, 86, 0.0001, head="<f2"),
    "IQ1_KT": Type(158, 256, 56, 0.000024, head="<f4"),
    # Of the interleaved ones a few of each kind.
    "Q4_0_R8": Type(202, 32, 18, 0.02, at=four() + four(8), rows=8),
    "Q8_0_R8": Type(208, 32, 34, 0.0012, at=four() + four(8), rows=8),
    "Q6_K_R4": Type(214, 256, 210, 0.0001, at=four(), rows=4),
    "IQ2_XXS_R4": Type(216, 256, 66, 0.001, at=four(), rows=4),
    "IQ1_S_R4": Type(219, 32, 6, 0.01, head="<f2", rows=4),
    "IQ1_M_R4": Type(229, 32, 7, 0.008, head="<f2", rows=4),
    "IQ2_BN_R4": Type(335, 64, 16, 0.03, head="<f4", rows=4),
    "IQ4_K_R4": Type(339, 256, 144, 0.00005, at=four(), rows=4),
    "IQ5_KS_R4": Type(352, 256, 168, 0.000012, head="<f4", rows=4),
}


def takes_type(name, dims, weight_type):
    if weight_type == "F32" or len(dims) < 2 or not name.endswith(".weight") or "norm" in name or "ffn_gate_inp" in name:
        return False
    t = TYPES[weight_type]
    return dims[0] % t.values == 0 and dims[1] % t.rows == 0


def random_rows(name, dims, t):
    """u8[rows, bytes of a row]."""
    def scales(what, count, dtype):
        sizes = t.magnitude * (0.75 + 0.25 * zoo.uniform(f"{name}@{what}", count))
        return sizes.astype(dtype).view(np.uint8).reshape(count, -1)

    rows = int(np.prod(dims[1:]))
    count, size = rows // t.rows * (dims[0] // t.values), t.block_bytes * t.rows  # blocks of groups
    data = zoo.random_words(name, -(-count * size // 8), zoo.WEIGHT_SEED + 1).view(np.uint8)[: count * size]
    data = data.reshape(count, size).copy()
    if t.head:
        heads = scales("head", rows, t.head).reshape(rows // t.rows, -1)
        return np.concatenate([heads, data.reshape(rows // t.rows, -1)], axis=1).reshape(rows, -1)
    for offset in t.at:
        data[:, offset : offset + 2] = scales(offset, count, "<f2")
    return data.reshape(rows, -1)


def add_tensor(writer, name, dims, weight_type, tied, _):
    if weight_type == "F32":
        return zoo.add_tensor(writer, name, dims, weight_type, tied)
    t = TYPES[weight_type]
    GGML_QUANT_SIZES[t.gguf_id] = (dims[0], t.row_bytes(dims[0]))  # as the writer asks for it, heads included
    writer.add_tensor(name, random_rows(name, dims, t).reshape(*dims[:0:-1], -1), raw_dtype=t.gguf_id)


def add_twin(compiler, model):
    values = model.with_suffix(".values")

    def add(writer, name, dims, weight_type, tied, _):
        if weight_type == "F32":
            return zoo.add_tensor(writer, name, dims, weight_type, tied)
        subprocess.run([compiler, "inspect", model, "--weights", name, "-o", values], check=True, capture_output=True)
        writer.add_tensor(name, np.fromfile(values, "<f4").reshape(dims[::-1]))

    return add


def check(directory, name, suffix, but_one):
    """As zoo.py's check, against the twin's logits."""
    want, got = (np.fromfile(directory / f"{name}{twin}.{suffix}", "<f4").astype(np.float64).reshape(-1, 128)
                 for twin in (".twin", ""))
    if not np.isfinite(got).all() or not np.square(want).sum() > 0:
        sys.exit(f"ik: {name}.{suffix}: logits that are not finite, or none")
    errors = np.square(want - got).sum(axis=1) / np.square(want).sum()
    error, bound = errors.sum(), zoo.BOUND_QUANTIZED
    print(f"{name}: nmse {error:.2e} (bound {bound:.1e})")
    return 0 if zoo.is_within(bound, errors, but_one) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("types")
    make = verbs.add_parser("make")
    make.add_argument("model")
    make.add_argument("directory", type=pathlib.Path)
    make.add_argument("compiler")
    verb = verbs.add_parser("check")
    verb.add_argument("directory", type=pathlib.Path)
    verb.add_argument("suffix")
    verb.add_argument("--but-one", action="store_true")
    a = parser.parse_args()
    if a.verb == "types":
        print("\n".join(TYPES))
    elif a.verb == "make":
        recipe = zoo.Recipe(a.model)
        for name in TYPES:
            model = a.directory / f"{name}.gguf"
            zoo.make(recipe, model, name, takes_type=takes_type, add_tensor=add_tensor)
            zoo.make(recipe, a.directory / f"{name}.twin.gguf", name, takes_type=takes_type,
                     add_tensor=add_twin(a.compiler, model))
    else:
        sys.exit(max(check(a.directory, name, a.suffix, a.but_one) for name in TYPES))


if __name__ == "__main__":
    main()
