# Compiling streams the model, and running maps it: neither copies the weights into memory of its own.
source "$(dirname "$0")/../lib/e2e.sh"

peak="$(python "$root/tests/tools/peak_memory.py" "$compiler" "$gemma3_gguf" -o "$work/gemma3")"
echo "compiling: $((peak / 1024)) MiB of private memory"
[ "$peak" -le $((1024 * 1024)) ] || fail "compiling took $((peak / 1024)) MiB of private memory, more than 1 GiB"

# KV of 512 positions takes 10 MiB at most, logits 1 MiB; a copy of the weights would take 240.
peak="$(python "$root/tests/tools/peak_memory.py" "$work/gemma3" -p "The capital of France is" -n 32 -c 512 --temp 0)"
echo "running: $((peak / 1024)) MiB of private memory"
[ "$peak" -le $((64 * 1024)) ] || fail "running took $((peak / 1024)) MiB of private memory, more than 64"

# What info says of a context is what a session that fills it takes, for each KV type. The shorter one is that whose scratch
# weighs most beside keys and values.
same_as_info() {  # CONTEXT TYPE...
  local context="$1" type said peak
  "$work/gemma3" info --json -c "$context" -t 2 >"$work/info.json" || fail "info: exit code $?"
  for type in "${@:2}"; do
    said="$(python -c 'import json, sys
info = json.load(open(sys.argv[1]))
print((info["kv_bytes"][sys.argv[2]] + info["arena_bytes"]) // 1024)' "$work/info.json" "$type")"
    peak="$(python "$root/tests/tools/peak_memory.py" "$work/gemma3" bench -p 0 -n 1 -d $((context - 1)) -r 1 --no-warmup -t 2 -ctk "$type")"
    echo "$context tokens of context in $type: $peak KiB, info says $said"
    [ $((100 * peak)) -le $((102 * said)) ] && [ $((100 * peak)) -ge $((98 * said)) ] ||
      fail "a context of $context in $type took $peak KiB, info says $said"
  done
}
same_as_info 8192 q8_0
same_as_info 32768 f32 f16 bf16 q8_0
