#!/usr/bin/env bash
# Tokens don't depend on how the head lies in the file: greedy, top-k and penalized chains continue the references' prompts
# alike from one stream, from two streams, and from stored logits.
source "$(dirname "$0")/../lib/e2e.sh"

compile "$gemma3_gguf" "$work/one" --head-streams one
compile "$gemma3_gguf" "$work/two" --head-streams two
generate() { "$work/$1" --tokens "$2" --ids -n "$n" --ignore-eos "${@:3}" 2>"$work/stderr" || fail "$*: $(cat "$work/stderr")"; }
n=24
chains=("--temp 0" "--temp 0.9 --top-k 64 --top-p 1 --min-p 0 -s 5" "--temp 0 --repeat-penalty 1.3 --repeat-last-n 32"
  "--temp 1.2 --top-k 8 --frequency-penalty 0.4 --presence-penalty -0.3 -s 9")
for ((i = 0; i < $(compare_logits cases gemma3-270m); i++)); do
  ids="$(compare_logits case-ids gemma3-270m "$i")"
  for chain in "${chains[@]}"; do
    generate one "$ids" $chain >"$work/ids.one"
    generate two "$ids" $chain >"$work/ids.two"
    same "$work/ids.one" "$work/ids.two" "case $i, $chain"
  done
done
# A chain whose first stage is no choice stores all logits: the same again.
generate two "$ids" --temp 0.9 --samplers "temperature;top_k" --top-k 1 >"$work/ids.stored"
generate two "$ids" --temp 0 >"$work/ids.two"
same "$work/ids.stored" "$work/ids.two" "stored logits and chosen ones"
# Every position of the reference text: the best token of the logits is the one that the head chooses, in steps of one row.
tokens="$(compare_logits tokens gemma3-270m | cut -d, -f1-120)"
for head in one two; do "$work/$head" logits --tokens "$tokens" --decode -o "$work/logits.$head"; done
same "$work/logits.one" "$work/logits.two" "logits of one stream and of two"
"$work/two" check >"$work/said" || fail "check: $(cat "$work/said")"
