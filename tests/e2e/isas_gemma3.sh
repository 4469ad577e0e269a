# The real models' prompts on every instruction set that runs here are as good as their f32 models', whatever way they are
# multiplied; told to be fast and coarse they are as good as 8 bits are, which is what --help says.
source "$(dirname "$0")/../lib/e2e.sh"

# within BOUND BF16-BOUND MODEL OUT: the reference text as prompt on every ISA of OUT, mean KL. The second is of ISAs that
# multiply prompts, and attend, in bf16.
within() {
  local model="$3" out="$4" isa tokens bound
  tokens="$(compare_logits tokens "$model")"
  for isa in $("$out" info --json | python -c 'import json, sys
print(*(i["name"] for i in json.load(sys.stdin)["isas"] if i["runs_here"]))'); do
    "$out" logits --isa "$isa" --tokens "$tokens" -o "$work/out.f32" || fail "logits --isa $isa: exit code $?"
    echo "$isa:"
    bound="$1"
    [ "$isa" != zen4 ] || bound="$2"
    compare_logits text "$model" "$work/out.f32" --kl "$bound" || fail "the reference text on $isa"
  done
}
all=znver4,icelake-server,skylake-avx512,alderlake,haswell
compile "$gemma3_gguf" "$work/exact" --cpu "$all"
within 0.0001 0.0003 gemma3-270m "$work/exact"
compile "$smollm2_gguf" "$work/exact" --cpu "$all"
within 0.0001 0.0002 smollm2-135m "$work/exact"
compile "$gemma3_gguf" "$work/fast" --cpu icelake-server,alderlake --fast-int8
within 0.0045 0 gemma3-270m "$work/fast"
compile "$smollm2_gguf" "$work/fast" --cpu icelake-server,alderlake --fast-int8
within 0.003 0 smollm2-135m "$work/fast"
