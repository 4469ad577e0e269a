#!/usr/bin/env bash
# The encoders of tests/zoo/families.json: `embed` gives the reference's embeddings of all tokens, pools them as it is told
# or as the file says, and the bits don't depend on the threads. Models that rank give the reference's scores. What a C
# program gets of a model that is part of it is the same.
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
sys.exit(int(error > 1e-6))
PY
}

# refuses WHAT COMMAND...: it says why in one line.
refuses() {
  local what="$1"
  shift
  "$work/m" "$@" >"$work/no" 2>"$work/error" && fail "$model: $what"
  grep -q "^m: error: " "$work/error" || fail "$model: $what: $(cat "$work/error")"
}

embed() { "$work/m" embed --tokens "$tokens" -ctk f32 -ctv f32 "$@" || fail "$model: embed $*: exit code $?"; }

embeddings() {
  embed --pooling none --embd-normalize -1 -o "$work/all"
  zoo check "$model" "$work/all"
  embed --pooling none --embd-normalize -1 -t 1 -o "$work/one"
  same "$work/all" "$work/one" "$model: with one thread"
  for how in mean cls last; do
    embed --pooling "$how" -o "$work/$how"
    pooled "$work/all" "$work/$how" "$how" || fail "$model: pooling $how"
  done
  embed -o "$work/own"
  case "$model" in bert-small) own=cls ;; qwen3-embedding) own=last ;; *) own=mean ;; esac
  same "$work/own" "$work/$own" "$model: the file's own pooling"
  [ "$(embed | tr ',' '\n' | wc -l)" = $(($(stat -c %s "$work/own") / 4)) ] ||
    fail "$model: embed prints $(embed | head -c 80)"
  refuses "a query without a classifier" embed -p x --query y
}

scores() {
  embed -o "$work/scores"
  zoo check "$model" "$work/scores"
  embed -t 1 -o "$work/one"
  same "$work/scores" "$work/one" "$model: with one thread"
  refuses "another pooling of scores" embed --tokens "$tokens" --pooling mean
}

for model in $(zoo encoders); do
  zoo make "$model" "$work/m.gguf"
  compile "$work/m.gguf" "$work/m"
  tokens="$(zoo tokens "$model")"
  case "$model" in *-rank) scores ;; *) embeddings ;; esac
  refuses "logits of an encoder" logits --tokens "$tokens" -o "$work/no"
  refuses "an encoder generates" -p x
  "$work/m" dump --tokens "$tokens" | says l_out || fail "$model: dump"
done

# ---- From C ----
cat >"$work/embed.c" <<'C'
#include <stdio.h>
#include <stdlib.h>

#include "m.h"

/* Writes the embedding of the ids on the command line to standard output, as f32. */
int main(int argc, char** argv) {
  m_model* model = NULL;
  m_session* session = NULL;
  m_session_options options;
  m_model_info info;
  int32_t ids[512];
  float* out = NULL;
  size_t n = 0;
  char why[256] = "";
  for (int i = 1; i < argc; i++) ids[i - 1] = atoi(argv[i]);
  info.size = sizeof info;
  m_session_options_init(&options);
  options.kv_type = M_KV_F32;
  options.threads = 1;
  if (m_model_open(NULL, &model, why, sizeof why) != M_OK ||
      m_session_create(model, &options, &session, why, sizeof why) != M_OK ||
      m_model_get_info(model, &info) != M_OK)
    return fprintf(stderr, "%s\n", why), 1;
  if (m_embed(session, ids, (size_t)(argc - 1), M_POOLING_USUAL, 1, NULL, 0, &n) != M_ERR_FULL || n == 0 ||
      n % info.n_embedding != 0)
    return fprintf(stderr, "%zu floats: %s\n", n, m_session_error(session)), 1;
  out = malloc(n * sizeof *out);
  for (int twice = 0; twice < 2; twice++)
    if (m_embed(session, ids, (size_t)(argc - 1), M_POOLING_USUAL, 1, out, n, &n) != M_OK)
      return fprintf(stderr, "%s\n", m_session_error(session)), 1;
  if (m_prefill(session, 0, ids, 1) != M_ERR_UNSUPPORTED || m_length(session, 0) != 0)
    return fprintf(stderr, "a prompt for an encoder\n"), 1;
  fwrite(out, sizeof *out, n, stdout);
  if (m_embed(session, ids, 1, M_POOLING_NONE, 1, out, n, &n) != (info.gives_scores ? M_ERR_UNSUPPORTED : M_OK))
    return fprintf(stderr, "another pooling: %s\n", m_session_error(session)), 1;
  m_session_free(session);
  m_model_close(model);
  free(out);
  return 0;
}
C
for model in qwen3-embedding bert-rank; do
  zoo make "$model" "$work/m.gguf"
  compile "$work/m.gguf" "$work/m"
  compile "$work/m.gguf" "$work/m.o" --emit obj --header "$work/m.h"
  tokens="$(zoo tokens "$model")"
  clang-22 -std=c99 -pedantic -Wall -Wextra -Werror -fsanitize=address,undefined -I"$work" "$work/embed.c" "$work/m.o" \
    -o "$work/embed" -lm -pthread >"$work/log" 2>&1 || fail "clang-22: $(cat "$work/log")"
  # shellcheck disable=SC2086
  "$work/embed" ${tokens//,/ } >"$work/of_c" 2>"$work/error" || fail "$model from C: $(cat "$work/error")"
  embed -o "$work/own"
  same "$work/own" "$work/of_c" "$model from C"
done
