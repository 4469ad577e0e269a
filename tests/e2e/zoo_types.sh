# Every quantized type gives the reference's logits for prompt and for generated tokens.
source "$(dirname "$0")/../lib/e2e.sh"

for model in gemma3-270m-like llama-dense qwen3moe-moe; do
  tokens="$(zoo tokens "$model")"
  for type in $(zoo types "$model"); do
    zoo make "$model" "$work/model.gguf" --type "$type"
    compile "$work/model.gguf" "$work/model"
    for role in "" --decode; do
      "$work/model" logits --tokens "$tokens" -ctk f32 -ctv f32 $role -o "$work/out.f32" ||
        fail "$model $type: logits $role: exit code $?"
      zoo check "$model" "$work/out.f32" --type "$type" || fail "$model $type ${role:-as prompt}"
    done
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
