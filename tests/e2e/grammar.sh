#!/usr/bin/env bash
# What is generated under a grammar is a sentence of it: greedy and sampled, by many seeds, streamed; check-grammar is
# the judge, Python's own parser for JSON.
source "$(dirname "$0")/../lib/e2e.sh"

compile "$smollm2_gguf" "$work/model"

cat >"$work/list.gbnf" <<'EOF'
root ::= item{2,4} "done"
item ::= "- " [a-z ]{3,20} "\n"
EOF
cat >"$work/person.json" <<'EOF'
{"type": "object",
 "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 0, "maximum": 150},
                "tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "minItems": 1, "maxItems": 3}},
 "required": ["name", "age", "tags"]}
EOF

generate() { "$work/model" -p 'A person:' -n 200 --no-display-prompt --no-perf "$@" 2>"$work/err" || fail "$*: $(cat "$work/err")"; }
judge() {
  printf '%s' "$(cat "$work/out")" >"$work/sentence" # without the line end that follows an answer
  "$compiler" check-grammar "$1" "$2" "$work/sentence" || fail "not a sentence: $(cat "$work/sentence")"
}

for options in '--temp 0' '-s 1' '-s 2' '-s 3 --temp 2 --top-k 0' '-s 4 --temp 2 --top-k 0 --min-p 0' '--mirostat 2 -s 5'; do
  # shellcheck disable=SC2086
  generate --grammar-file "$work/list.gbnf" $options >"$work/out"
  judge --grammar "$work/list.gbnf"
  # shellcheck disable=SC2086
  generate -jf "$work/person.json" $options >"$work/out"
  judge --json-schema "$work/person.json"
  python -c 'import json, sys; p = json.load(open(sys.argv[1])); assert 0 <= p["age"] <= 150 and p["tags"]' "$work/out"
done

# A pipe gets the same text as a file.
generate --temp 0 -jf "$work/person.json" | cat >"$work/streamed"
generate --temp 0 -jf "$work/person.json" >"$work/out"
same "$work/out" "$work/streamed" 'streamed and whole'

# A grammar may name tokens, and does not reach beyond the vocabulary.
generate --temp 0 --grammar 'root ::= <|im_start|> ("user" | "assistant") !<|im_start|>{3}' --special --ids >"$work/out"
[[ "$(cat "$work/out")" =~ ^1,[0-9]+(,[0-9]+)+$ ]] || fail "a token of the grammar: $(cat "$work/out")"
code=0
"$work/model" -p x --grammar 'root ::= <[49152]>' >/dev/null 2>"$work/err" || code=$?
[ "$code" = 1 ] || fail "a token that is none: exit code $code"
grep -q 'the vocabulary has no such token' "$work/err" || fail "$(cat "$work/err")"

code=0
"$work/model" -p x -j '{"uniqueItems": true}' >/dev/null 2>"$work/err" || code=$?
[ "$code" = 1 ] || fail "an unsupported schema: exit code $code"
grep -q 'uniqueItems is not supported' "$work/err" || fail "$(cat "$work/err")"
code=0
"$work/model" -p x --grammar 'root ::= nothing' >/dev/null 2>"$work/err" || code=$?
[ "$code" = 1 ] || fail "a wrong grammar: exit code $code"
grep -q "rule 'nothing' is not defined" "$work/err" || fail "$(cat "$work/err")"
