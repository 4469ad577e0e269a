# The real Gemma 3 270M is as good as its f32 model. The bounds are a twentieth of llama.cpp's distance and less: they
# hold with bf16 (prompts) and 16 bits (generated tokens) and fail with activations of 8.
source "$(dirname "$0")/../lib/e2e.sh"

compile "$gemma3_gguf" "$work/gemma3"
tokens="$(compare_logits tokens gemma3-270m)"
for role in "" --decode; do
  "$work/gemma3" logits --tokens "$tokens" $role -o "$work/out.f32" || fail "logits $role: exit code $?"
  compare_logits text gemma3-270m "$work/out.f32" --kl 0.0005 --p99 0.006 --top1 0.985 --perplexity 0.003 ||
    fail "the reference text, ${role:-as prompt}"
done
# What the types of keys and values cost alone: tokens as generated ones, whose products are exact to 16 bits.
for bound in "f32 0.00001" "f16 0.00002" "bf16 0.00015" "q8_0 0.0015"; do
  read -r type kl <<<"$bound"
  "$work/gemma3" logits --tokens "$tokens" --decode -ctk "$type" -ctv "$type" -o "$work/out.f32" ||
    fail "logits -ctk $type: exit code $?"
  compare_logits text gemma3-270m "$work/out.f32" --kl "$kl" || fail "the reference text, KV in $type"
done
for ((i = 0; i < $(compare_logits cases gemma3-270m); i++)); do
  ids="$(compare_logits case-ids gemma3-270m "$i")"
  for role in "" --decode; do
    "$work/gemma3" logits --tokens "$ids" $role -o "$work/out.f32" || fail "logits $role: exit code $?"
    compare_logits case gemma3-270m "$i" "$work/out.f32" || fail "greedy case $i, ${role:-as prompt}"
  done
done
