# Programs for another machine: aarch64, made here and run by QEMU. Each instruction set of it gives the reference's logits,
# and the bits that x86-64-v3 gives (sums are exact or in one order everywhere).
source "$(dirname "$0")/../lib/e2e.sh"

qemu="$(command -v qemu-aarch64-static || command -v qemu-aarch64)" || skip "no qemu-aarch64"
machine() {
  case "$1" in
    armv8-a) echo cortex-a72 ;;
    armv8-a-dotprod) echo neoverse-n1 ;;
    armv8-a-i8mm) echo max ;;
    *) fail "no machine for $1" ;;
  esac
}

# referred MODEL LOGITS TYPE: by the zoo's reference, where it has one of the type, else by the f32 program of the same values.
referred() {
  if [ -z "$values" ]; then
    zoo check "$1" "$2" --type "$3"
  else
    python - "$values" "$2" <<'PY'
import sys, numpy
want, got = (numpy.fromfile(f, "<f4").astype("f8") for f in sys.argv[1:])
nmse = ((want - got) ** 2).sum() / (want ** 2).sum()
print("nmse", nmse)
sys.exit(not nmse <= 2.5e-4)  # tests/zoo/zoo.py's bound
PY
  fi
}

for pair in gemma3-270m-like:F32 gemma3-270m-like:Q8_0 gemma3-270m-like:Q4_K gemma3-270m-like:Q6_K \
  gemma3-270m-like:IQ4_XS gemma3-270m-like:F16 llama-dense:F32 llama-dense:Q8_0 llama-dense:Q4_0 llama-dense:Q5_K \
  llama-dense:MXFP4 qwen3-dense:F32 qwen3-dense:Q8_0 qwen3-dense:Q4_K qwen3-dense:Q6_K qwen3-dense:Q5_0 qwen3moe-moe:Q8_0 qwen3moe-moe:Q4_K qwen3moe-moe:Q6_K qwen3moe-moe:IQ4_XS; do
  model="${pair%:*}" type="${pair#*:}"
  tokens="$(zoo tokens "$model")"
  zoo make "$model" "$work/model.gguf" --type "$type"
  compile "$work/model.gguf" "$work/arm" --target aarch64-linux-gnu
  compile "$work/model.gguf" "$work/avx2" --cpu x86-64-v3
  values=
  if ! zoo types "$model" | says -x "$type"; then
    values="$work/values.f32"
    zoo make "$model" "$work/values.gguf" --type "$type" --dequantized
    compile "$work/values.gguf" "$work/values"
    "$work/values" logits --tokens "$tokens" -o "$values" || fail "$pair in f32"
  fi
  for way in "" --decode; do
    "$work/avx2" logits --tokens "$tokens" $way -o "$work/avx2.f32" || fail "$pair $way here"
    for isa in armv8-a armv8-a-dotprod armv8-a-i8mm; do
      "$qemu" -cpu "$(machine $isa)" "$work/arm" logits --tokens "$tokens" -t 2 $way -o "$work/arm.f32" 2>"$work/stderr" ||
        fail "$pair $way on $isa: $(cat "$work/stderr")"
      same "$work/avx2.f32" "$work/arm.f32" "$pair $way: x86-64-v3 and $isa"
      referred "$model" "$work/arm.f32" "$type" >"$work/log" || fail "$pair $way on $isa: $(cat "$work/log")"
    done
  done
done

# The best that the machine has is taken by itself, and what it hasn't is refused in one line.
"$qemu" -cpu neoverse-n1 "$work/arm" info >"$work/text" || fail "info on a Neoverse N1"
grep -q "armv8-a-dotprod" "$work/text" || fail "info on a Neoverse N1: $(cat "$work/text")"
code=0
"$qemu" -cpu cortex-a72 "$work/arm" logits --isa armv8-a-i8mm --tokens 1 -o "$work/none.f32" 2>"$work/stderr" || code=$?
[ "$code" = 1 ] && [ "$(wc -l <"$work/stderr")" = 1 ] && grep -q "has no asimddp" "$work/stderr" ||
  fail "armv8-a-i8mm on a Cortex-A72: $code: $(cat "$work/stderr")"
for flags in "--cpu native" "--cpu x86-64-v3" "--target riscv64-linux-gnu"; do
  code=0
  case "$flags" in --cpu*) target="--target aarch64-linux-gnu" ;; *) target="" ;; esac
  "$compiler" "$work/model.gguf" -o "$work/other" $flags $target 2>"$work/stderr" || code=$?
  [ "$code" = 1 ] && [ "$(grep -c "error: " "$work/stderr")" = 1 ] && [ ! -e "$work/other" ] ||
    fail "$flags $target: $code: $(cat "$work/stderr")"
done

# An object and a shared library for it, in a C program that its cross tools link.
cross=(clang-22 --target=aarch64-linux-gnu -fuse-ld=lld)
compile "$smollm2_gguf" "$work/smollm2" --cpu x86-64-v3
"$work/smollm2" -no-cnv -p "The capital of France is" -n 8 --temp 0 >"$work/expected" 2>/dev/null || fail "SmolLM2 here"
for emit in obj shared; do
  compile "$smollm2_gguf" "$work/libmodel.$emit" --emit "$emit" --header "$work/gemma3.h" --prefix gemma3 \
    --target aarch64-linux-gnu --cpu armv8-a-dotprod
  "${cross[@]}" -std=c99 -I"$work" "$root/samples/embed_c/main.c" "$work/libmodel.$emit" -o "$work/complete" -lm -pthread \
    >"$work/log" 2>&1 || fail "$emit: $(cat "$work/log")"
  LD_LIBRARY_PATH="$work" "$qemu" -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH="$work" "$work/complete" \
    "The capital of France is" >"$work/text" 2>"$work/stderr" || fail "$emit in C: $(cat "$work/stderr")"
  cmp -s -n 20 "$work/expected" "$work/text" || fail "$emit in C: $(cat "$work/text")"
done
