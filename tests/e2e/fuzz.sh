# Each fuzzer for some ten seconds: the same inputs each time, from its seeds and from all that was ever found;
# tests/fuzz/run.sh runs them for hours, with new ones.
source "$(dirname "$0")/../lib/e2e.sh"

"$root/tests/fuzz/run.sh" --ci
