# States that a file brings along are those it would compute itself: the same answers, from the first turn on, without the
# work; and only where instruction set and KV type match.
source "$(dirname "$0")/../lib/e2e.sh"

# kept FILE: tokens that a completion's timings say came from the cache; 0 without a line.
kept() { sed -n 's/^from cache: *\([0-9]*\) tokens.*/\1/p' "$1" | grep . || echo 0; }

# A chat: the text is the system's message, and the default one.
printf 'You are a %s assistant that answers in one short sentence.\n' "$(printf 'kind and careful and %.0s' $(seq 80))patient" \
  >"$work/system.txt"
compile "$smollm2_gguf" "$work/plain"
compile "$smollm2_gguf" "$work/baked" --prompt-cache-file "$work/system.txt"
"$work/baked" info --json >"$work/info.json"
tokens="$(python -c 'import json, sys; print(json.load(open(sys.argv[1]))["prompt_cache_tokens"])' "$work/info.json")"
[ "$tokens" -gt 200 ] || fail "only $tokens tokens are in the cache"
"$work/baked" info >"$work/text"
grep -q "^prompt cache  $tokens tokens for" "$work/text" || fail "info: $(cat "$work/text")"
printf 'What is the capital of France?\nAnd of Italy?\n' >"$work/questions"
"$work/plain" chat -sysf "$work/system.txt" --temp 0 -n 24 <"$work/questions" >"$work/expected" || fail "the plain chat"
"$work/baked" chat --temp 0 -n 24 -v <"$work/questions" >"$work/answers" 2>"$work/stderr" || fail "the baked chat"
same "$work/expected" "$work/answers" "answers with baked states"
for flags in "-ctk f32" "-sys Be_brief." "-ub 7 -t 1"; do
  system=(-sysf "$work/system.txt")
  case "$flags" in -sys*) system=() ;; esac
  "$work/plain" chat "${system[@]}" $flags --temp 0 -n 16 <"$work/questions" >"$work/expected" || fail "plain: $flags"
  "$work/baked" chat $flags --temp 0 -n 16 <"$work/questions" >"$work/answers" || fail "baked: $flags"
  same "$work/expected" "$work/answers" "baked states and $flags"
done

# A completion, in a file for two instruction sets.
printf 'The history of the city of Paris begins with %s' "$(printf 'a village on an island, and %.0s' $(seq 40))" \
  >"$work/text.txt"
isas=()
while read -r isa; do isas+=("$isa"); done < <("$work/plain" info --json |
  python -c 'import json, sys; print(*[i["name"] for i in json.load(sys.stdin)["isas"] if i["runs_here"]], sep="\n")')
compile "$gemma3_gguf" "$work/plain" --cpu "x86-64-v3,${isas[0]}"
compile "$gemma3_gguf" "$work/baked" --cpu "x86-64-v3,${isas[0]}" --prompt-cache-file "$work/text.txt"
rest=" then Roman soldiers came"
for isa in x86-64-v3 "${isas[0]}"; do
  for program in plain baked; do
    "$work/$program" -p "$(cat "$work/text.txt")$rest" --isa "$isa" --temp 0 -n 16 >"$work/$program.txt" 2>"$work/$program.err" ||
      fail "$program on $isa: $(cat "$work/$program.err")"
  done
  same "$work/plain.txt" "$work/baked.txt" "a completion on $isa"
  [ "$(kept "$work/plain.err")" = 0 ] && [ "$(kept "$work/baked.err")" -gt 200 ] ||
    fail "on $isa $(kept "$work/plain.err") and $(kept "$work/baked.err") tokens were kept"
done
"$work/baked" -p "$(cat "$work/text.txt")$rest" -ctk f32 --temp 0 -n 4 >/dev/null 2>"$work/stderr"
[ "$(kept "$work/stderr")" = 0 ] || fail "states of another KV type were used"
"$work/baked" -p "Something else" --temp 0 -n 4 >/dev/null 2>"$work/stderr"
[ "$(kept "$work/stderr")" = 0 ] || fail "states of another text were used"

compile "$gemma3_gguf" "$work/again" --cpu "x86-64-v3,${isas[0]}" --prompt-cache-file "$work/text.txt"
same "$work/baked" "$work/again" "two compiles"

# refused WHAT FLAGS...
refused() {
  local what="$1" code=0
  shift
  "$compiler" "$smollm2_gguf" -o "$work/none" "$@" 2>"$work/stderr" || code=$?
  [ "$code" = 1 ] && [ "$(grep -c "error: " "$work/stderr")" = 1 ] && [ ! -e "$work/none" ] || fail "$what: $code: $(cat "$work/stderr")"
  [ -z "$(find "$work" -name 'none*')" ] || fail "$what: files were left"
}
: >"$work/empty.txt"
printf 'word %.0s' $(seq 9000) >"$work/long.txt"
refused "no such file" --prompt-cache-file "$work/missing.txt"
refused "too long" --prompt-cache-file "$work/long.txt"
refused "another machine" --prompt-cache-file "$work/system.txt" --target aarch64-linux-gnu
refused "no tokenizer" --prompt-cache-file "$work/system.txt" --no-tokenizer
