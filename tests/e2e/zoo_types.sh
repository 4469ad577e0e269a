# Every quantized type gives the reference's logits for prompt and for generated tokens; prompts, which may multiply in
# bf16, may miss them at one ill-conditioned position.
source "$(dirname "$0")/../lib/e2e.sh"

for model in gemma3-270m-like llama-dense qwen3moe-moe; do
  tokens="$(zoo tokens "$model")"
  for type in $(zoo types "$model"); do
    zoo make "$model" "$work/model.gguf" --type "$type"
    compile "$work/model.gguf" "$work/model"
    logits() {
      "$work/model" logits --tokens "$tokens" -ctk f32 -ctv f32 "$@" -o "$work/out.f32" ||
        fail "$model $type: logits $*: exit code $?"
    }
    logits
    zoo check "$model" "$work/out.f32" --type "$type" --but-one || fail "$model $type as prompt"
    logits --decode
    zoo check "$model" "$work/out.f32" --type "$type" || fail "$model $type --decode"
  done
done

# F64 is rounded to F32 when it is packed: the same bits.
model=llama-dense
tokens="$(zoo tokens "$model")"
for type in F32 F64; do
  zoo make "$model" "$work/model.gguf" --type "$type"
  compile "$work/model.gguf" "$work/model"
  "$work/model" logits --tokens "$tokens" -o "$work/$type.f32" || fail "$model $type: exit code $?"
done
same "$work/F32.f32" "$work/F64.f32" "$model in F32 and in F64"
