#!/usr/bin/env python3
"""Whole models on this machine as one table: prompts of 512 tokens, generation of 1, 8 and 16 sequences, start, memory.

  models.py [MODEL.gguf | SHAPE[:TYPE] ...] [--peer NAME=DIR ...] [--json] [--threads N] [--repetitions N]
            [--compile-option X ...]

Models: by default the real ones that samples/setup.sh brings. SHAPE: one of shapes.py's, written to the cache folder and kept
there. The compiler is this checkout's (bazel build //compiler:gguf-compile). DIR holds a peer's llama-bench and
llama-batched-bench (tests/bench/llama_cpp.sh and ik_llama_cpp.sh build them); a peer runs on the same file right after ours,
and the last rows give ours over the best of them.

  pp512, tg128   tokens/s;  npl 8, npl 16: of all sequences together
  peak           multiplications with weights of pp512 as share of the rate of the instruction that does them, in the same run
  bound          bytes of the GGUF's tensors that a token reads x tokens/s, as share of the read bandwidth of the same run
  start          ms from exec to exit with one token after a prompt of four, best of 9
  memory         MiB, peak resident: weights that were touched, KV of 1024 positions, scratch
  compile, size  seconds; MiB of the executable
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import shapes

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "gguf-compile"
COMPILER = ROOT / "bazel-bin/compiler/gguf-compile"
SPEEDS = ["pp512", "tg128", "npl 8", "npl 16"]
COLUMNS = ["pp512", "peak", "tg128", "bound", "npl 8", "npl 16", "start", "memory", "compile", "size"]


def run(*words):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: exit status {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def model_file(name):
    if not name.endswith(".gguf"):
        shape, _, weight_type = name.partition(":")
        if shape not in shapes.SHAPES:
            sys.exit(f"models.py: '{name}' is neither a .gguf file nor a shape; shapes: {', '.join(shapes.SHAPES)}")
        path = CACHE / "shapes" / (name.replace(":", "-") + ".gguf")
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            shapes.make(shape, path.with_suffix(".part"), weight_type or None)
            path.with_suffix(".part").rename(path)
        return path
    return pathlib.Path(name)


def best_start(words):
    times = []
    for _ in range(9):
        begin = time.perf_counter()
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        times.append(1000 * (time.perf_counter() - begin))
    return min(times)


def resident_peak(words):
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(words)}: exit status {status}")
    return usage.ru_maxrss / 1024


def measure(model, program, options, threads, repetitions):
    begin = time.perf_counter()
    run(COMPILER, model, "-o", program, "-q", *options)
    seconds = time.perf_counter() - begin
    rows = json.loads(run(program, "bench", "-p", 512, "-n", 128, "-npl", "1,8,16", "-t", threads, "-r", repetitions, "-o",
                          "json"))
    of = {(r["n_prompt"], r["n_seqs"]): r for r in rows}
    one = [str(program), "--tokens", "2,3,4,5", "-n", "1", "--temp", "0", "-c", "1024", "-t", str(threads)]
    return {"pp512": of[512, 1]["avg_ts"], "peak": of[512, 1]["share_of_bound"], "tg128": of[0, 1]["avg_ts"],
            "bound": of[0, 1]["share_of_bound"], "npl 8": of[0, 8]["avg_ts"], "npl 16": of[0, 16]["avg_ts"],
            "start": best_start(one), "memory": resident_peak(one), "compile": seconds,
            "size": program.stat().st_size / 2**20, "read_gb_per_s": of[0, 1]["read_gb_per_s"]}


def measure_peer(model, folder, threads, repetitions):
    common = ["-m", model, "-t", threads]
    rows = json.loads(run(folder / "llama-bench", *common, "-p", 512, "-n", 128, "-r", repetitions, "-o", "json"))
    got = {"pp512" if r["n_prompt"] else "tg128": r["avg_ts"] for r in rows}
    batches = run(folder / "llama-batched-bench", *common, "-tb", threads, "-npp", 1, "-ntg", 64, "-npl", "8,16", "-c", 2048)
    for line in batches.splitlines():  # | PP | TG | B | N_KV | T_PP s | S_PP t/s | T_TG s | S_TG t/s | T s | S t/s |
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if len(cells) == 10 and cells[2].isdigit():
            got[f"npl {cells[2]}"] = float(cells[7])
    return got


def ratios(rows):
    """Ours over the best peer's, model by model."""
    for ours in [r for r in rows if r["by"] == "gguf-compile"]:
        best = {c: max((r.get(c, 0) for r in rows if r["model"] == ours["model"] and r is not ours), default=0) for c in SPEEDS}
        yield {"model": ours["model"], "by": "ratio", **{c: ours[c] / best[c] for c in SPEEDS if best[c]}}


def text_of(column, row):
    value = row.get(column)
    if value is None:
        return "-"
    if row["by"] == "ratio":
        return f"{value:.2f}x"
    return f"{value:.3f}" if column in ("peak", "bound") else f"{value:.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--compile-option", action="append", default=[])
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=DIR")
    a = parser.parse_args()
    models = [model_file(m) for m in a.models or sorted(str(p) for p in (CACHE / "models").glob("*.gguf"))]
    peers = [(name, pathlib.Path(folder)) for name, _, folder in (p.partition("=") for p in a.peer)]
    if not models or not COMPILER.exists():
        sys.exit("no models or no compiler: samples/setup.sh, then bazel build //compiler:gguf-compile")
    with open("/proc/cpuinfo") as info:
        cpu = next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), "?")
    rows = []
    with tempfile.TemporaryDirectory() as work:
        for model in models:
            ours = measure(model, pathlib.Path(work) / "program", a.compile_option, a.threads, a.repetitions)
            rows.append({"model": model.stem, "by": "gguf-compile", **ours})
            for name, folder in peers:
                rows.append({"model": model.stem, "by": name, **measure_peer(model, folder, a.threads, a.repetitions)})
    if peers:
        rows += ratios(rows)
    machine = f"{cpu}, {a.threads} threads, {time.strftime('%Y-%m-%d', time.gmtime())}"
    if a.json:
        print(json.dumps({"machine": machine, "rows": rows}, indent=2))
        return
    reads = [f"{r['read_gb_per_s']:.1f}" for r in rows if "read_gb_per_s" in r]
    print(f"{machine}; read bandwidth, model by model: {', '.join(reads)} GB/s\n")
    print("| model | by | " + " | ".join(COLUMNS) + " |\n| --- | --- |" + " ---: |" * len(COLUMNS))
    for r in rows:
        print(f"| {r['model']} | {r['by']} | " + " | ".join(text_of(c, r) for c in COLUMNS) + " |")


if __name__ == "__main__":
    main()
