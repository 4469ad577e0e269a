#!/usr/bin/env bash
# --with: a program has the commands that were asked for, says of others how to get them, and is smaller for it.
source "$(dirname "$0")/../lib/e2e.sh"

compile "$smollm2_gguf" "$work/all"
compile "$smollm2_gguf" "$work/some" --with complete,info
python - "$work/all" "$work/some" <<'PY' || fail "what is in the files"
import json, subprocess, sys

def run(program, *words):
    return subprocess.run([program, *words], capture_output=True, text=True)

all_of_it, some = sys.argv[1:]
listed = [line.split()[0] for line in run(some, "help").stdout.split("commands:\n")[1].split("\n\n")[0].splitlines()]
assert listed == ["complete", "info", "help"], listed
words = ["-p", "The capital of France is", "-n", "4", "--temp", "0", "--no-perf"]
assert run(some, *words).stdout == run(all_of_it, *words).stdout != ""
for command in ["chat", "bench", "perplexity"]:
    r = run(some, command)
    assert r.returncode == 1 and r.stderr == f"some: error: this file was made without '{command}': the compiler's --with adds it\n", r
runtime = [json.loads(run(p, "info", "--json").stdout)["file"]["runtime_bytes"] for p in (all_of_it, some)]
print("runtime:", *runtime)
assert runtime[1] < 0.7 * runtime[0], runtime
PY
status=0
error="$("$compiler" "$smollm2_gguf" -o "$work/no" --with sreve 2>&1)" || status=$?
[ "$status" = 1 ] && [[ "$error" == *"--with: there is no command 'sreve'"* ]] || fail "an unknown command: $status, $error"
[ ! -e "$work/no" ] || fail "a file is left behind"
