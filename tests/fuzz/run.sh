#!/usr/bin/env bash
# Builds the fuzzers of fuzzers.txt and runs each for a time, one after another: libFuzzer with AddressSanitizer and
# UndefinedBehaviorSanitizer.
#
#   tests/fuzz/run.sh [-s SECONDS] [NAME...]    default: 600 seconds of each
#   tests/fuzz/run.sh --ci [NAME...]            the number of inputs of fuzzers.txt, the same ones each time
#
# Each begins with seeds that seeds.py makes of the repository's own files, the inputs that were found before
# (found/NAME, in the repository: what was a fault is a test for good), and, but for --ci, what earlier runs on this
# machine have grown (~/.cache/gguf-compile/fuzz/NAME). --ci has a fixed seed and a number of inputs, not a time: a change
# that broke nothing must not fail for another's luck, and what a fast machine finds must fail a slow one. A finding ends the run with its input in ~/.cache/gguf-compile/fuzz/NAME.found: mend it,
# and put the input into found/NAME.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
readonly cache="${XDG_CACHE_HOME:-$HOME/.cache}/gguf-compile"
seconds=600 ci=
if [ "${1:-}" = -s ]; then seconds="$2" && shift 2; fi
if [ "${1:-}" = --ci ]; then ci=1 && shift; fi
read -ra startup <<<"${BAZEL_STARTUP:-}"

names=() targets=() sizes=() counts=()
while read -r name target most runs; do
  [[ "$name" == "#"* ]] && continue
  [ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
  names+=("$name") targets+=("$target") sizes+=("$most") counts+=("$runs")
done <tests/fuzz/fuzzers.txt
[ "${#names[@]}" -gt 0 ] || { echo "no fuzzer is called so: $*" >&2 && exit 1; }

bazel "${startup[@]}" build --config=fuzz --jobs="${JOBS:-$(nproc)}" --disk_cache="$cache/bazel" "${targets[@]}" >&2
bin="$(bazel "${startup[@]}" info --config=fuzz bazel-bin 2>/dev/null)"
seeds="$(mktemp -d "${TMPDIR:-/tmp}/gguf-compile-fuzz.XXXXXX")"
trap 'rm -rf "$seeds"' EXIT
"$cache/venv/bin/python" tests/fuzz/seeds.py "$seeds"

failed=0
for i in "${!names[@]}"; do
  name="${names[$i]}"
  program="$bin/$(sed 's|^//||; s|:|/|' <<<"${targets[$i]}")"
  grown="$cache/fuzz/$name"
  mkdir -p "$grown" "$grown.found" "$seeds/$name" "$seeds/$name.grown"
  if [ "$ci" ]; then
    folders=("$seeds/$name.grown") length=(-seed=1 -runs="${counts[$i]}")
  else
    folders=("$grown") length=(-max_total_time="$seconds")
  fi
  folders+=("$seeds/$name")
  [ ! -d "tests/fuzz/found/$name" ] || folders+=("tests/fuzz/found/$name")
  options=("${length[@]}" -timeout=60 -rss_limit_mb=1024 -max_len="${sizes[$i]}" -print_final_stats=1 -print_funcs=0
    -artifact_prefix="$grown.found/")
  [ ! -e "tests/fuzz/$name.dict" ] || options+=(-dict="tests/fuzz/$name.dict")
  code=0 start=$SECONDS
  ASAN_OPTIONS=detect_container_overflow=0 "$program" "${options[@]}" "${folders[@]}" >"$seeds/log" 2>&1 || code=$?
  runs="$(sed -n 's/^stat::number_of_executed_units: *//p' "$seeds/log")"
  if [ "$code" = 0 ]; then
    echo "$name: ${runs:-?} executions in $((SECONDS - start)) s, nothing found"
  else
    echo "$name: FOUND something (exit code $code):"
    grep -vE "^#|^INFO" "$seeds/log" | head -60
    failed=1
  fi
done
exit "$failed"
