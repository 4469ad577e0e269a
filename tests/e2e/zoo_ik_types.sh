# Models in the types that only ik_llama.cpp writes, rows that lie interleaved among them, give the logits of the same
# values as F32, for prompt and for generated tokens.
source "$(dirname "$0")/../lib/e2e.sh"

model=llama-dense
tokens="$(zoo tokens "$model")"
python "$root/tests/zoo/ik.py" make "$model" "$work" "$compiler"
for type in $(python "$root/tests/zoo/ik.py" types); do
  for name in "$type" "$type.twin"; do
    compile "$work/$name.gguf" "$work/program"
    for role in prompt decode; do
      "$work/program" logits --tokens "$tokens" $([ $role = decode ] && echo --decode) -ctk f32 -ctv f32 \
        -o "$work/$name.$role" || fail "$name as $role: exit code $?"
    done
  done
done
python "$root/tests/zoo/ik.py" check "$work" prompt --but-one || fail "as prompt"
python "$root/tests/zoo/ik.py" check "$work" decode || fail "--decode"

"$compiler" --list-formats | says "^Q4_K_R4	.*compiled as Q4_K" || fail "--list-formats has no Q4_K_R4"
"$compiler" inspect "$work/Q6_K_R4.gguf" | says "Q6_K_R4" || fail "inspect doesn't name interleaved types"
