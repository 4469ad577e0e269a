#!/usr/bin/env bash
# The architectures of tests/zoo/families.json: each small model's program gives the reference's logits, the same bits as
# one prompt, as generated tokens and in chunks.
source "$(dirname "$0")/../lib/e2e.sh"

zoo make-families "$work"
models="$(zoo families)"

make_logits() {
  local model="$1" tokens
  tokens="$(cat "$work/$model.tokens")"
  "$compiler" -q "$work/$model.gguf" -o "$work/$model" || fail "$model: does not compile"
  logits() { "$work/$model" logits --tokens "$tokens" -ctk f32 -ctv f32 "$@" || fail "$model: logits $*: exit code $?"; }
  logits -o "$work/$model.prompt"
  logits --decode -o "$work/$model.decode"
  logits -ub 7 -o "$work/$model.chunks"
  same "$work/$model.prompt" "$work/$model.decode" "$model: as prompt and as generated tokens"
  same "$work/$model.prompt" "$work/$model.chunks" "$model: whole and in chunks of 7"
  rm "$work/$model" "$work/$model.gguf"
}

export -f make_logits fail same
export compiler work
xargs -P "$(nproc)" -I{} bash -euo pipefail -c 'make_logits {}' <<<"$models"
zoo check-families "$work" prompt
