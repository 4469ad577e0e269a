#!/usr/bin/env bash
# Builds ik_llama.cpp's benchmarks for this machine, a peer of models.py, and prints how to name it there. An hour of two cores:
# its kernels of attention alone are most of it, fewer without those of every pair of KV types.
#
#   tests/bench/ik_llama_cpp.sh [DIR [SOURCE]]     default: under the cache folder; a clone of the commit below, or a checkout
set -euo pipefail
commit=8337e4cd3861406fc04e0854b1409cd1b027fbc9
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/gguf-compile"
into="${1:-$cache/ik_llama.cpp-${commit:0:8}}"
source="${2:-$into/source}"
"$root/samples/setup.sh" build python
if [ ! -x "$into/bin/llama-batched-bench" ]; then
  mkdir -p "$into"
  if [ ! -d "$source" ]; then
    git clone -q https://github.com/ikawrakow/ik_llama.cpp "$source"
    git -C "$source" checkout -q "$commit"
  fi
  command -v cmake ninja >/dev/null || "$cache/venv/bin/pip" install -q cmake ninja
  PATH="$cache/venv/bin:$PATH"
  cmake -S "$source" -B "$into" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DGGML_IQK_FA_ALL_QUANTS=OFF \
    -DCMAKE_C_COMPILER=clang-22 -DCMAKE_CXX_COMPILER=clang++-22 -DBUILD_SHARED_LIBS=OFF -DLLAMA_CURL=OFF \
    -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_SERVER=OFF >"$into/cmake.log"
  ninja -C "$into" llama-bench llama-batched-bench >"$into/build.log"
fi
echo "--peer ik_llama.cpp=$into/bin"
