#!/usr/bin/env bash
# Figures of the real Gemma 3 270M on this machine: compiling, size, start, speed. For the record, not a test: times
# depend on the machine and on what else it does.
#
#   tests/bench/gemma3.sh [--llama-cpp]    the latter: also llama.cpp, on the same file in the same run, built from
#                                          source by pip with clang (minutes) into an environment of its own
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/gguf-compile"
model="$cache/models/gemma-3-270m-q4_k_m.gguf"
"$root/samples/setup.sh" build python gemma3
(cd "$root" && bazel build --jobs="$(nproc)" --disk_cache="$cache/bazel" //compiler:gguf-compile)
compiler="$root/bazel-bin/compiler/gguf-compile"
work="$(mktemp -d "${TMPDIR:-/tmp}/gguf-compile-bench.XXXXXX")"
trap 'rm -rf "$work"' EXIT

echo "machine: $(sed -n 's/^model name\s*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores; $(date -u +%Y-%m-%d)"
cat "$model" >/dev/null
start=$(date +%s.%N)
"$compiler" "$model" -o "$work/gemma3" >/dev/null 2>&1
echo "compiling: $(awk "BEGIN {printf \"%.1f\", $(date +%s.%N) - $start}") s"
peak="$("$cache/venv/bin/python" "$root/tests/tools/peak_memory.py" "$compiler" "$model" -o "$work/again")"
echo "private memory at most: $((peak / 1024)) MiB"
echo "size: $(stat -c %s "$work/gemma3") bytes, of a model of $(stat -c %s "$model")"
"$work/gemma3" info
echo
"$cache/venv/bin/python" - "$work/gemma3" <<'PY'
import subprocess, sys, time
times = []
for _ in range(15):
    start = time.perf_counter()
    subprocess.run([sys.argv[1], "-p", "The capital of France", "-n", "1", "--temp", "0"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    times.append(time.perf_counter() - start)
times.sort()
print(f"exec to exit with one token after a prompt of 5: best {1000 * times[0]:.1f} ms, median {1000 * times[7]:.1f} ms")
PY
"$work/gemma3" bench -p 512 -n 128 -r 5

[ "${1:-}" = --llama-cpp ] || exit 0
peer="$cache/llama-cpp-python-0.3.36"
if [ ! -x "$peer/bin/python" ] || ! "$peer/bin/python" -c "import llama_cpp" 2>/dev/null; then
  echo "building llama.cpp in $peer"
  rm -rf "$peer"
  /usr/bin/python3 -m venv "$peer"
  CC=clang-22 CXX=clang++-22 CMAKE_ARGS="-DGGML_NATIVE=ON" "$peer/bin/pip" install -q --no-binary llama-cpp-python \
    llama-cpp-python==0.3.36
fi
"$peer/bin/python" - "$model" <<'PY'
# llama-bench's method: a prompt of 512 tokens at once, then 128 tokens one by one, mean of 5 repetitions.
import os, sys, time
import llama_cpp
threads = len(os.sched_getaffinity(0))
llm = llama_cpp.Llama(sys.argv[1], n_ctx=1024, n_batch=512, n_ubatch=512, n_threads=threads, n_threads_batch=threads,
                      verbose=False)
prompt, one = [2] + [506] * 511, [506]
llm.eval(prompt)
pp, tg = [], []
for _ in range(5):
    llm.reset()
    start = time.perf_counter()
    llm.eval(prompt)
    pp.append(512 / (time.perf_counter() - start))
    llm.reset()
    llm.eval([2])
    start = time.perf_counter()
    for _ in range(128):
        llm.eval(one)
    tg.append(128 / (time.perf_counter() - start))
print(f"llama.cpp: pp512 {sum(pp) / 5:.1f} tokens/s, tg128 {sum(tg) / 5:.1f} tokens/s, {threads} threads")
PY
