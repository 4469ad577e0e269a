# A compile that cannot succeed says why in one line that names the file, exits with 1, and leaves nothing behind;
# so does one that is interrupted.
source "$(dirname "$0")/../lib/e2e.sh"

mkdir "$work/out"
# refused MODEL PATTERN [options]: the message matches PATTERN.
refused() {
  local model="$1" pattern="$2" code=0
  shift 2
  "$compiler" "$model" -o "$work/out/model" "$@" >"$work/stdout" 2>"$work/stderr" || code=$?
  [ "$code" = 1 ] || fail "$model: exit code $code, expected 1: $(cat "$work/stderr")"
  grep -qE "$pattern" "$work/stderr" || fail "$model: '$(cat "$work/stderr")' does not match '$pattern'"
  [ "$(grep -c "error" "$work/stderr")" = 1 ] || fail "$model: more than one line of error: $(cat "$work/stderr")"
  [ -z "$(ls -A "$work/out")" ] || fail "$model: left behind: $(ls -A "$work/out")"
}

refused "$work/missing.gguf" "missing\.gguf"
echo "not a model" >"$work/text.gguf"
refused "$work/text.gguf" "text\.gguf"
: >"$work/empty.gguf"
refused "$work/empty.gguf" "empty\.gguf"
zoo make llama-dense "$work/whole.gguf"
for size in 16 1000 20000 1000000; do
  head -c "$size" "$work/whole.gguf" >"$work/cut.gguf"
  refused "$work/cut.gguf" "cut\.gguf"
done
python "$root/tests/tools/edit_gguf.py" "$work/whole.gguf" "$work/unknown-arch.gguf" general.architecture=llamx
refused "$work/unknown-arch.gguf" "llamx"
python "$root/tests/tools/edit_gguf.py" "$work/whole.gguf" "$work/tokenizer.gguf" tokenizer.ggml.model=rune
refused "$work/tokenizer.gguf" "rune"
compile "$work/tokenizer.gguf" "$work/model" --no-tokenizer

# Interrupted at several moments, the real model.
for delay in 0.05 0.3 0.8; do
  for signal in INT TERM; do
    # A shell starts background jobs with SIGINT ignored; Python gives the child the default back.
    python - "$delay" "$signal" "$compiler" "$gemma3_gguf" -o "$work/out/model" <<'PY'
import signal, subprocess, sys, time
delay, name, *command = sys.argv[1:]
child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                         preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
time.sleep(float(delay))
child.send_signal(getattr(signal, "SIG" + name))
child.wait()
PY
    left="$(ls -A "$work/out")"
    # A compile that was done before the signal leaves its whole result, under its own name alone.
    if [ "$left" = model ]; then
      "$work/out/model" --version >/dev/null || fail "interrupted after $delay s: a broken executable was left"
      rm "$work/out/model"
    elif [ -n "$left" ]; then
      fail "SIG$signal after $delay s left behind: $left"
    fi
  done
done
