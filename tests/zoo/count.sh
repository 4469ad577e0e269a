#!/usr/bin/env bash
# How many models of a zoo (a zoo.py with the verbs list, make, tokens and check) give its reference logits in F32: as one
# prompt, as generated tokens, and in chunks of 7. A line for each that does not, with the reason, then the count.
#
#   tests/zoo/count.sh ZOO.py [MODEL ...]
#
# Needs bazel build //compiler:gguf-compile.
source "$(dirname "$0")/../lib/e2e.sh"

zoo="$1"
shift
models="${*:-$(python "$zoo" list)}"
workers="${WORKERS:-$(nproc)}"

# Prints "MODEL WAY: REASON" for each way that goes wrong, or "MODEL ok".
one() {
  local model="$1" way tokens wrong=""
  local file="$work/$model"
  "$cache/venv/bin/python" "$zoo" make "$model" "$file.gguf"
  tokens="$("$cache/venv/bin/python" "$zoo" tokens "$model")"
  if ! "$compiler" -q "$file.gguf" -o "$file" 2>"$file.error"; then
    echo "$model: $(grep -v warning "$file.error" | head -1 | sed "s|.*error: ||; s|$file.gguf: ||")"
    rm -f "$file" "$file".*
    return
  fi
  for way in "" "--decode" "-ub 7"; do
    # shellcheck disable=SC2086
    if ! "$file" logits --tokens "$tokens" -ctk f32 -ctv f32 $way -o "$file.f32" 2>"$file.error"; then
      wrong+=" ${way:-prompt}: $(head -1 "$file.error");"
    elif ! "$cache/venv/bin/python" "$zoo" check "$model" "$file.f32" >"$file.check" 2>&1; then
      wrong+=" ${way:-prompt}: $(tail -1 "$file.check");"
    fi
  done
  echo "$model${wrong:+:}${wrong:- ok}"
  rm -f "$file" "$file".*
}

export -f one
export compiler work cache zoo
xargs -P "$workers" -I{} bash -euo pipefail -c 'one {}' <<<"$(tr ' ' '\n' <<<"$models")" >"$work/results"
grep -v ' ok$' "$work/results" | sort || true
echo "$(grep -c ' ok$' "$work/results") of $(wc -l <"$work/results") models, as prompt, as generated tokens and in chunks of 7"
