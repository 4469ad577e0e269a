#!/usr/bin/env bash
# The page of OUT serve in headless Chromium; its screenshots stay in ~/.cache/gguf-compile/screenshots.
source "$(dirname "$0")/../lib/e2e.sh"
source "$root/tests/lib/serve.sh"
command -v chromedriver >/dev/null || skip "no chromedriver: samples/setup.sh browser"

compile "$smollm2_gguf" "$work/smollm2" --with serve
start_server "$work/smollm2" serve -c 4096
python "$root/tests/server/page_test.py" "$url" "$cache/screenshots" || fail "the page"
end_server
