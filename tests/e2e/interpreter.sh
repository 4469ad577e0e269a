#!/usr/bin/env bash
# The interpreter is what compiled code is compared with, so it is compared with something else: the references of
# every small model, in every type that they have, and of the real models' text.
source "$(dirname "$0")/../lib/e2e.sh"
readonly run="$root/bazel-bin/compiler/tools/gir_run"
[ -x "$run" ] || (cd "$root" && bazel build --disk_cache="$cache/bazel" //compiler/tools:gir_run)

# check_zoo MODEL TYPE: as the architecture made the graph, and after the passes.
check_zoo() {
  local model="$1" type="$2" tokens options
  tokens="$(zoo tokens "$model")"
  zoo make "$model" "$work/model.gguf" --type "$type"
  for options in --chunk=7 --passes; do
    "$run" "$work/model.gguf" --tokens "$tokens" "$options" -o "$work/logits.f32"
    zoo check "$model" "$work/logits.f32" --type "$type" || fail "$model $type $options"
  done
}

# check_text MODEL GGUF: as good as f32 arithmetic on the dequantized weights, whose figures these bounds are.
check_text() {
  "$run" "$2" --tokens "$(compare_logits tokens "$1")" --passes -o "$work/logits.f32"
  compare_logits text "$1" "$work/logits.f32" --kl 0.00001 --p99 0.0001 --top1 1 --perplexity 0.0001 || fail "$1"
}

for model in $(zoo models); do
  for type in $(zoo types "$model"); do check_zoo "$model" "$type"; done
done
check_text smollm2-135m "$smollm2_gguf"
check_text gemma3-270m "$gemma3_gguf"
