# Compiling streams the model, and running maps it: neither copies the weights into memory of its own.
source "$(dirname "$0")/../lib/e2e.sh"

peak="$(python "$root/tests/tools/peak_memory.py" "$compiler" "$gemma3_gguf" -o "$work/gemma3")"
echo "compiling: $((peak / 1024)) MiB of private memory"
[ "$peak" -le $((1024 * 1024)) ] || fail "compiling took $((peak / 1024)) MiB of private memory, more than 1 GiB"

# KV of 512 positions takes 10 MiB at most, logits 1 MiB; a copy of the weights would take 240.
peak="$(python "$root/tests/tools/peak_memory.py" "$work/gemma3" -p "The capital of France is" -n 32 -c 512 --temp 0)"
echo "running: $((peak / 1024)) MiB of private memory"
[ "$peak" -le $((64 * 1024)) ] || fail "running took $((peak / 1024)) MiB of private memory, more than 64"
