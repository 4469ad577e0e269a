# Token ids of the real vocabularies, against what llama.cpp gives for the same texts.
source "$(dirname "${BASH_SOURCE[0]}")/../lib/e2e.sh"

check_ids() { python "$root/tests/tokenizer/check_ids.py" "$compiler" "$1" "$root/tests/tokenizer/$2.json"; }
ids() { "$compiler" tokenize "$gemma3_gguf" --ids "$@"; }

check_ids "$gemma3_gguf" gemma3-270m
check_ids "$smollm2_gguf" smollm2-135m

# One BOS whoever writes it; none when told so.
[ "$(ids hi)" = 2,2202 ] || fail "BOS: $(ids hi)"
[ "$(ids --no-bos hi)" = 2202 ] || fail "--no-bos: $(ids --no-bos hi)"
[ "$(ids --special '<bos>hi')" = 2,2202 ] || fail "BOS in the text: $(ids --special '<bos>hi')"

hi="$("$compiler" tokenize "$smollm2_gguf" --ids hi)"
[ "$hi" = 6004 ] || fail "a model without BOS: $hi"

# From a file and from stdin, byte for byte.
printf 'x\r\ny' >"$work/text"
[ "$(ids --no-bos --file "$work/text")" = 236781,251,107,236762 ] || fail "--file"
[ "$(ids --no-bos --stdin <"$work/text")" = 236781,251,107,236762 ] || fail "--stdin"

# Bad lines are errors of their own line.
printf '"a"\n{\n"b"\n' | "$compiler" tokenize "$gemma3_gguf" --json-lines --no-bos >"$work/lines"
[ "$(wc -l <"$work/lines")" = 3 ] && sed -n 2p "$work/lines" | says '"error"' || fail "--json-lines: $(cat "$work/lines")"

# A megabyte of any text is a matter of moments (the bound is for machines under load).
for text in 'a' 'The quick brown fox. ' $'\n' ' '; do
  python -c 'import sys; t = sys.argv[1]; sys.stdout.write(t * (1000000 // len(t)))' "$text" >"$work/megabyte"
  timeout 20 "$compiler" tokenize "$gemma3_gguf" --ids --file "$work/megabyte" >"$work/ids" || fail "1 MB of '$text'"
done
