# Sourced by the scripts of tests/e2e. Each of them can be run by itself once samples/setup.sh and
# `bazel build //compiler:gguf-compile` were run; tests/run.sh does both.
#
# A script succeeds (0), fails (anything else), or, where the machine cannot show what it tests, calls
# `skip REASON`.
set -euo pipefail
readonly root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
readonly cache="${XDG_CACHE_HOME:-$HOME/.cache}/gguf-compile"
readonly gemma3_gguf="$cache/models/gemma-3-270m-q4_k_m.gguf"
readonly smollm2_gguf="$cache/models/SmolLM2-135M-Instruct.Q4_1.gguf"
readonly nvrtc="$cache/nvrtc-13.0.88/libnvrtc.so.13"
readonly compiler="$root/bazel-bin/compiler/gguf-compile"

# A folder of the script's own, gone when it ends.
readonly work="$(mktemp -d "${TMPDIR:-/tmp}/gguf-compile-e2e.XXXXXX")"
trap 'rm -rf "$work"' EXIT
trap 'echo "stopped at line $LINENO: $BASH_COMMAND" >&2' ERR

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

skip() {
  echo "skipped: $*"
  exit 77
}

python() { "$cache/venv/bin/python" "$@"; }
zoo() { python "$root/tests/zoo/zoo.py" "$@"; }
compare_logits() { python "$root/tests/tools/compare_logits.py" "$@"; }

# compile MODEL OUT [options]: quiet when it works, everything it said when it does not.
compile() {
  local model="$1" out="$2" code=0
  shift 2
  "$compiler" "$model" -o "$out" "$@" >"$work/compile.log" 2>&1 || code=$?
  [ "$code" = 0 ] || fail "gguf-compile $model -o $out $*: exit code $code: $(cat "$work/compile.log")"
}

# says GREP-ARGUMENTS...: whether its input has it, read to the end. `| grep -q` leaves at the first match, which kills the
# writer by SIGPIPE, and with pipefail that is a failure, on some machines at some hours.
says() {
  local text
  text="$(cat)"
  grep -q "$@" <<<"$text"
}

# same FILE FILE WHAT: equal byte for byte.
same() { cmp -s "$1" "$2" || fail "$3: $(cmp "$1" "$2" 2>&1)"; }
