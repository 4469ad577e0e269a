#!/usr/bin/env bash
# From a fresh Debian 12 to a running model: installs what is missing, builds the compiler, compiles Gemma 3 270M to
# ./gemma3 in the current folder, and lets it complete a sentence. Safe to run again; nothing is brought twice.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/gguf-compile"

say() { echo; echo "quickstart: $*"; }
trap 'echo "quickstart: error: stopped at: $BASH_COMMAND" >&2' ERR

say "installing what is missing"
"$root/samples/setup.sh" build gemma3

say "building the compiler (minutes the first time)"
flags=(--jobs="$(nproc)" --disk_cache="$cache/bazel")
[ ! -t 1 ] || flags+=(--show_progress)
(cd "$root" && bazel build "${flags[@]}" //compiler:gguf-compile)

say "compiling gemma-3-270m-q4_k_m.gguf to ./gemma3"
"$root/bazel-bin/compiler/gguf-compile" "$cache/models/gemma-3-270m-q4_k_m.gguf" -o ./gemma3

say "./gemma3 -p \"The capital of France is\" -n 48"
./gemma3 -p "The capital of France is" -n 48
