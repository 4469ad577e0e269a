# Each fuzzer for ten seconds, from its seeds and from all that was ever found; tests/fuzz/run.sh runs them for hours.
source "$(dirname "$0")/../lib/e2e.sh"

"$root/tests/fuzz/run.sh" -s 10
