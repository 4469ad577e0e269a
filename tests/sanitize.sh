#!/usr/bin/env bash
# The unit tests under sanitizers; what they gave last is in tests/README.md.
#
#   tests/sanitize.sh memory|asan|ubsan|tsan [TARGETS]
#
# memory: AddressSanitizer and UndefinedBehaviorSanitizer together, of the same objects as the fuzzers.
# Without targets: all tests, for tsan those of threads, sessions, batches, the server and the C interface.
# They see the compiler and the runtime, not LLVM nor generated kernels, and not the runtime inside of compiled programs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly cache="${XDG_CACHE_HOME:-$HOME/.cache}/gguf-compile"
sanitizer="${1:-}"
case "$sanitizer" in
  memory | asan | ubsan) targets=(//...) ;;
  tsan) targets=(//runtime/core/... //runtime/api/... //runtime/generate/... //runtime/batch/... //runtime/apps/...) ;;
  *) echo "usage: tests/sanitize.sh memory|asan|ubsan|tsan [TARGETS]" >&2 && exit 1 ;;
esac
shift
[ $# -eq 0 ] || targets=("$@")
read -ra startup <<<"${BAZEL_STARTUP:-}"
exec bazel "${startup[@]}" test --config="$sanitizer" --jobs="${JOBS:-$(nproc)}" --disk_cache="$cache/bazel" --keep_going \
  --build_tests_only --test_timeout=1800 "${targets[@]}"
