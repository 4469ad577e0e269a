# The real SmolLM2 135M, by token ids: the llama architecture through the same seams.
source "$(dirname "$0")/../lib/e2e.sh"

compile "$smollm2_gguf" "$work/smollm2" --no-tokenizer
tokens="$(compare_logits tokens smollm2-135m)"
for role in "" --decode; do
  "$work/smollm2" logits --tokens "$tokens" $role -o "$work/out.f32" || fail "logits $role: exit code $?"
  compare_logits text smollm2-135m "$work/out.f32" --kl 0.0003 --perplexity 0.003 ||
    fail "the reference text, ${role:-as prompt}"
done
for ((i = 0; i < $(compare_logits cases smollm2-135m); i++)); do
  ids="$(compare_logits case-ids smollm2-135m "$i")"
  "$work/smollm2" logits --tokens "$ids" --decode -o "$work/out.f32" || fail "logits: exit code $?"
  compare_logits case smollm2-135m "$i" "$work/out.f32" || fail "greedy case $i"
done
