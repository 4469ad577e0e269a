# What `-p` prints is what the program's own logits say, whatever the number of threads and the size of chunks, and
# the stream that it prints is whole UTF-8.
source "$(dirname "$0")/../lib/e2e.sh"

compile "$gemma3_gguf" "$work/gemma3"
n=32
complete() { "$work/gemma3" -n "$n" --temp 0 "$@" 2>"$work/stderr" || fail "$*: exit code $?: $(cat "$work/stderr")"; }

for prompt in "The capital of France is" "床前明月光,"; do
  complete -p "$prompt" --ids >"$work/ids"
  complete -p "$prompt" >"$work/text"
  ids="$(cat "$work/ids")"
  start="$("$work/gemma3" tokenize --ids "$prompt" | tr ',' '\n' | wc -l)"
  "$work/gemma3" logits --tokens "$ids" --decode -o "$work/out.f32"
  compare_logits own "$ids" "$work/out.f32" --prompt "$start" || fail "-p '$prompt'"
  python - "$work/text" "$prompt" <<'PY' || fail "-p '$prompt': output"
import sys
text = open(sys.argv[1], "rb").read().decode()
sys.exit(not (text.startswith(sys.argv[2]) and len(text) > len(sys.argv[2]) + 20))
PY
  complete -p "$prompt" --no-display-prompt >"$work/other"
  printf '%s' "$prompt" | cat - "$work/other" >"$work/joined"
  same "$work/text" "$work/joined" "-p '$prompt' with --no-display-prompt"
  for variant in "-t 1" "-t 3" "-ub 2" "-b 3"; do
    complete -p "$prompt" --ids $variant >"$work/other"
    same "$work/ids" "$work/other" "-p '$prompt' and with $variant"
  done
done

# From a file, by ids, sampled with a seed, and a prompt several times the window.
prompt="The capital of France is"
complete -p "$prompt" --ids >"$work/ids"
printf '%s' "$prompt" >"$work/prompt.txt"
complete -f "$work/prompt.txt" --ids >"$work/other"
same "$work/ids" "$work/other" "-p and -f"
complete --tokens "$("$work/gemma3" tokenize --ids "$prompt")" --ids >"$work/other"
same "$work/ids" "$work/other" "-p and --tokens"
for run in 1 2; do
  "$work/gemma3" -p "$prompt" -n 16 --temp 0.8 --top-k 40 --top-p 0.95 --min-p 0.05 --repeat-penalty 1.1 -s 7 \
    >"$work/sampled.$run" 2>/dev/null
done
same "$work/sampled.1" "$work/sampled.2" "two runs with -s 7"
for _ in 1 2; do cat "$root/tests/references/text.txt"; done >"$work/long.txt"
n=4
complete -f "$work/long.txt" --no-display-prompt >"$work/text"
[ -s "$work/text" ] || fail "a prompt of 1400 tokens: nothing was generated"
