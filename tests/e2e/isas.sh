# One file for several instruction sets: the best that runs here is taken, --isa takes another, and a machine that has
# none of them is told so in one line, not by an illegal instruction.
source "$(dirname "$0")/../lib/e2e.sh"

zoo make llama-dense "$work/model.gguf" --type Q4_0
compile "$work/model.gguf" "$work/model" --cpu portable
tokens="$(zoo tokens llama-dense)"
"$work/model" info --json >"$work/info.json"
python - "$work/info.json" >"$work/isas" <<'PY'
import json, sys
info = json.load(open(sys.argv[1]))
assert len(info["isas"]) >= 3, info["isas"]
assert info["isa"] == next(i["name"] for i in info["isas"] if i["runs_here"])
print("\n".join(f"{i['name']} {i['runs_here']}" for i in info["isas"]))
PY
while read -r isa runs; do
  if [ "$runs" = True ]; then
    "$work/model" logits --isa "$isa" --tokens "$tokens" -o "$work/$isa.f32" || fail "--isa $isa"
    zoo check llama-dense "$work/$isa.f32" --type Q4_0 >"$work/log" || fail "--isa $isa: $(cat "$work/log")"
  fi
done <"$work/isas"

# refused COMMAND...: one line, exit code 1.
refused() {
  local code=0
  "$@" >"$work/stdout" 2>"$work/stderr" </dev/null || code=$?
  [ "$code" = 1 ] || fail "$*: exit code $code: $(cat "$work/stderr")"
  [ "$(wc -l <"$work/stderr")" = 1 ] && [ ! -s "$work/stdout" ] || fail "$*: $(cat "$work/stdout" "$work/stderr")"
}
refused "$work/model" logits --isa z80 --tokens 1 -o "$work/none.f32"
grep -q "z80" "$work/stderr" || fail "--isa z80: $(cat "$work/stderr")"
code=0
"$compiler" "$work/model.gguf" -o "$work/other" --cpu z80 2>"$work/stderr" || code=$?
[ "$code" = 1 ] && grep -q "error: --cpu 'z80'" "$work/stderr" || fail "--cpu z80: $code: $(cat "$work/stderr")"
[ ! -e "$work/other" ] || fail "--cpu z80 left an output"

qemu="$(command -v qemu-x86_64-static || command -v qemu-x86_64)" || skip "no qemu-x86_64: other CPUs were not tried"
compile "$work/model.gguf" "$work/avx" --cpu x86-64-v3
refused "$qemu" -cpu Nehalem "$work/avx" logits --tokens 1 -o "$work/none.f32"
grep -q "this CPU can't run" "$work/stderr" || fail "on a Nehalem: $(cat "$work/stderr")"
refused "$qemu" -cpu Nehalem "$work/avx" -p hello
"$qemu" -cpu Nehalem "$work/avx" info >"$work/text" || fail "info on a Nehalem"
grep -q "not on this CPU" "$work/text" || fail "info on a Nehalem: $(cat "$work/text")"
# An AVX2 machine takes the AVX2 program by itself, and computes what this one computes with it.
"$qemu" -cpu Haswell "$work/model" logits --tokens "$tokens" -t 1 -o "$work/haswell.f32" 2>"$work/stderr" ||
  fail "on a Haswell: $(cat "$work/stderr")"
same "$work/haswell.f32" "$work/x86-64-v3.f32" "x86-64-v3 here and on a Haswell"
