# `info` itemises the file, the compiler says what it made, and `inspect` reads what is in the model.
source "$(dirname "$0")/../lib/e2e.sh"

"$compiler" "$gemma3_gguf" -o "$work/gemma3" >"$work/said" 2>&1 || fail "compile: $(cat "$work/said")"
for word in gemma3 512 Q5_0 Q8_0; do
  grep -qi -- "$word" "$work/said" || fail "the compiler's closing lines do not name $word: $(cat "$work/said")"
done
"$work/gemma3" info >"$work/info" || fail "info: exit code $?"
for word in weights tokenizer code runtime; do
  grep -qi -- "$word" "$work/info" || fail "info does not itemise $word: $(cat "$work/info")"
done
"$compiler" inspect "$gemma3_gguf" --json >"$work/inspect.json" || fail "inspect --json: exit code $?"
"$compiler" inspect "$gemma3_gguf" >"$work/inspect.txt" || fail "inspect: exit code $?"
python - "$work/inspect.json" "$work/inspect.txt" "$gemma3_gguf" <<'PY' || fail "inspect"
import json, sys
from gguf import GGUFReader
said = json.load(open(sys.argv[1]))
tensors = {t["name"]: t for t in said["tensors"]}
reader = GGUFReader(sys.argv[3])
if tensors.keys() != {t.name for t in reader.tensors}:
    sys.exit("other tensors than the file has")
for t in reader.tensors:
    if tensors[t.name]["type"].upper() != t.tensor_type.name:
        sys.exit(f"{t.name}: type {tensors[t.name]['type']}, the file has {t.tensor_type.name}")
text = open(sys.argv[2]).read()
for name in ("token_embd.weight", "blk.17.ffn_down.weight", "gemma3.attention.sliding_window"):
    if name not in text:
        sys.exit(f"the text does not name {name}")
PY
