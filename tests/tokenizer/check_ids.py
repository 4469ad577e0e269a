"""Compares `gguf-compile tokenize --json-lines` with recorded ids.

usage: check_ids.py COMPILER MODEL.gguf CASES.json
CASES: a list of [text, ids, ids with special tokens parsed], no BOS; recorded with llama.cpp.
"""
import json
import subprocess
import sys


def tokenize(compiler, model, texts, *flags):
    lines = "".join(json.dumps(t) + "\n" for t in texts)
    done = subprocess.run([compiler, "tokenize", model, "--json-lines", "--no-bos", *flags], input=lines.encode(),
                          stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def main():
    compiler, model, path = sys.argv[1:]
    with open(path, encoding="utf-8") as f:
        cases = json.load(f)
    texts = [c[0] for c in cases]
    wrong = 0
    for column, flags in ((1, ()), (2, ("--special",))):
        got = tokenize(compiler, model, texts, *flags)
        if len(got) != len(cases):
            sys.exit(f"{len(got)} lines for {len(cases)} texts")
        for case, ids in zip(cases, got):
            if ids != case[column]:
                wrong += 1
                print(f"{case[0]!r} {' '.join(flags)}: expected {case[column]}, found {ids}")
    print(f"{2 * len(cases) - wrong} right, {wrong} wrong")
    sys.exit(wrong > 0)


main()
