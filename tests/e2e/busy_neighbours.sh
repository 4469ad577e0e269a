#!/usr/bin/env bash
# A busy neighbour costs its share of the machine, never a collapse: with a spinning process on each CPU, decode keeps a
# quarter of its speed at least. Idle and busy are measured in turn, best of three, since the machine may have other work.
source "$(dirname "$0")/../lib/e2e.sh"

compile "$gemma3_gguf" "$work/gemma3"
python - "$work/gemma3" <<'PY' || fail "decode beside a spinning process on each CPU"
import json, os, subprocess, sys

def speed():
    out = subprocess.run([sys.argv[1], "bench", "-p", "0", "-n", "24", "-r", "1", "-o", "json"], check=True,
                         capture_output=True).stdout
    return json.loads(out)[0]["avg_ts"]

def spinning(run):
    spinners = []
    for cpu in os.sched_getaffinity(0):
        spinners.append(subprocess.Popen([sys.executable, "-c", "while True: pass"],
                                         preexec_fn=lambda cpu=cpu: os.sched_setaffinity(0, {cpu})))
    try:
        return run()
    finally:
        for s in spinners:
            s.kill()
            s.wait()

idle, busy = [], []
for _ in range(3):
    idle.append(speed())
    busy.append(spinning(speed))
share = max(busy) / max(idle)
print(f"idle {max(idle):.1f} tokens/s, busy {max(busy):.1f}: {share:.2f}")
sys.exit(share < 0.25)
PY
