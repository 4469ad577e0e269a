#!/usr/bin/env python3
"""Writes the known answers as inputs of //runtime/text:output_fuzz, one file for each answer and format.

  corpus.py FOLDER ROWS     ROWS: how many formats the table has
"""
import gzip
import json
import pathlib
import sys

folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
cases = json.loads(gzip.decompress((pathlib.Path(__file__).parent / "cases.json.gz").read_bytes()))
texts = {c["raw"].replace(t["function"]["name"], "f") for c in cases for t in c["tools"][:1]} | {c["raw"] for c in cases}
for row in range(int(sys.argv[2])):
    for i, text in enumerate(sorted(texts)):
        if len(text) < 600:
            (folder / f"{row}-{i}").write_bytes(bytes([row, 0]) + text.encode())
