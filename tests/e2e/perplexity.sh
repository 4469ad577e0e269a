#!/usr/bin/env bash
# `perplexity` says what the program's own logits say, whatever the chunks, and its distance from itself is none: as
# prompt from as prompt exactly, as generated tokens from as prompt nearly. Files that are no base are refused.
source "$(dirname "$0")/../lib/e2e.sh"

compile "$gemma3_gguf" "$work/gemma3"
text="$root/tests/references/text.txt"
"$work/gemma3" perplexity -f "$text" -c 256 --kl-divergence-base "$work/base" >"$work/first" || fail "saving a base"
"$work/gemma3" perplexity -f "$text" -c 256 -ub 48 -t 1 >"$work/second"
same "$work/first" "$work/second" "-ub 48 -t 1"

# The same from logits: chunks of 256 from an empty context, the second half counts.
"$work/gemma3" tokenize --ids -f "$text" >"$work/ids"
python - "$work" <<'PY' || fail "perplexity and logits"
import re, subprocess, sys
import numpy as np
work = sys.argv[1]
ids = list(map(int, open(f"{work}/ids").read().split(",")))
nll = []
for chunk in range(len(ids) // 256):
    part = ids[256 * chunk:256 * (chunk + 1)]
    run = [ids[0]] + part[1:]
    subprocess.run([f"{work}/gemma3", "logits", "--tokens", ",".join(map(str, run)), "-o", f"{work}/out.f32"], check=True)
    logits = np.memmap(f"{work}/out.f32", "<f4", "r").reshape(256, -1)
    for i in range(128, 255):
        row = logits[i].astype(np.float64)
        row -= row.max()
        nll.append(np.log(np.exp(row).sum()) - row[part[i + 1]])
expected = np.exp(np.mean(nll))
said = float(re.search(r"PPL = ([0-9.]+)", open(f"{work}/first").read()).group(1))
print(f"perplexity {said}, from logits {expected:.4f}")
sys.exit(int(abs(said - expected) > 0.0002 * expected))
PY

value() { sed -n "s/^$2 *:* *\\([-0-9.]*\\).*/\\1/p" "$1" | head -n 1; }
within() { awk "BEGIN {exit !($1 >= -0.00001 && $1 <= $2)}" || fail "$3: $1, expected at most $2"; }
"$work/gemma3" perplexity --kl-divergence --kl-divergence-base "$work/base" --chunks 1 >"$work/prompt"
within "$(value "$work/prompt" "Mean    KLD")" 0.000002 "KL of itself"
# A base keeps 16 bits a token, and nothing below e^-16 of the likeliest: where many tokens share a little, that shows.
within "$(value "$work/prompt" "Maximum KLD")" 0.0002 "the largest KL of itself"
[ "$(value "$work/prompt" "Same top p")" = 100.000 ] || fail "another best token in the same logits"
# Where prompts multiply in bf16 a few positions of near ties make most of the mean: 0.00048 here, the median 0.00013.
"$work/gemma3" perplexity --kl-divergence --kl-divergence-base "$work/base" --decode >"$work/decode"
within "$(value "$work/decode" "Mean    KLD")" 0.001 "KL of generated tokens from prompt tokens"
within "$(value "$work/decode" "Median  KLD")" 0.0003 "the median KL of generated tokens from prompt tokens"

refused() { "$work/gemma3" perplexity "$@" >/dev/null 2>"$work/stderr" && fail "$* was taken" || true; }
refused --kl-divergence
refused -f "$text" -c 4096
head -c 1000 "$work/base" >"$work/cut"
refused --kl-divergence --kl-divergence-base "$work/cut"
grep -q "cut off" "$work/stderr" || fail "a base that is cut off: $(cat "$work/stderr")"
refused --kl-divergence --kl-divergence-base "$text"
