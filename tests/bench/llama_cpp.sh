#!/usr/bin/env bash
# Builds llama.cpp's benchmarks and server for this machine, peers of models.py and serve.py, and prints how to name them
# there. Many minutes.
#
#   tests/bench/llama_cpp.sh [DIR]      default: under the cache folder
#
# The source is the one inside PyPI's llama-cpp-python. The compiler is clang: with AMX, what gcc 12 builds faults at its first
# product (it drops stores to the tiles' configuration).
set -euo pipefail
version=0.3.36
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/gguf-compile"
into="${1:-$cache/llama.cpp-$version}"
"$root/samples/setup.sh" build python
if [ ! -x "$into/bin/llama-server" ]; then
  mkdir -p "$into/source"
  "$cache/venv/bin/pip" download -q --no-binary llama-cpp-python --no-deps -d "$into" "llama-cpp-python==$version"
  tar -xzf "$into"/llama_cpp_python-$version.tar.gz -C "$into/source" --strip-components=1
  command -v cmake ninja >/dev/null || "$cache/venv/bin/pip" install -q cmake ninja
  PATH="$cache/venv/bin:$PATH"
  cmake -S "$into/source/vendor/llama.cpp" -B "$into" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON \
    -DCMAKE_C_COMPILER=clang-22 -DCMAKE_CXX_COMPILER=clang++-22 -DBUILD_SHARED_LIBS=OFF -DLLAMA_CURL=OFF \
    -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=ON \
    -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_OPENSSL=OFF >"$into/cmake.log"
  ninja -C "$into" llama-bench llama-batched-bench llama-server >"$into/build.log"
fi
echo "--peer llama.cpp=$into/bin"
