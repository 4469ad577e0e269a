"""Checks a folder of vocabularies by hand: every X.gguf with its X.gguf.inp (texts, parted by lines
"__ggml_vocab_test__") and X.gguf.out (a line of ids for each: no BOS, control tokens not parsed).

usage: check_vocabs.py COMPILER FOLDER
"""
import json
import pathlib
import subprocess
import sys


def main():
    compiler, folder = sys.argv[1:]
    wrong = 0
    for model in sorted(pathlib.Path(folder).glob("*.gguf")):
        with open(f"{model}.inp", encoding="utf-8", newline="") as f:
            texts = f.read().split("\n__ggml_vocab_test__\n")
        want = [[int(i) for i in line.split()] for line in open(f"{model}.out", encoding="utf-8")]
        if len(texts) == len(want) + 1 and not texts[-1]:
            texts.pop()  # a separator at the file's end
        lines = "".join(json.dumps(t) + "\n" for t in texts)
        done = subprocess.run([compiler, "tokenize", str(model), "--json-lines", "--no-bos"], input=lines.encode(),
                              stdout=subprocess.PIPE, check=True)
        got = [json.loads(line) for line in done.stdout.splitlines()]
        right = sum(a == b for a, b in zip(got, want)) if len(texts) == len(want) else 0
        wrong += len(texts) - right
        print(f"{model.name}: {right} of {len(texts)}; {len(want)} expected")
    sys.exit(wrong > 0)


main()
