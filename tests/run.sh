#!/usr/bin/env bash
# Runs all tests: brings what is missing, checks the format, runs Bazel's tests, then the scripts of tests/e2e.
# Closes with `N passed, N failed`; the exit code is 0 only when something ran and nothing failed.
#
#   tests/run.sh            everything
#   tests/run.sh NAME...    only those scripts of tests/e2e (zoo_f32, ...), after building the compiler
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly cache="${XDG_CACHE_HOME:-$HOME/.cache}/gguf-compile"
readonly log="$(mktemp -d "${TMPDIR:-/tmp}/gguf-compile-tests.XXXXXX")"
trap 'rm -rf "$log"' EXIT
bazel_flags=(--jobs="$(nproc)" --disk_cache="$cache/bazel")
passed=0 failed=0 skipped=0

close() {
  echo
  if [ "$skipped" -gt 0 ]; then
    echo "$passed passed, $failed failed, $skipped skipped"
  else
    echo "$passed passed, $failed failed"
  fi
  [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
  exit
}

# run_script PATH: one line when it passes, its output when it does not.
run_script() {
  local name="${1%.sh}" start=$SECONDS code
  name="${name#tests/}"
  bash "$1" >"$log/out" 2>&1 </dev/null
  code=$?
  case "$code" in
    0) passed=$((passed + 1)) && echo "passed   $name ($((SECONDS - start)) s)" ;;
    77) skipped=$((skipped + 1)) && echo "SKIPPED  $name: $(tail -n 1 "$log/out")" ;;
    *)
      failed=$((failed + 1))
      echo "FAILED   $name (exit code $code, $((SECONDS - start)) s)"
      sed 's/^/    /' "$log/out" | tail -n 60
      ;;
  esac
}

run_bazel_tests() {
  local code p f
  # Bazel knows its own convenience links; those of another output base it would walk as packages.
  find . -maxdepth 1 -type l -name 'bazel-*' -delete
  bazel test "${bazel_flags[@]}" --keep_going --build_event_json_file="$log/events.json" //...
  code=$?
  read -r p f < <("$cache/venv/bin/python" tests/tools/count_bazel_tests.py "$log/events.json")
  passed=$((passed + ${p:-0})) failed=$((failed + ${f:-0}))
  # 4: no test target. Anything else not zero without a failed test: something that is no test did not build.
  if [ "$code" -ne 0 ] && [ "${f:-0}" -eq 0 ]; then
    echo "FAILED   bazel test //... (exit code $code)"
    failed=$((failed + 1))
  else
    echo "Bazel: ${p:-0} passed, ${f:-0} failed"
  fi
}

if ! samples/setup.sh build python tokenizers clients browser emulator nvrtc gemma3 smollm2; then
  failed=1
  close
fi

if [ $# -gt 0 ]; then
  bazel build "${bazel_flags[@]}" //compiler:gguf-compile || { failed=1 && close; }
  for name in "$@"; do run_script "tests/e2e/$name.sh"; done
  close
fi

run_script tests/format.sh
run_bazel_tests
for script in tests/e2e/*.sh; do
  [ ! -e "$script" ] || run_script "$script"
done
close
