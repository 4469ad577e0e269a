# Wrong uses are refused in one line with another exit code than 0, before anything is made.
source "$(dirname "$0")/../lib/e2e.sh"

wrong() {
  local code=0
  "$@" >"$work/stdout" 2>"$work/stderr" </dev/null || code=$?
  [ "$code" != 0 ] || fail "$*: accepted"
  [ "$code" -lt 64 ] || fail "$*: exit code $code is a crash or a bug report: $(cat "$work/stderr")"
  [ -s "$work/stderr" ] || fail "$*: refused without a word"
}

zoo make llama-dense "$work/model.gguf"
wrong "$compiler"
wrong "$compiler" "$work/model.gguf"
wrong "$compiler" "$work/model.gguf" -o "$work/model" --no-such-flag
wrong "$compiler" "$work/model.gguf" -o "$work/model" --emit nonsense
wrong "$compiler" "$work/model.gguf" -o "$work/no/such/folder/model"
[ ! -e "$work/model" ] || fail "a refused compile left its output"
"$compiler" --version >/dev/null || fail "gguf-compile --version"
"$compiler" --help | says -e "-o" || fail "gguf-compile --help does not name -o"
"$compiler" --list-architectures | says -w "^gemma3" || fail "--list-architectures does not list gemma3"
"$compiler" --list-formats | says -i "q4_k" || fail "--list-formats does not list Q4_K"

# A file whose tokenizer is a test's compiles with a warning, and runs by token ids.
"$compiler" "$work/model.gguf" -o "$work/model" >"$work/said" 2>&1 || fail "compile: $(cat "$work/said")"
grep -qi "warning" "$work/said" || fail "no warning about the tokenizer: $(cat "$work/said")"
"$work/model" logits --tokens 1,2,3 -o "$work/out.f32" || fail "logits by token ids"
[ "$(stat -c %s "$work/out.f32")" = $((3 * 128 * 4)) ] || fail "logits: $(stat -c %s "$work/out.f32") bytes"
wrong "$work/model" logits --tokens 1,2,128 -o "$work/out.f32"
wrong "$work/model" logits --tokens 1,x -o "$work/out.f32"
wrong "$work/model" -p "no tokenizer here" -n 1
wrong "$work/model" --no-such-flag
"$work/model" --version >/dev/null || fail "OUT --version"
"$work/model" help >/dev/null || fail "OUT help"
