# Every architecture in F32 gives the reference's logits, and the same bits however the tokens are fed: as one
# prompt, as generated tokens, in chunks that end anywhere in and past the sliding window. F32 has one arithmetic for
# prompt and generated tokens, so nothing but the order of work may differ.
source "$(dirname "$0")/../lib/e2e.sh"

for model in $(zoo models); do
  zoo make "$model" "$work/model.gguf"
  compile "$work/model.gguf" "$work/model"
  tokens="$(zoo tokens "$model")"
  logits() { "$work/model" logits --tokens "$tokens" -ctk f32 -ctv f32 "$@" || fail "$model: logits $*: exit code $?"; }
  logits -o "$work/prompt.f32"
  zoo check "$model" "$work/prompt.f32"
  logits --decode -o "$work/decode.f32"
  same "$work/prompt.f32" "$work/decode.f32" "$model: as prompt and as generated tokens"
  for chunk in 1 7 31 48; do
    logits -ub "$chunk" -o "$work/chunks.f32"
    same "$work/prompt.f32" "$work/chunks.f32" "$model: whole and in chunks of $chunk"
  done
done
