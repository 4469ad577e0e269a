#!/usr/bin/env bash
# Many requests at once: all answers, probabilities included, are bit for bit those that each gets alone and without what
# is kept of prompts, for full attention, sliding windows, latent attention, recurrent and hybrid models, and for
# embeddings. Memory is flat.
source "$(dirname "$0")/../lib/e2e.sh"

# answers MODEL FLAGS...: "checksum kept-tokens prompt-tokens-read" of requests of many kinds.
answers() {
  local model="$1"
  shift
  "$work/$model" bench --requests 24 -d "$shared" -p 40 -n 12 --probs 5 "$@" -o json >"$work/bench.json" ||
    fail "$model: bench $*: exit code $?"
  python -c 'import json, sys
(row,) = json.load(open(sys.argv[1]))
assert row["n_requests"] == 24 and row["prompt_tokens"] >= 24 * 10 - 10, row
assert row["generated_tokens"] >= 24 * 3 or sys.argv[2] == "0", row
print(row["answers"], row["kept_tokens"], row["prompt_tokens"])' "$work/bench.json" "$shared"
}

check() {
  local model="$1" alone way sum kept read
  read -r alone kept read < <(answers "$model" -npl 1 -t 1 --no-cache-prompt)
  [ "$kept" = 0 ] || fail "$model: --no-cache-prompt kept $kept tokens"
  local all="$read"
  for way in "-npl 1" "-npl 5 -t 3" "-npl 12 -t 2 -ub 48"; do
    # shellcheck disable=SC2086
    read -r sum kept read < <(answers "$model" $way)
    [ "$sum" = "$alone" ] || fail "$model: bench $way: other answers than alone"
    # Only the first request reads what all begin with, or waits in vain for who does.
    [ "$kept" -ge $((20 * shared)) ] || fail "$model: bench $way: $kept tokens of $((24 * shared)) are from kept prompts"
    [ $((kept + read)) = "$all" ] || fail "$model: bench $way: $kept + $read tokens, not $all"
  done
  echo "$model: $alone"
}

zoo make-families "$work"
shared=150
for model in qwen3-dense gpt-oss-moe deepseek2-moe mamba-dense falcon-h1-dense lfm2-dense; do
  "$compiler" -q "$work/$model.gguf" -o "$work/$model" 2>"$work/compile.log" ||
    fail "$model: $(cat "$work/compile.log")"
  check "$model"
done
compile "$gemma3_gguf" "$work/gemma3"
shared=600  # past the window of 512
check gemma3

# Encoders: texts of many share a step.
shared=0
for model in bert-small modern-bert-small qwen3-embedding t5encoder-small bert-rank; do
  zoo make "$model" "$work/$model.gguf"
  compile "$work/$model.gguf" "$work/$model"
  read -r alone _ < <(answers "$model" -npl 1 -t 1)
  for way in "-npl 5 -t 3" "-npl 24 -t 2"; do
    # shellcheck disable=SC2086
    read -r sum _ < <(answers "$model" $way)
    [ "$sum" = "$alone" ] || fail "$model: bench $way: other embeddings than alone"
  done
  echo "$model: $alone"
done

# Ten times the requests take no more memory.
peak() {
  python "$root/tests/tools/peak_memory.py" "$work/qwen3-dense" bench --requests "$1" -npl 8 -d 100 -p 40 -n 12 \
    --probs 5 -t 2
}
few="$(peak 300)" many="$(peak 3000)"
echo "300 requests: $few KiB, 3000: $many KiB"
[ "$many" -le $((few + 1024)) ] || fail "3000 requests take $many KiB, 300 take $few KiB"
