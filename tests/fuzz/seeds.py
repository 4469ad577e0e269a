#!/usr/bin/env python3
"""Inputs to begin fuzzing with, made of the repository's own tests: seeds.py FOLDER writes FOLDER/FUZZER/*."""
import gzip
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests/cases"))

import tiny  # noqa: E402
from gguf_file import ARRAY, BOOL, F32, I32, STRING, Array  # noqa: E402

out = pathlib.Path(sys.argv[1])


def write(fuzzer, inputs):
    folder = out / fuzzer
    folder.mkdir(parents=True, exist_ok=True)
    for i, data in enumerate(inputs):
        (folder / f"{i:03}").write_bytes(data if isinstance(data, bytes) else data.encode())


def small(make, **sizes):
    """A model of one narrow layer, some kilobytes."""
    old = {name: getattr(tiny, name) for name in sizes}
    for name, v in sizes.items():
        setattr(tiny, name, v)
    try:
        tokens = tiny.spm_tokens()[:262] + ["a"]
        few = [(k, t, Array(v.element, v.items[:263]) if isinstance(v, Array) else v) for k, t, v in tiny.spm_keys(tokens)]
        return make(layers=1, vocabulary=few, ff=8)
    finally:
        for name, v in old.items():
            setattr(tiny, name, v)


NARROW = dict(WIDTH=4, HEADS=2, HEAD_DIM=2)
models = []
for make in (tiny.gemma3, tiny.llama):
    models.append(small(make, **NARROW).bytes())
    plain = small(make, **NARROW)
    plain.keys = [key for key in plain.keys if not key[0].startswith("tokenizer")]
    models.append(plain.bytes())
for scaling in ("yarn", "linear", "longrope"):
    f = small(tiny.llama, **NARROW)
    f.set("llama.rope.scaling.type", STRING, scaling).set("llama.rope.scaling.factor", F32, 2.0)
    models.append(f.bytes())
write("load", models)
write("reader", models + [tiny.vocabulary_alone(tiny.bpe_keys()).bytes(), tiny.empty(3).bytes(),
                          tiny.empty(0).set("a", ARRAY, Array(I32, [1, 2])).set("b", BOOL, True).bytes()])
write("gir", [p.read_bytes() for p in sorted(ROOT.glob("compiler/**/*.gir")) if p.stat().st_size < 8192])
texts = ["hello hello", " a  ab\n\n12 123'll", "\u00e9\u65e5\u65e5 \U0001f999", "</s><s><unk>x", "[CLS] a [SEP]", "\x00\xff\xfe"]
write("tokenizer", [bytes([kind | flags]) + t.encode("utf-8", "surrogateescape") for kind in range(11) for flags, t in zip((0, 0, 0x40, 0x80, 0xC0, 0), texts)])
context = json.dumps({"messages": [{"role": "user", "content": "hi"}], "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]})
features = json.loads((ROOT / "tests/templates/features.json").read_text())
sources = [c["template"] for c in (features if isinstance(features, list) else features.get("cases", [])) if isinstance(c, dict) and "template" in c]
write("template", [(ROOT / "tests/templates/gemma3.jinja").read_bytes(), *(s + "\x01" + context for s in sources[:150])])
grammars = [b"\x00" + p.read_bytes() + b"\x01" + (p.parent / "answers" / (p.stem + ".txt")).read_bytes()[:500] for p in sorted(ROOT.glob("tests/grammars/*.gbnf"))]
schemas = []
for p in sorted(ROOT.glob("tests/grammars/json-schema/*.json")):
    for group in json.loads(p.read_text())[:4]:
        schemas.append(b"\x01" + json.dumps(group["schema"]).encode() + b"\x01" + json.dumps(group["tests"][0]["data"]).encode())
write("grammar", [g for g in grammars + schemas if len(g) < 2048])
write("utf8", [b"a" + t.encode("utf-8", "surrogateescape") for t in texts] + [b"\x01\xf0\x9f\xa6", b"\x02\xed\xa0\x80\xc0\x80\xf4\x90\x80\x80"])
write("options", [bytes([i]) + line.encode() for i in range(12) for line in ("-p\nhi\n-n\n4\n--temp=0.5", "-l\n5+1\n--stop\na\n-c\n64", "--tokens\n1,2,3\n-o\nx", "-npl\n1,8", "hi\n--ids")])
answers = json.loads(gzip.decompress((ROOT / "tests/output/cases.json.gz").read_bytes()))
raw = sorted({c["raw"] for c in answers if len(c["raw"]) < 600})
write("output", [bytes([i % 44, 0]) + text.encode() for i, text in enumerate(raw)])
