#!/usr/bin/env python3
"""Whole models on this machine as one table: prompts of 512 tokens, generation of 1, 8 and 16 sequences, start, memory.

  models.py [MODEL.gguf ...] [--json] [--threads N] [--repetitions N] [--compile-option X ...] [--no-peer]

Models: by default the real ones that samples/setup.sh brings. The compiler is this checkout's (bazel build
//compiler:gguf-compile). Where `llama_cpp` can be imported, llama.cpp runs on the same files in the same run, by
llama-bench's method: a prompt at once, then tokens one by one, mean of the repetitions.

  pp512, tg128   tokens/s;  npl 8, npl 16: of all sequences together
  bound          bytes of the GGUF's tensors that a token reads x tokens/s, as share of the read bandwidth of the same run
  start          ms from exec to exit with one token after a prompt of four, best of 9
  memory         MiB, peak resident: weights that were touched, KV of 1024 positions, scratch
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "gguf-compile" / "models"
COLUMNS = ["pp512", "tg128", "bound", "npl 8", "npl 16", "start", "memory"]


def run(*words):
    return subprocess.run([str(w) for w in words], check=True, capture_output=True, text=True).stdout


def best_start(words):
    times = []
    for _ in range(9):
        begin = time.perf_counter()
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        times.append(1000 * (time.perf_counter() - begin))
    return min(times)


def measure(program, threads, repetitions):
    rows = json.loads(run(program, "bench", "-p", 512, "-n", 128, "-npl", "1,8,16", "-t", threads, "-r", repetitions, "-o",
                          "json"))
    of = {(r["n_prompt"], r["n_seqs"]): r for r in rows}
    one = [str(program), "--tokens", "2,3,4,5", "-n", "1", "--temp", "0", "-c", "1024", "-t", str(threads)]
    return {"pp512": of[512, 1]["avg_ts"], "tg128": of[0, 1]["avg_ts"], "bound": of[0, 1]["share_of_bound"],
            "npl 8": of[0, 8]["avg_ts"], "npl 16": of[0, 16]["avg_ts"], "start": best_start(one), "memory": resident_peak(one),
            "read_gb_per_s": of[0, 1]["read_gb_per_s"]}


def resident_peak(words):
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(words)}: exit status {status}")
    return usage.ru_maxrss / 1024


def measure_llama_cpp(model, threads, repetitions):
    import llama_cpp
    llm = llama_cpp.Llama(str(model), n_ctx=1024, n_batch=512, n_ubatch=512, n_threads=threads,
                          n_threads_batch=threads, verbose=False)
    prompt, one = [2] + [506] * 511, [506]
    llm.eval(prompt)
    pp, tg = [], []
    for _ in range(repetitions):
        llm.reset()
        begin = time.perf_counter()
        llm.eval(prompt)
        pp.append(512 / (time.perf_counter() - begin))
        llm.reset()
        llm.eval([2])
        begin = time.perf_counter()
        for _ in range(128):
            llm.eval(one)
        tg.append(128 / (time.perf_counter() - begin))
    return {"pp512": sum(pp) / len(pp), "tg128": sum(tg) / len(tg)}


def can_import_llama_cpp():
    try:
        import llama_cpp  # noqa: F401
    except ImportError:
        return False
    return True


def text_of(column, value):
    if value is None:
        return "-"
    return f"{value:.3f}" if column == "bound" else f"{value:.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=pathlib.Path)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--compile-option", action="append", default=[])
    parser.add_argument("--no-peer", action="store_true")
    a = parser.parse_args()
    models = a.models or sorted(CACHE.glob("*.gguf"))
    compiler = ROOT / "bazel-bin/compiler/gguf-compile"
    if not models or not compiler.exists():
        sys.exit("no models or no compiler: samples/setup.sh, then bazel build //compiler:gguf-compile")
    with open("/proc/cpuinfo") as info:
        cpu = next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), "?")
    machine = f"{cpu}, {a.threads} threads, {time.strftime('%Y-%m-%d', time.gmtime())}"
    peer = not a.no_peer and can_import_llama_cpp()
    rows = []
    with tempfile.TemporaryDirectory() as work:
        for model in models:
            program = pathlib.Path(work) / "program"
            run(compiler, model, "-o", program, "-q", *a.compile_option)
            rows.append({"model": model.stem, "by": "gguf-compile", **measure(program, a.threads, a.repetitions)})
            if peer:
                rows.append({"model": model.stem, "by": "llama.cpp",
                             **measure_llama_cpp(model, a.threads, a.repetitions)})
    if a.json:
        print(json.dumps({"machine": machine, "rows": rows}, indent=2))
        return
    print(f"{machine}; read bandwidth {max(r.get('read_gb_per_s', 0) for r in rows):.1f} GB/s\n")
    print("| model | by | " + " | ".join(COLUMNS) + " |\n| --- | --- |" + " ---: |" * len(COLUMNS))
    for r in rows:
        print(f"| {r['model']} | {r['by']} | " + " | ".join(text_of(c, r.get(c)) for c in COLUMNS) + " |")


if __name__ == "__main__":
    main()
