#!/usr/bin/env bash
# The encoders of tests/zoo/families.json: `embed` gives the reference's embeddings of all tokens, pools them as it is told
# or as the file says, and the bits don't depend on the threads.
source "$(dirname "$0")/../lib/e2e.sh"

# pooled ALL POOLED HOW: POOLED is the mean, the first (cls) or the last row of ALL, of length 1.
pooled() {
  python - "$@" <<'PY'
import sys
import numpy as np
rows, got = (np.fromfile(path, "<f4").astype(np.float64) for path in sys.argv[1:3])
rows = rows.reshape(-1, got.size)
want = {"mean": rows.mean(axis=0), "cls": rows[0], "last": rows[-1]}[sys.argv[3]]
error = np.abs(got - want / np.linalg.norm(want)).max()
print(f"{sys.argv[3]}: largest difference {error:.1e}")
sys.exit(error > 1e-6)
PY
}

for model in $(zoo encoders); do
  zoo make "$model" "$work/m.gguf"
  compile "$work/m.gguf" "$work/m"
  tokens="$(zoo tokens "$model")"
  embed() { "$work/m" embed --tokens "$tokens" -ctk f32 -ctv f32 "$@" || fail "$model: embed $*: exit code $?"; }

  embed --pooling none --embd-normalize -1 -o "$work/all"
  zoo check "$model" "$work/all"
  embed --pooling none --embd-normalize -1 -t 1 -o "$work/one"
  same "$work/all" "$work/one" "$model: with one thread"

  for how in mean cls last; do
    embed --pooling "$how" -o "$work/$how"
    pooled "$work/all" "$work/$how" "$how" || fail "$model: pooling $how"
  done
  embed -o "$work/own"
  case "$model" in bert-small) own=cls ;; *) own=mean ;; esac
  same "$work/own" "$work/$own" "$model: the file's own pooling"
  [ "$(embed | tr ',' '\n' | wc -l)" = 64 ] || fail "$model: embed prints $(embed | head -c 80)"

  "$work/m" logits --tokens "$tokens" -o "$work/no" 2>"$work/error" && fail "$model: logits of an encoder"
  "$work/m" -p x 2>"$work/error" && fail "$model: an encoder generates"
  grep -q "error: " "$work/error" || fail "$model: $(cat "$work/error")"
done
