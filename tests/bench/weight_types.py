#!/usr/bin/env python3
"""Generation in every tensor type, as one table: a model of Llama 3.2 1B's shape in random blocks of that type.

  weight_types.py [TYPE ...] [--peer NAME=DIR ...] [--under COMMAND] [--table FILE] [--threads N] [--repetitions N] [--turns N]
                  [--models DIR [--make]]

Types: by default all that have kernels of their own (rows that interleave in the file are packed as those of their base type;
of them the ones that exist in no other form). A model is made, compiled, measured and deleted before the next one; it needs
3 GB of disk. DIR holds a peer's llama-bench, as for models.py; a peer that refuses a type's file has no figure. Programs take
turns and the best of each counts: machines that others use too are slow for seconds, never fast. COMMAND runs what is
measured (say "nice -n -10"). FILE keeps the rows as JSON lines: types that it has, with all peers that are named, are not
measured again. With --models what is made stays in a folder and is taken from there; --make does no more than that, so that a
machine has to be quiet for the seconds that count.

Needs bazel build //compiler:gguf-compile //codegen_cpu/kernels/matmul:bench (one build: bazel-bin is that of the last one).

  bits        a weight in the file;  image: bytes when packed, of those in the file
  tokens/s    of one sequence, 32 tokens
  share       bytes of the file's tensors that a token reads x tokens/s, of the read bandwidth of the same run
  unpacked    the same of one thread that unpacks and multiplies from its cache, x threads: what the kernel can do at most
  goal        share over the lower of 1 and unpacked
  peer        tokens/s of the best peer, and ours over it
"""
import argparse
import contextlib
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time

import shapes
from models import COMPILER, ROOT

sys.path.insert(0, str(ROOT / "tests/zoo"))
import ik  # noqa: E402: after the path that it is found by
import zoo  # noqa: E402

KERNELS = ROOT / "bazel-bin/codegen_cpu/kernels/matmul/bench"
SHAPE = "llama3.2-1b"
OWN_FORM = ("IQ1_S_R4", "IQ1_M_R4")  # types with interleaved rows that have no base
TOKENS = 32


def all_types():
    interleaved = [name for name, t in ik.TYPES.items() if t.rows > 1 and name not in OWN_FORM]
    return ["F32", *zoo.FLOAT_TYPES, *zoo.BLOCK_TYPES, *[name for name in ik.TYPES if name not in interleaved]]


def make(name, path):
    if name in ik.TYPES:
        shapes.make(SHAPE, path, name, takes_type=ik.takes_type,
                    add_tensor=lambda writer, tensor, dims, kind, tied: ik.add_tensor(writer, tensor, dims, kind, tied, None)
                    if kind in ik.TYPES else zoo.add_tensor(writer, tensor, dims, kind, tied))
    else:
        shapes.make(SHAPE, path, name)


def run(words, under=()):
    done = subprocess.run([*under, *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words))}: exit status {done.returncode}\n{done.stderr[-1000:]}")
    return done.stdout


def generation(program, model, a):
    """The row of one sequence that a program like llama-bench prints; ours needs no model."""
    words = [program, *(["-m", model] if model else ["bench"]), "-p", 0, "-n", TOKENS, "-t", a.threads, "-r", a.repetitions,
             "-o", "json"]
    return next(row for row in json.loads(run(words, a.under)) if row["n_prompt"] == 0)


def kernel(name, a):
    """Bits a weight, image, GB/s of the file's bytes on one thread from its cache."""
    line = next(l for l in run([KERNELS, f"--types={name}", "--seconds=0.3"], a.under).splitlines() if l.startswith(f"| {name} "))
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    return float(cells[1]), float(cells[2]), float(cells[7])


def made(name, folder):
    """The model and the program of a type in the folder."""
    model, program = folder / f"{name}.gguf", folder / name
    if not program.exists():
        make(name, model)
        run([COMPILER, model, "-o", program, "-q", "--no-tokenizer"])
    return model, program


def measure(name, a, model, program):
    row = {"type": name, "date": time.strftime("%Y-%m-%d", time.gmtime())}
    row["bits"], row["image"], unpacked = kernel(name, a)
    ours, peers = [], {}
    for _ in range(a.turns):
        ours.append(generation(program, None, a))
        for peer, where in a.peers:
            try:
                peers[peer] = max(peers.get(peer, 0), generation(where / "llama-bench", model, a)["avg_ts"])
            except RuntimeError:  # the peer doesn't know the type
                peers[peer] = 0
    best = max(ours, key=lambda r: r["avg_ts"])
    row |= {"tokens": best["avg_ts"], "share": best["share_of_bound"], "read": best["read_gb_per_s"],
            "unpacked": unpacked * a.threads / best["read_gb_per_s"], "peers": peers}
    row["goal"] = row["share"] / min(1, row["unpacked"])
    return row


def text_of(row):
    peer = max(row["peers"], key=row["peers"].get, default=None)
    known = peer and row["peers"][peer] > 0
    beside = [f"{row['peers'][peer]:.1f} ({peer})", f"{row['tokens'] / row['peers'][peer]:.2f}x"] if known else ["-", "-"]
    cells = [row["type"], f"{row['bits']:.2f}", f"{row['image']:.2f}", f"{row['tokens']:.1f}", f"{row['share']:.2f}",
             f"{row['unpacked']:.2f}", f"{row['goal']:.2f}", *beside]
    return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("types", nargs="*", choices=[[], *all_types()], metavar="TYPE")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=DIR")
    parser.add_argument("--under", type=shlex.split, default=[])
    parser.add_argument("--table", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--repetitions", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3, help="of each program, one after the other")
    parser.add_argument("--models", type=pathlib.Path)
    parser.add_argument("--make", action="store_true")
    a = parser.parse_args()
    a.peers = [(name, pathlib.Path(folder)) for name, _, folder in (p.partition("=") for p in a.peer)]
    if not COMPILER.exists() or not KERNELS.exists():
        sys.exit("weight_types.py: no compiler or no benchmark of kernels: see --help for what to build")
    if a.make and not a.models:
        parser.error("--make needs --models, a folder for what it makes")
    if a.make:
        a.models.mkdir(parents=True, exist_ok=True)
        for name in a.types or all_types():
            made(name, a.models)
        return
    rows = [json.loads(line) for line in a.table.read_text().splitlines()] if a.table and a.table.exists() else []
    for name in a.types or all_types():
        if any(row["type"] == name and all(peer in row["peers"] for peer, _ in a.peers) for row in rows):
            continue
        rows = [row for row in rows if row["type"] != name]
        with contextlib.nullcontext(a.models) if a.models else tempfile.TemporaryDirectory() as folder:
            rows.append(measure(name, a, *made(name, pathlib.Path(folder))))
        if a.table:
            a.table.write_text("".join(json.dumps(row) + "\n" for row in rows))
        print(text_of(rows[-1]), file=sys.stderr, flush=True)
    with open("/proc/cpuinfo") as info:
        cpu = next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), "?")
    reads = sorted(row["read"] for row in rows)
    print(f"{cpu}, {a.threads} threads, {rows[0]['date']} to {rows[-1]['date']}; read bandwidth {reads[0]:.1f} to {reads[-1]:.1f} GB/s\n")
    print("| type | bits | image | tokens/s | share | unpacked | goal | peer | |\n| --- |" + " ---: |" * 8)
    for name in all_types():
        for row in rows:
            if row["type"] == name:
                print(text_of(row))


if __name__ == "__main__":
    main()
