#!/usr/bin/env bash
# 64 clients at once, some of whom leave or talk nonsense: answers as of an idle server, no error, flat memory.
source "$(dirname "$0")/../lib/e2e.sh"
source "$root/tests/lib/serve.sh"

compile "$smollm2_gguf" "$work/smollm2" --with serve
start_server "$work/smollm2" serve -c 2048 -np 16
python "$root/tests/server/load.py" "$url" "$server_pid" || fail "the load test"
end_server
