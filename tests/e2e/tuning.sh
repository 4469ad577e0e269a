#!/usr/bin/env bash
# Tuned block shapes change no bit of the results; a tuning file of another compiler, machine or model, or a broken one, is
# refused in one line, and nothing is written.
source "$(dirname "$0")/../lib/e2e.sh"

tokens="$(compare_logits tokens smollm2-135m | cut -d, -f1-40)"
logits() { "$work/$1" logits --tokens "$tokens" --decode -o "$work/logits.$1"; }

compile "$smollm2_gguf" "$work/plain"
logits plain
"$compiler" "$smollm2_gguf" --tune "$work/tuning" >"$work/said" 2>&1 || fail "--tune: $(cat "$work/said")"
grep -q "q4_1 576: row_panels" "$work/said" || fail "--tune said: $(cat "$work/said")"
[ ! -e "$work/said.weights" ] && [ "$(ls "$work" | grep -c plain)" = 2 ] || fail "--tune alone compiled something"
compile "$smollm2_gguf" "$work/tuned" --tuning "$work/tuning"
logits tuned
same "$work/logits.plain" "$work/logits.tuned" "logits of tuned shapes"
# Shapes that nobody would choose.
sed -E 's/row_panels=[0-9]+ ahead=[0-9]+ tile_rows=[0-9]+ chunk_groups=[0-9]+/row_panels=3 ahead=640 tile_rows=17 chunk_groups=1/' \
  "$work/tuning" >"$work/odd.tuning"
cmp -s "$work/tuning" "$work/odd.tuning" && fail "the tuning file looks otherwise: $(cat "$work/tuning")"
compile "$smollm2_gguf" "$work/odd" --tuning "$work/odd.tuning"
logits odd
same "$work/logits.plain" "$work/logits.odd" "logits of odd shapes"
compile "$smollm2_gguf" "$work/odd2" --tuning "$work/odd.tuning"
same "$work/odd" "$work/odd2" "a compile with the same tuning"

# refuse FILE WORDS: one error line with the words, exit code 1, no output.
refuse() {
  local code=0
  "$compiler" "${model:-$smollm2_gguf}" -o "$work/refused" -q --tuning "$1" >"$work/said" 2>&1 || code=$?
  [ "$code" = 1 ] || fail "$1: exit code $code: $(cat "$work/said")"
  grep -q "^gguf-compile: error: .*$2" "$work/said" || fail "$1: '$2' expected, said: $(cat "$work/said")"
  [ "$(grep -vc warning "$work/said")" = 1 ] || fail "$1: more than one line: $(cat "$work/said")"
  [ ! -e "$work/refused" ] || fail "$1: an output was left"
}
refuse "$work/none" "none"
: >"$work/bad" && refuse "$work/bad" "bad"
head -c 5000 "$smollm2_gguf" >"$work/bad" && refuse "$work/bad" "line 1: expected"
sed 's/tuning 1/tuning 9/' "$work/tuning" >"$work/bad" && refuse "$work/bad" "line 1: expected .*measure again"
sed 's/^isa .*/isa elsewhere/' "$work/tuning" >"$work/bad" && refuse "$work/bad" "no shapes for .*elsewhere"
sed 's/ahead=[0-9]*/ahead=-1/' "$work/tuning" >"$work/bad" && refuse "$work/bad" "expected ahead=N, N from 0 to"
sed 's/^q4_1 576/q4_1 608/' "$work/tuning" >"$work/bad" && refuse "$work/bad" "no shapes for q4_1 with 576 columns"
head -c -20 "$work/tuning" >"$work/bad" && refuse "$work/bad" "line [0-9]*: expected"
model="$gemma3_gguf" refuse "$work/tuning" "was measured for another model"
