# Values inside the model: what dump shows is what the program computes, and a file compiled for it shows every value of
# the graph, with the same results.
source "$(dirname "$0")/../lib/e2e.sh"

tokens=2,818,5279,529,7001,563
zoo make gemma3-270m-like "$work/zoo.gguf" --type Q4_0
ids="$(zoo tokens gemma3-270m-like)"
compile "$work/zoo.gguf" "$work/zoo"
compile "$work/zoo.gguf" "$work/debug" --debug-values

"$work/zoo" logits --tokens "$ids" -o "$work/logits"
for program in zoo debug; do
  "$work/$program" dump --tokens "$ids" --name '^logits$' -o "$work/$program.logits" >"$work/$program.line"
done
same "$work/logits" "$work/zoo.logits" "dump shows other logits than logits"
same "$work/logits" "$work/debug.logits" "a file with --debug-values computes other logits"

for name in attn_norm q_norm k_rope attn_out ffn_gate ffn_act ffn_post_norm l_out; do
  "$work/debug" dump --tokens "$ids" --name "^blk\.1\.$name\$" | says "^blk.1.$name " || fail "no value blk.1.$name"
done
[ "$("$work/zoo" dump --tokens "$ids" | wc -l)" -lt "$("$work/debug" dump --tokens "$ids" | wc -l)" ] ||
  fail "--debug-values shows no more values"

compile "$gemma3_gguf" "$work/gemma3"
"$work/gemma3" dump --tokens "$tokens" --name 'blk\.0\.attn_residual' | tee "$work/real"
grep -q '\[6, 640\]' "$work/real" || fail "the shape of blk.0.attn_residual"
if "$work/gemma3" dump --tokens "$tokens" --name nosuch 2>"$work/error"; then fail "a name that nothing matches"; fi
grep -q "nosuch" "$work/error" || fail "the error does not say which name"

# ---- Weights: what the program multiplies by is what the file holds ----
# weights GGUF PROGRAM NAME: as `inspect --weights` has them.
weights() {
  "$compiler" inspect "$1" --weights "$3" -o "$work/of_file" >/dev/null || fail "inspect --weights $3"
  "$2" dump --weights "$3" -o "$work/of_program" >"$work/line.program" || fail "dump --weights $3"
  same "$work/of_file" "$work/of_program" "$3"
  grep -q "^$3  .* sum " "$work/line.program" || fail "$3: $(cat "$work/line.program")"
}
# The tied head lies in two streams.
for name in token_embd.weight blk.0.attn_q.weight blk.0.attn_v.weight blk.3.ffn_down.weight blk.1.attn_norm.weight; do
  weights "$gemma3_gguf" "$work/gemma3" "$name"
done
for type in IQ2_XXS TQ1_0 F16 NVFP4; do
  zoo make llama-dense "$work/m.gguf" --type "$type"
  compile "$work/m.gguf" "$work/m"
  weights "$work/m.gguf" "$work/m" blk.0.ffn_up.weight
done
"$work/m" dump --weights list | says -x blk.0.ffn_up.weight || fail "the list of weights"
if "$work/m" dump --weights nosuch 2>"$work/error"; then fail "weights that are not there"; fi
grep -q "'nosuch'" "$work/error" || fail "$(cat "$work/error")"
