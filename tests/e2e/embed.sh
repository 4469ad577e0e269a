# The samples of models as parts of programs: C with two compilers, CMake, Bazel, Rust, Python. What they print is what the
# executable of the same model prints.
source "$(dirname "$0")/../lib/e2e.sh"

samples="$root/samples"
compile "$gemma3_gguf" "$work/gemma3"
compile "$gemma3_gguf" "$work/gemma3.o" --emit obj --header "$work/gemma3.h"
prompt="The capital of France is"
"$work/gemma3" -p "$prompt" -n 32 --temp 0 >"$work/expected" 2>/dev/null || fail "the executable"

compilers=()
for cc in gcc clang-22; do ! command -v "$cc" >/dev/null || compilers+=("$cc"); done
[ ${#compilers[@]} -gt 0 ] || skip "no C compiler"
for cc in "${compilers[@]}"; do
  "$cc" -std=c99 -pedantic -Wall -Wextra -Werror -I"$work" "$samples/embed_c/main.c" "$work/gemma3.o" \
    -o "$work/complete" -lm -pthread >"$work/log" 2>&1 || fail "$cc: $(cat "$work/log")"
  "$work/complete" "$prompt" >"$work/text" 2>"$work/stderr" || fail "embed_c by $cc: $(cat "$work/stderr")"
  same "$work/expected" "$work/text" "embed_c by $cc"
done
code=0
"$work/complete" "$(printf 'word %.0s' $(seq 600))" >"$work/text" 2>"$work/stderr" || code=$?
[ "$code" = 1 ] || fail "a prompt past the buffer: exit code $code"

if command -v cmake >/dev/null; then
  cmake -S "$samples/embed_c" -B "$work/build" -DMODEL="$gemma3_gguf" -DGGUF_COMPILE="$compiler" \
    >"$work/log" 2>&1 && cmake --build "$work/build" >>"$work/log" 2>&1 || fail "cmake: $(cat "$work/log")"
  "$work/build/complete" "$prompt" >"$work/text" 2>/dev/null
  same "$work/expected" "$work/text" "embed_c by CMake"
else
  echo "no cmake here"
fi

# Bazel: a workspace of the user's, in which only the rules that Bazel asks for lie where this machine has them.
if command -v bazel >/dev/null; then
  mkdir "$work/workspace"
  cp "$samples/embed_c/main.c" "$work/workspace/"
  cp "$samples/embed_c/BUILD.sample" "$work/workspace/BUILD"
  ln -s "$gemma3_gguf" "$work/workspace/model.gguf"
  ln -s "$compiler" "$work/workspace/gguf-compile"
  sed '/^new_local_repository/,$d; s|path = "third_party|path = "'"$root"'/third_party|' "$root/WORKSPACE" >"$work/workspace/WORKSPACE"
  bazel=(bazel --nohome_rc "--output_user_root=$work/bazel" --batch)
  (cd "$work/workspace" && "${bazel[@]}" build //:complete) >"$work/log" 2>&1 || fail "bazel: $(tail -n 30 "$work/log")"
  "$work/workspace/bazel-bin/complete" "$prompt" >"$work/text" 2>/dev/null || fail "embed_c by Bazel: exit code $?"
  same "$work/expected" "$work/text" "embed_c by Bazel"
  chmod -R u+w "$work/bazel"
else
  echo "no bazel here"
fi

if command -v rustc >/dev/null; then
  cp "$samples/embed_rust/"* "$work/"
  compile "$gemma3_gguf" "$work/libgemma3.a" --emit archive --header "$work/gemma3.h"
  make -C "$work" -f Makefile RUSTFLAGS="-O -D warnings" >"$work/log" 2>&1 || fail "rustc: $(tail -n 30 "$work/log")"
  "$work/complete" "$prompt" >"$work/text" 2>"$work/stderr" || fail "embed_rust: $(cat "$work/stderr")"
  same "$work/expected" "$work/text" "embed_rust"
else
  echo "no rustc here"
fi

compile "$smollm2_gguf" "$work/libsmollm2.so" --emit shared
for run in 1 2; do
  python "$samples/embed_python/chat.py" "$work/libsmollm2.so" "What is the capital of France?" "And of Italy?" \
    >"$work/answers.$run" 2>"$work/stderr" || fail "embed_python: $(cat "$work/stderr")"
done
[ "$(wc -l <"$work/answers.1")" -ge 2 ] || fail "embed_python: $(cat "$work/answers.1")"
same "$work/answers.1" "$work/answers.2" "embed_python, twice"
