#!/usr/bin/env bash
# Which of the files of tests/cases llama.cpp accepts, which this compiler does, and whether their logits agree.
# Builds llama.cpp first (tests/bench/llama_cpp.sh; some minutes), and needs bazel-bin/compiler/gguf-compile.
#
#   tests/cases/differential.sh [DIR-OF-LLAMA.CPP]
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/gguf-compile"
peer="$(dirname "$("$root/tests/bench/llama_cpp.sh" "$@" | sed -n 's/^--peer llama.cpp=//p')")"
source="$peer/source/vendor/llama.cpp"
clang++-22 -O1 -std=c++17 -I"$source/include" -I"$source/ggml/include" "$root/tests/cases/llama_cpp.cc" -o "$peer/logits" \
  "$peer/src/libllama.a" "$peer/ggml/src/libggml.a" "$peer/ggml/src/libggml-cpu.a" "$peer/ggml/src/libggml-base.a" \
  -lpthread -ldl -lm $(sed -n "s,^OpenMP_CXX_FLAGS:STRING=-fopenmp.*,-fopenmp,p" "$peer/CMakeCache.txt")
exec "$cache/venv/bin/python" "$root/tests/cases/differential.py" "$root/bazel-bin/compiler/gguf-compile" "$peer/logits"
