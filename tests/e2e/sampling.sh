#!/usr/bin/env bash
# A file's own general.sampling.* are the defaults of what is compiled of it; flags win over them.
source "$(dirname "$0")/../lib/e2e.sh"

zoo make llama-dense "$work/plain.gguf"
with() { # NAME KEY=TYPE:VALUE...: compiles the model with these keys
  local name="$1"
  shift
  python "$root/tests/tools/add_metadata.py" "$work/plain.gguf" "$work/$name.gguf" "${@/#/general.sampling.}"
  compile "$work/$name.gguf" "$work/$name"
}
ids() { # NAME FLAGS...: what is generated
  "$work/$1" --tokens 1,2,3 -n 24 --ids --no-perf --ignore-eos "${@:2}" 2>"$work/err" || fail "$*: $(cat "$work/err")"
}
same_ids() { [ "$1" = "$2" ] || fail "$3: '$1' and '$2'"; }
other_ids() { [ "$1" != "$2" ] || fail "$3: '$1' both times"; }

with usual temp=f32:0.8
greedy="$(ids usual --temp 0)"
same_ids "$(ids usual -s 1)" "$(ids usual -s 1)" "the same seed"
other_ids "$(ids usual -s 1)" "$(ids usual -s 2)" "two seeds"

with cold temp=f32:0
same_ids "$(ids cold -s 1)" "$greedy" "temp of the file"
other_ids "$(ids cold -s 1 --temp 1.5)" "$greedy" "--temp over the file's"

with narrow top_k=i32:1
same_ids "$(ids narrow -s 1)" "$greedy" "top_k of the file"
other_ids "$(ids narrow -s 1 --top-k 0 --temp 1.5)" "$greedy" "--top-k over the file's"

# Without its stages a model's other settings do nothing.
with stages temp=f32:0 sequence=str:top_k
other_ids "$(ids stages -s 1)" "$greedy" "sequence of the file"
same_ids "$(ids stages -s 1 --samplers temperature)" "$greedy" "--samplers over the file's"

with surprise mirostat=i32:2 mirostat_tau=f32:2 mirostat_eta=f32:0.2
same_ids "$(ids surprise -s 1)" "$(ids usual -s 1 --mirostat 2 --mirostat-ent 2 --mirostat-lr 0.2)" "mirostat of the file"

python "$root/tests/tools/add_metadata.py" "$work/plain.gguf" "$work/bad.gguf" general.sampling.sequence=str:nonsense
if "$compiler" "$work/bad.gguf" -o "$work/bad" >"$work/err" 2>&1; then
  if "$work/bad" --tokens 1 -n 1 >"$work/err" 2>&1; then fail "a sequence of unknown samplers"; fi
fi
grep -q "nonsense" "$work/err" || fail "a sequence of unknown samplers: $(cat "$work/err")"
