#!/usr/bin/env bash
# Executables with --device cuda, without a GPU: on machines without a driver they run on the CPU or say what is wrong; with
# a driver of our own (codegen_cuda/shim/driver.cc: the same kernels, each CUDA thread a fiber) the whole way through the
# runtime is run: cubins chosen, weights uploaded, steps launched, logits and tokens brought back.
source "$(dirname "$0")/../lib/e2e.sh"
[ -x "$compiler" ] || (cd "$root" && bazel build --disk_cache="$cache/bazel" //compiler:gguf-compile)
[ -f "$nvrtc" ] || skip "no NVRTC (samples/setup.sh nvrtc)"

# fails WHAT STDERR COMMAND...: exit code 1, and one line that says it.
fails() {
  local what="$1" expected="$2" code=0
  shift 2
  "$@" >"$work/out" 2>"$work/err" </dev/null || code=$?
  [ "$code" = 1 ] || fail "$what: exit code $code: $(cat "$work/err")"
  [ "$(wc -l <"$work/err")" = 1 ] || fail "$what: not one line: $(cat "$work/err")"
  says -F -- "$expected" <"$work/err" || fail "$what: $(cat "$work/err")"
}
# driver MODEL: makes $work/driver/libcuda.so.1, whose kernels are that model's.
driver() {
  mkdir -p "$work/driver"
  "$compiler" "$1" --emit cuda -o "$work/program.cu" -q
  clang++-22 -std=c++17 -O2 -march=native -ffp-contract=off -shared -fPIC -fvisibility=hidden -w -I"$root" -DGC_SHIM \
    -Wl,-soname,libcuda.so.1 -include "$root/codegen_cuda/shim/shim.h" -x c++ "$work/program.cu" \
    "$root/codegen_cuda/shim/shim.cc" "$root/codegen_cuda/shim/driver.cc" -o "$work/driver/libcuda.so.1"
}
on_gpu() { LD_LIBRARY_PATH="$work/driver" "$@"; }

# ---- No driver here
ldconfig -p | says 'libcuda\.so\.1' && skip "this machine has a CUDA driver"

zoo make gemma3-dense "$work/model.gguf"
tokens="$(zoo tokens gemma3-dense)"
compile "$work/model.gguf" "$work/both" --device cpu,cuda --cuda-arch sm_80,sm_90a --nvrtc "$nvrtc"
compile "$work/model.gguf" "$work/gpu" --device cuda --cuda-arch sm_90a --nvrtc "$nvrtc"
compile "$work/model.gguf" "$work/cpu"
"$work/cpu" logits --tokens "$tokens" -ctk f16 -o "$work/cpu.f32"
"$work/both" logits --tokens "$tokens" -ctk f16 -o "$work/both.f32" 2>"$work/err" || fail "no driver: $(cat "$work/err")"
[ "$(wc -l <"$work/err")" = 1 ] && says 'running on the CPU: no CUDA driver' <"$work/err" || fail "no driver: $(cat "$work/err")"
same "$work/both.f32" "$work/cpu.f32" "the CPU of a file for both"
"$work/both" logits --device cpu --tokens "$tokens" -ctk f16 -o "$work/both.f32" 2>"$work/err"
[ ! -s "$work/err" ] || fail "--device cpu says something: $(cat "$work/err")"
same "$work/both.f32" "$work/cpu.f32" "--device cpu"
fails "no driver, --device cuda" 'error: no CUDA driver: libcuda.so.1' "$work/both" --device cuda --tokens "$tokens" -n 1
fails "no driver, for cuda alone" 'error: no CUDA driver: libcuda.so.1' "$work/gpu" --tokens "$tokens" -n 1
fails "--device cpu of a file for cuda" 'no code for the CPU' "$work/gpu" --device cpu --tokens "$tokens" -n 1
fails "--device cuda of a file for the CPU" 'no code for cuda' "$work/cpu" --device cuda --tokens "$tokens" -n 1
fails "--gpu of a file for the CPU" 'no code for cuda' "$work/cpu" --gpu 1 --tokens "$tokens" -n 1
fails "an unknown device" "--device 'tpu'" "$work/both" --device tpu --tokens "$tokens" -n 1
"$work/both" info | says 'none: no CUDA driver' || fail "info without a driver"

# ---- The executable is a dynamic one for old systems too, with every command and TLS in it.
compile "$work/model.gguf" "$work/all" --device cpu,cuda --cuda-arch sm_90a --nvrtc "$nvrtc" --with all,tls
for program in both gpu all; do
  newest="$(readelf -W --dyn-syms "$work/$program" | grep -o 'GLIBC_2\.[0-9]*' | sort -t. -k2 -n | tail -1)"
  [ "${newest#GLIBC_2.}" -le 17 ] || fail "$program wants $newest"
  needed="$(readelf -W -d "$work/$program" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | sort | paste -sd' ')"
  [ "$needed" = "libc.so.6 libdl.so.2 libm.so.6 libpthread.so.0" ] || fail "$program needs $needed"
  "$work/$program" check >"$work/log" || fail "$program: $(cat "$work/log")"
done
cp "$work/both" "$work/stripped" && strip "$work/stripped"
"$work/stripped" logits --device cpu --tokens "$tokens" -ctk f16 -o "$work/both.f32"
same "$work/both.f32" "$work/cpu.f32" "a stripped file"
compile "$work/model.gguf" "$work/again" --device cpu,cuda --cuda-arch sm_80,sm_90a --nvrtc "$nvrtc"
same "$work/both" "$work/again" "the same compile again"

# ---- On a driver of our own
driver "$work/model.gguf"
for program in both gpu; do
  on_gpu "$work/$program" logits --tokens "$tokens" -o "$work/gpu.f32" 2>"$work/err" || fail "$program on a GPU: $(cat "$work/err")"
  [ ! -s "$work/err" ] || fail "$program on a GPU says something: $(cat "$work/err")"
  zoo check gemma3-dense "$work/gpu.f32" || fail "$program on a GPU"
done
for way in --decode "-ub 3" "-ub 7"; do
  on_gpu "$work/both" logits --tokens "$tokens" $way -o "$work/way.f32"
  same "$work/way.f32" "$work/gpu.f32" "on a GPU, $way"
done
cmp -s "$work/gpu.f32" "$work/cpu.f32" && fail "the GPU's logits have the CPU's bits: was it used?"

# Tokens: chosen from all logits, greedily and by sampling; as the CPU chooses them.
for how in "--temp 0" "--temp 0.9 --top-k 20 -s 7" "--temp 1 --top-k 0 --repeat-penalty 1.2 -s 3"; do
  on_gpu "$work/both" --tokens "$tokens" -n 24 --ids $how --ignore-eos >"$work/gpu.ids" 2>"$work/log"
  "$work/both" --device cpu -ctk f16 --tokens "$tokens" -n 24 --ids $how --ignore-eos >"$work/cpu.ids" 2>"$work/log"
  [ -s "$work/gpu.ids" ] && same "$work/gpu.ids" "$work/cpu.ids" "tokens, $how"
done
on_gpu "$work/both" bench -p 16 -n 4 -r 1 -o json >"$work/bench.json"
python -c "import json; r = json.load(open('$work/bench.json')); assert all(x['backends'] == 'CUDA' for x in r), r" || fail "bench"

# Devices, and what is wrong with them
on_gpu "$work/both" info | says '0  Fake GPU 0, compute capability 9.0, .* free$' || fail "info: $(on_gpu "$work/both" info)"
GC_FAKE_CUDA_DEVICES=2 on_gpu "$work/both" info --json >"$work/info.json"
python -c "import json; g = json.load(open('$work/info.json'))['gpus']; assert len(g) == 2 and g[1]['name'] == 'Fake GPU 1' and g[1]['runs_here'], g" ||
  fail "info --json"
GC_FAKE_CUDA_DEVICES=2 on_gpu "$work/gpu" logits --gpu 1 --tokens "$tokens" -o "$work/one.f32"
same "$work/one.f32" "$work/gpu.f32" "--gpu 1"
export GC_FAKE_CUDA_DEVICES=2
fails "a GPU that isn't there" '--gpu 2: there are GPUs 0 to 1' on_gpu "$work/gpu" --gpu 2 --tokens "$tokens" -n 1
export GC_FAKE_CUDA_DEVICES=0
fails "a driver without devices" 'the CUDA driver has no device' on_gpu "$work/gpu" --tokens "$tokens" -n 1
unset GC_FAKE_CUDA_DEVICES
export GC_FAKE_CUDA_CC=86
on_gpu "$work/both" logits --tokens "$tokens" -o "$work/cc.f32" || fail "code for 8.0 on 8.6"
same "$work/cc.f32" "$work/gpu.f32" "code for 8.0 on 8.6"
fails "no code for the device" 'is of compute capability 8.6, and this file has code for 9.0a' on_gpu "$work/gpu" --tokens "$tokens" -n 1
unset GC_FAKE_CUDA_CC
export GC_FAKE_CUDA_BYTES=1000
fails "no room for the weights" 'bytes, GPU 0 (Fake GPU 0) has 1000 bytes free' on_gpu "$work/gpu" --tokens "$tokens" -n 1
export GC_FAKE_CUDA_BYTES=6000000
fails "no room for the context" "not enough memory: " on_gpu "$work/gpu" --tokens "$tokens" -n 1
unset GC_FAKE_CUDA_BYTES

# ---- What can't be compiled is one line.
fails "cuda in a library" '--device cuda is for executables' "$compiler" "$work/model.gguf" --no-tokenizer --emit obj -o "$work/x.o" --device cuda
fails "an unknown device" "--device 'tpu'" "$compiler" "$work/model.gguf" --no-tokenizer -o "$work/x" --device tpu
fails "an unknown architecture" 'sm_12' "$compiler" "$work/model.gguf" --no-tokenizer -o "$work/x" --device cuda --cuda-arch sm_12 --nvrtc "$nvrtc"
fails "another target" 'is not made for aarch64-linux-gnu' "$compiler" "$work/model.gguf" --no-tokenizer -o "$work/x" --device cuda --target aarch64-linux-gnu --nvrtc "$nvrtc"
fails "no NVRTC" 'NVRTC cannot be used' "$compiler" "$work/model.gguf" --no-tokenizer -o "$work/x" --device cuda --nvrtc "$work/nowhere"
[ ! -e "$work/x" ] || fail "an output was left"

# ---- A model of the other kind: experts, K-quants
zoo make qwen3moe-moe "$work/moe.gguf" --type Q4_K
compile "$work/moe.gguf" "$work/moe" --device cpu,cuda --cuda-arch sm_90a --nvrtc "$nvrtc"
driver "$work/moe.gguf"
on_gpu "$work/moe" logits --tokens "$(zoo tokens qwen3moe-moe)" -o "$work/moe.f32"
zoo check qwen3moe-moe "$work/moe.f32" --type Q4_K || fail "qwen3moe-moe on a GPU"

# ---- Recurrent states and attention side by side: slots in the device's pools, from step to step and request to request
zoo make falcon-h1-dense "$work/hybrid.gguf"
tokens="$(zoo tokens falcon-h1-dense)"
compile "$work/hybrid.gguf" "$work/hybrid" --device cpu,cuda --cuda-arch sm_90a --nvrtc "$nvrtc"
driver "$work/hybrid.gguf"
on_gpu "$work/hybrid" logits --tokens "$tokens" -o "$work/hybrid.f32"
zoo check falcon-h1-dense "$work/hybrid.f32" || fail "falcon-h1-dense on a GPU"
for way in --decode "-ub 7"; do
  on_gpu "$work/hybrid" logits --tokens "$tokens" $way -o "$work/way.f32"
  same "$work/way.f32" "$work/hybrid.f32" "falcon-h1-dense on a GPU, $way"
done
# Answers of requests that share a beginning and each other's slots are those that each gets alone.
requests() { on_gpu "$work/hybrid" bench --requests 6 -d 20 -p 9 -n 4 --probs 3 -o json "$@" >"$work/bench.json" && python -c "import json; print(json.load(open('$work/bench.json'))[0]['answers'])"; }
alone="$(requests -npl 1 --no-cache-prompt)"
together="$(requests -npl 3)"
[ -n "$alone" ] && [ "$alone" = "$together" ] || fail "requests together on a GPU: $together, alone $alone"
