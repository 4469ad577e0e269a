# The compiler as one static file: in an empty root, with nothing but a model, it makes programs for both targets.
source "$(dirname "$0")/../lib/e2e.sh"

command -v unshare >/dev/null || skip "no unshare"
(cd "$root" && bazel build --disk_cache="$cache/bazel" --config=release //compiler:gguf-compile) >"$work/log" 2>&1 ||
  fail "bazel build --config=release: $(tail -n 20 "$work/log")"
# The convenience link is the build's last configuration.
mkdir "$work/root"
cp "$root/bazel-bin/compiler/gguf-compile" "$work/root/gguf-compile"
chmod u+w "$work/root/gguf-compile"
(cd "$root" && bazel build --disk_cache="$cache/bazel" //compiler:gguf-compile) >"$work/log" 2>&1 ||
  fail "bazel build: $(tail -n 20 "$work/log")"
readelf -d "$work/root/gguf-compile" 2>/dev/null | says NEEDED && fail "the release build needs shared libraries"
readelf -hd "$work/root/gguf-compile" | says "Flags: NOW PIE" || fail "the release build is no position-independent executable"
zoo make gemma3-270m-like "$work/root/model.gguf" --type Q4_K
inside() { unshare --user --map-root-user chroot "$work/root" "$@"; }
inside /gguf-compile --version >"$work/version" 2>"$work/stderr" || skip "no user namespaces: $(cat "$work/stderr")"
for target in x86_64-linux-gnu aarch64-linux-gnu; do
  inside /gguf-compile /model.gguf -o "/$target" --target "$target" >"$work/log" 2>&1 || fail "$target: $(cat "$work/log")"
  compile "$work/root/model.gguf" "$work/$target" --target "$target"
  same "$work/$target" "$work/root/$target" "$target by the static compiler and by the other one"
done
tokens="$(zoo tokens gemma3-270m-like)"
inside /x86_64-linux-gnu logits --tokens "$tokens" -o /out.f32 || fail "the program in an empty root"
zoo check gemma3-270m-like "$work/root/out.f32" --type Q4_K --but-one || fail "logits"
