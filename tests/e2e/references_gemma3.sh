# The real Gemma 3 270M is as good as its f32 model. The bounds are a tenth of llama.cpp's distance and less: they
# hold with activations of 16 bits and fail with activations of 8.
source "$(dirname "$0")/../lib/e2e.sh"

compile "$gemma3_gguf" "$work/gemma3"
tokens="$(compare_logits tokens gemma3-270m)"
for role in "" --decode; do
  "$work/gemma3" logits --tokens "$tokens" $role -o "$work/out.f32" || fail "logits $role: exit code $?"
  compare_logits text gemma3-270m "$work/out.f32" --kl 0.001 --p99 0.012 --top1 0.98 --perplexity 0.003 ||
    fail "the reference text, ${role:-as prompt}"
done
for ((i = 0; i < $(compare_logits cases gemma3-270m); i++)); do
  ids="$(compare_logits case-ids gemma3-270m "$i")"
  for role in "" --decode; do
    "$work/gemma3" logits --tokens "$ids" $role -o "$work/out.f32" || fail "logits $role: exit code $?"
    compare_logits case gemma3-270m "$i" "$work/out.f32" || fail "greedy case $i, ${role:-as prompt}"
  done
done
