#!/usr/bin/env bash
# The architectures of tests/zoo/families.json: each small model's program gives the reference's logits, the same bits as
# one prompt, as generated tokens and in chunks.
source "$(dirname "$0")/../lib/e2e.sh"

zoo make-families "$work"
models="$(zoo families)"

# Models whose tokens attend to later ones: all go in one step.
whole_texts="dream-dense llada-dense llada-moe-moe rnd1-moe"

# RoPE turns by other factors in sequences with room for more than 256 positions.
long_contexts="phi3-dense phimoe-moe minicpm3-dense"

refuses_parts() {
  local way
  for way in "--decode" "-ub 7"; do
    # shellcheck disable=SC2086
    "$work/$model" logits --tokens "$tokens" $way -o "$work/$model.parts" 2>"$work/$model.error" &&
      fail "$model: logits $way is not refused"
    grep -q "attend to later ones" "$work/$model.error" || fail "$model: logits $way: $(cat "$work/$model.error")"
  done
}

make_logits() {
  local model="$1" tokens
  tokens="$(cat "$work/$model.tokens")"
  "$compiler" -q "$work/$model.gguf" -o "$work/$model" || fail "$model: does not compile"
  logits() { "$work/$model" logits --tokens "$tokens" -ctk f32 -ctv f32 "$@" || fail "$model: logits $*: exit code $?"; }
  logits -o "$work/$model.prompt"
  if [[ " $whole_texts " == *" $model "* ]]; then
    refuses_parts
    rm "$work/$model" "$work/$model.gguf"
    return
  fi
  logits --decode -o "$work/$model.decode"
  logits -ub 7 -o "$work/$model.chunks"
  same "$work/$model.prompt" "$work/$model.decode" "$model: as prompt and as generated tokens"
  same "$work/$model.prompt" "$work/$model.chunks" "$model: whole and in chunks of 7"
  if [[ " $long_contexts " == *" $model "* ]]; then
    logits -c 512 -o "$work/$model.long"
    logits -c 512 --decode -o "$work/$model.decode"
    logits -c 257 -ub 7 -o "$work/$model.chunks"
    logits -c 256 -o "$work/$model.short"
    same "$work/$model.long" "$work/$model.decode" "$model: long context, as prompt and as generated tokens"
    same "$work/$model.long" "$work/$model.chunks" "$model: contexts of 512 and of 257 in chunks of 7"
    same "$work/$model.prompt" "$work/$model.short" "$model: its own context and 256"
  fi
  rm "$work/$model" "$work/$model.gguf"
}

export -f make_logits refuses_parts fail same
export compiler work whole_texts long_contexts
xargs -P "$(nproc)" -I{} bash -euo pipefail -c 'make_logits {}' <<<"$models"
zoo check-families "$work" prompt
for model in $long_contexts; do zoo check "$model" "$work/$model.long" --type F32_long; done
