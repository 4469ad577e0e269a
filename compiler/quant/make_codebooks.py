#!/usr/bin/env python3
"""Writes codebooks.cc: the grids of the IQ1, IQ2 and IQ3 types, taken as numbers from the PyPI package `gguf` and
packed as codebooks.h says. Run from the repository's root; needs `pip install gguf`."""

import gguf.quants as q

GRIDS = [
    # name, gguf class, bits per value, value of each code
    ("kGridIq2Xxs", q.IQ2_XXS, 2),
    ("kGridIq2Xs", q.IQ2_XS, 2),
    ("kGridIq2S", q.IQ2_S, 2),
    ("kGridIq3Xxs", q.IQ3_XXS, 3),
    ("kGridIq3S", q.IQ3_S, 3),
    ("kGridIq1", q.IQ1_S, 2),
]

out = ["// Written by make_codebooks.py.", '#include "compiler/quant/codebooks.h"', "", "namespace gc {", ""]
for name, cls, bits in GRIDS:
    cls.init_grid()
    rows = cls.grid.reshape(cls.grid_shape).astype(int).tolist()
    codes = {value: code for code, value in enumerate(cls.grid_map)}
    words = [sum(codes[v] << (bits * k) for k, v in enumerate(row)) for row in rows]
    assert max(words) < 1 << 16
    out.append(f"const std::uint16_t {name}[{len(words)}] = {{")
    for i in range(0, len(words), 16):
        out.append("    " + " ".join(f"{w}," for w in words[i : i + 16]))
    out[-1] = out[-1].rstrip(",")
    out += ["};", ""]
out.append("}  // namespace gc")
open("compiler/quant/codebooks.cc", "w").write("\n".join(out) + "\n")
