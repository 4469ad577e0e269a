# The compiled tokenizer gives the reference's ids for prose, code, French and Chinese, from the program and from the
# compiler alike.
source "$(dirname "$0")/../lib/e2e.sh"

compile "$gemma3_gguf" "$work/gemma3"
want="$(compare_logits tokens gemma3-270m)"
got="$("$work/gemma3" tokenize --ids --file "$root/tests/references/text.txt")"
[ "$got" = "$want" ] || fail "tokenize --file: $got, expected $want"
got="$("$work/gemma3" tokenize --ids "The capital of France is")"
[ "$got" = "2,818,5279,529,7001,563" ] || fail "tokenize TEXT: $got"
got="$("$compiler" tokenize "$gemma3_gguf" --ids "The capital of France is")"
[ "$got" = "2,818,5279,529,7001,563" ] || fail "gguf-compile tokenize: $got"
