#!/usr/bin/env bash
# CUDA kernels without a GPU: their sources run on this machine's CPU, each CUDA thread a fiber (codegen_cuda/shim), against
# the references of the small models; NVRTC makes cubins of the same sources for every architecture of arch.def. Models
# whose ops have no device kernel are refused by name.
source "$(dirname "$0")/../lib/e2e.sh"
readonly run="$root/bazel-bin/compiler/tools/cuda_run" nvrtc_test="$root/bazel-bin/codegen_cuda/nvrtc/nvrtc_test"
{ [ -x "$run" ] && [ -x "$nvrtc_test" ]; } ||
  (cd "$root" && bazel build --disk_cache="$cache/bazel" //compiler/tools:cuda_run //codegen_cuda/nvrtc:nvrtc_test)
[ -f "$nvrtc" ] || skip "no NVRTC (samples/setup.sh nvrtc)"
cuda_run() { "$run" "$@" --root "$root" --nvrtc "$nvrtc"; }
archs="$(sed -n 's/^CUDA_ARCH(\([^,]*\),.*/\1/p' "$root/codegen_cuda/arch.def" | paste -sd,)"

"$nvrtc_test" "$nvrtc" >"$work/log" || fail "nvrtc_test: $(cat "$work/log")"

# Values, and the same bits in steps of any size, beside other sequences, in other orders of threads and blocks.
for model in gemma3-dense gemma2-dense llama-dense bloom-dense falcon-h1-dense qwen3next-moe minimax-01-moe rwkv6-dense rwkv7-dense \
  deepseek2-moe glm5-next-moe gemma3n-small gemma4-small; do
  zoo make "$model" "$work/model.gguf"
  cuda_run "$work/model.gguf" --tokens "$(zoo tokens "$model")" --ways -o "$work/out.f32"
  zoo check "$model" "$work/out.f32" || fail "$model"
done

# Formats: planes, tables, scales and mins of every kind. Steps of many rows, on tensor
# cores, have the bits of steps of one.
for model in gemma3-270m-like llama-dense; do
  for type in F16 BF16 Q4_0 Q4_1 Q5_0 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_XS MXFP4; do
    zoo make "$model" "$work/model.gguf" --type "$type"
    ways=()
    case "$model $type" in "llama-dense Q4_K" | "llama-dense Q6_K" | "llama-dense MXFP4") ways=(--ways) ;; esac
    cuda_run "$work/model.gguf" --tokens "$(zoo tokens "$model")" "${ways[@]}" -o "$work/out.f32"
    zoo check "$model" "$work/out.f32" --type "$type" || fail "$model $type"
  done
done
zoo make qwen3moe-moe "$work/model.gguf" --type Q4_K
cuda_run "$work/model.gguf" --tokens "$(zoo tokens qwen3moe-moe)" --ways -o "$work/out.f32"
zoo check qwen3moe-moe "$work/out.f32" --type Q4_K || fail "qwen3moe-moe Q4_K"
# Types of keys and values.
zoo make gemma3-dense "$work/model.gguf"
for kv in f16 bf16; do
  cuda_run "$work/model.gguf" --tokens "$(zoo tokens gemma3-dense)" --kv "$kv" --ways -o "$work/out.f32"
  zoo check gemma3-dense "$work/out.f32" || fail "gemma3-dense, KV in $kv"
done

# The real model, the beginning of its text: half a minute of scalar code.
cuda_run "$gemma3_gguf" --kv f16 --tokens "$(compare_logits tokens gemma3-270m --positions 32)" -o "$work/out.f32"
compare_logits text gemma3-270m "$work/out.f32" --positions 32 --kl 0.00005 --top1 0.96 || fail "gemma3-270m"

# Every family in F32: run and right, or refused by what it lacks. Prints "ran" or "refused", else what is wrong.
check_family() {
  local model="$1" code=0
  cuda_run "$work/$model.gguf" --tokens "$(cat "$work/$model.tokens")" -o "$work/$model.cuda" 2>"$work/$model.log" || code=$?
  if [ "$code" = 0 ]; then
    zoo check "$model" "$work/$model.cuda" >"$work/$model.log" && echo ran && return
  elif [ "$code" = 1 ] && says "on cuda\|device kernel" <"$work/$model.log"; then
    echo refused && return
  fi
  echo "$model: exit code $code: $(cat "$work/$model.log")"
}
zoo make-families "$work"
export -f check_family cuda_run says zoo python
export work run root nvrtc cache
zoo families | xargs -P "$(nproc)" -I{} bash -c 'check_family {}' >"$work/families"
if says -v '^ran$\|^refused$' <"$work/families"; then fail "$(grep -v '^ran$\|^refused$' "$work/families")"; fi
ran="$(grep -c '^ran$' "$work/families")"
echo "$ran families ran"
[ "$ran" -ge 128 ] || fail "only $ran families have device kernels"

# Cubins: nothing spilled. All architectures for the real model, two for those with other formats and kinds of layers.
check_cubins() {
  cuda_run "$1" --cubin "$2" >"$work/report"
  if says -v " 0 bytes spilled, 0 stack\|kernels, " <"$work/report"; then
    fail "spilled: $(grep -v " 0 bytes spilled, 0 stack\|kernels, " "$work/report")"
  fi
  [ "$(grep -c " kernels, " "$work/report")" = "$(tr ',' '\n' <<<"$2" | wc -l)" ] || fail "cubins: $(cat "$work/report")"
}
check_cubins "$gemma3_gguf" "$archs"
zoo make llama-dense "$work/model.gguf" --type Q4_K
check_cubins "$work/model.gguf" sm_80,sm_120
for model in falcon-h1-dense qwen3next-moe rwkv6-dense rwkv7-dense deepseek2-moe gemma3n-small; do
  check_cubins "$work/$model.gguf" sm_80,sm_120
done

# The compiler writes the same source, which nvcc compiles by hand where there is one, and cubins; wrong flags are one line.
"$compiler" "$work/model.gguf" --emit cuda -o "$work/program.cu" --cuda-arch sm_90a --save-temps "$work/temps" --nvrtc "$nvrtc" -q ||
  fail "--emit cuda: exit code $?"
cuda_run "$work/model.gguf" --kv f16 --source "$work/run.cu"
same "$work/program.cu" "$work/run.cu" "--emit cuda and cuda_run"
[ "$(head -c 4 "$work/temps/sm_90a.cubin" | tail -c 3)" = ELF ] || fail "sm_90a.cubin is no ELF file"
says "registers" <"$work/temps/sm_90a.txt" || fail "sm_90a.txt: $(cat "$work/temps/sm_90a.txt")"
readonly nvcc=/usr/local/cuda/bin/nvcc
[ ! -x "$nvcc" ] || "$nvcc" -arch=sm_90a -fmad=false -std=c++17 -cubin -o "$work/nvcc.cubin" "$work/program.cu" || fail "nvcc"
refuses() {
  local what="$1" code=0
  shift
  "$compiler" "$work/model.gguf" "$@" >"$work/log" 2>&1 || code=$?
  { [ "$code" = 1 ] && says "error: .*$what" <"$work/log"; } || fail "$*: exit code $code: $(cat "$work/log")"
}
refuses "expected some of: sm_80" --emit cuda --cuda-arch sm_70 --save-temps "$work/none"
refuses "need a directory" --emit cuda --cuda-arch sm_80
refuses "is for --device cuda and --emit cuda" -o "$work/out" --cuda-arch sm_80
refuses "NVRTC cannot be used: .*--nvrtc FILE" --emit cuda --cuda-arch sm_80 --save-temps "$work/none" --nvrtc "$work/none.so"
