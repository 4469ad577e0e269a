# Weights past 2 GB and past 4 GB. llama3.1-8b's shape (4.9 GB) in an executable, in a shared library, and, as objects have them
# from 2 GB on, in a file beside the program; gemma3-4b's (2.5 GB) inside an object, which linkers take as the compiler
# says. All of a model's programs give the same tokens.
source "$(dirname "$0")/../lib/e2e.sh"

need=16 # GB: the model and two outputs at a time
have="$(df --output=avail -B 1000000000 "$work" | tail -n 1)"
[ "$have" -ge "$need" ] || skip "llama3.1-8b's shape needs $need GB of disk, and $work has $have"
tokens=1,2,3,128255 # rows of the embedding past 1 GB, too

cat >"$work/app.c" <<'C'
#include <stdio.h>
#include <stdlib.h>
#include "model.h"
int main(void) {
  int32_t ids[7] = {1, 2, 3, 128255};
  char why[256] = "";
  model_model *model;
  model_session *session;
  model_session_options options;
  model_model_info info = {.size = sizeof info};
  model_session_options_init(&options);
  options.n_ctx = 256;
  if (model_model_open(NULL, &model, why, sizeof why) != 0 ||
      model_model_get_info(model, &info) != 0 ||
      model_session_create(model, &options, &session, why, sizeof why) != 0 ||
      model_prefill(session, 0, ids, 4) != 0)
    return puts(why), 1;
  for (int n = 4; n < 7; ++n) {
    const float *logits = model_logits(session, 0);
    int best = 0;
    for (int i = 1; i < (int)info.n_vocab; ++i) best = logits[i] > logits[best] ? i : best;
    ids[n] = best;
    if (n < 6 && model_decode(session, 0, best) != 0) return 1;
  }
  for (int n = 0; n < 7; ++n) printf("%s%d", n ? "," : "", (int)ids[n]);
  printf("\n");
  model_session_free(session);
  model_model_close(model);
  return 0;
}
C

# greedy: what the model's executable, gone then, makes of the tokens, to `expected`.
greedy() {
  compile "$work/model.gguf" "$work/model"
  [ "$(stat -c %s "$work/model")" -gt "$(stat -c %s "$work/model.gguf")" ] ||
    fail "the executable has $(stat -c %s "$work/model") bytes"
  "$work/model" --tokens "$tokens" -n 3 --temp 0 --ids -c 256 >"$work/expected" 2>"$work/stderr" ||
    fail "the executable: $(cat "$work/stderr")"
  rm "$work/model"
}

# link_and_run [FLAG...]: the program of model.o.
link_and_run() {
  clang-22 "$@" -O1 -I"$work" "$work/app.c" "$work/model.o" -o "$work/app" -lm -pthread || fail "linking the object: $*"
  "$work/app" >"$work/text" || fail "the object's program ($*): $(cat "$work/text")"
  same "$work/expected" "$work/text" "executable and object ($*)"
  rm "$work/app"
}

python "$root/tests/zoo/large.py" llama3.1-8b "$work/model.gguf"
[ "$(stat -c %s "$work/model.gguf")" -gt 4900000000 ] || fail "the model has $(stat -c %s "$work/model.gguf") bytes"
greedy

compile "$work/model.gguf" "$work/libmodel.so" --emit shared
cat >"$work/app.py" <<'PY'
import ctypes as c, sys
lib, ids = c.CDLL(sys.argv[1]), [int(t) for t in sys.argv[2].split(",")]
class Session(c.Structure):
    _fields_ = [("size", c.c_size_t), ("n_ctx", c.c_uint32), ("rest", c.c_uint32 * 5), ("pointers", c.c_void_p * 2)]
why, model, session, options = c.create_string_buffer(256), c.c_void_p(), c.c_void_p(), Session()
ok = lib.model_model_open(None, c.byref(model), why, c.c_size_t(256))
lib.model_session_options_init(c.byref(options))
options.n_ctx = 256
ok = ok or lib.model_session_create(model, c.byref(options), c.byref(session), why, c.c_size_t(256))
if ok:
    sys.exit(why.value.decode())
lib.model_logits.restype = c.POINTER(c.c_float)
prompt = (c.c_int32 * len(ids))(*ids)
assert lib.model_prefill(session, 0, prompt, c.c_size_t(len(ids))) == 0
for left in (2, 1, 0):
    logits = lib.model_logits(session, 0)[:128256]
    ids.append(logits.index(max(logits)))
    assert left == 0 or lib.model_decode(session, 0, ids[-1]) == 0
print(",".join(map(str, ids)))
PY
python "$work/app.py" "$work/libmodel.so" "$tokens" >"$work/text" 2>"$work/stderr" ||
  fail "the shared library: $(cat "$work/stderr")"
same "$work/expected" "$work/text" "executable and shared library"
rm "$work/libmodel.so"

command -v clang-22 >/dev/null || exit 0
compile "$work/model.gguf" "$work/model.o" --emit obj --header "$work/model.h"
grep -q "model.o.weights" "$work/compile.log" || fail "the compiler says nothing of model.o.weights"
[ "$(stat -c %s "$work/model.o")" -lt 10000000 ] || fail "the object has $(stat -c %s "$work/model.o") bytes"
link_and_run
rm "$work/model.gguf" "$work/model.o"*

# ---- 2.5 GB inside an object ----
python "$root/tests/zoo/large.py" gemma3-4b "$work/model.gguf"
greedy
compile "$work/model.gguf" "$work/model.o" --emit obj --header "$work/model.h"
[ "$(stat -c %s "$work/model.o.weights")" -gt 2500000000 ] || fail "weights of 2.5 GB are not beside the object"
rm "$work/model.o"*
code=0
"$compiler" "$work/model.gguf" -o "$work/none.o" --emit obj --weights embed --target aarch64-linux-gnu --cpu armv8-a \
  2>"$work/stderr" || code=$?
[ "$code" = 1 ] && [ "$(grep -c "error: " "$work/stderr")" = 1 ] && grep -q "aarch64-linux-gnu, whose code reaches 4 GB" "$work/stderr" ||
  fail "for aarch64: $code: $(cat "$work/stderr")"
[ -z "$(find "$work" -name 'none*')" ] || fail "for aarch64 files were left"

compile "$work/model.gguf" "$work/model.o" --emit obj --header "$work/model.h" --weights embed
[ ! -e "$work/model.o.weights" ] && [ "$(stat -c %s "$work/model.o")" -gt 2500000000 ] || fail "--weights embed"
for words in "GNU ld, gold and LLD 22" "not with -static, nor with LLD 14" "--weights external"; do
  grep -q -- "$words" "$work/compile.log" || fail "the compiler doesn't say '$words': $(cat "$work/compile.log")"
done
rm "$work/model.gguf"
memory="$(awk '/MemAvailable/ {print int($2 / 1000000)}' /proc/meminfo)" # GB
for linker in bfd gold lld; do
  clang-22 "-fuse-ld=$linker" -x c - -o /dev/null >/dev/null 2>&1 <<<'int main(void) { return 0; }' || continue
  if [ "$linker" != bfd ] && [ "$memory" -lt 8 ]; then
    echo "$linker takes 5 GB of memory and more, and this machine has $memory: not tried"
    continue
  fi
  link_and_run "-fuse-ld=$linker"
done
! clang-22 -static -fuse-ld=bfd -O1 -I"$work" "$work/app.c" "$work/model.o" -o "$work/app" -lm -pthread 2>"$work/stderr" ||
  fail "-static links, and the compiler says that it doesn't"
grep -qE "truncated to fit|out of range" "$work/stderr" || fail "-static: $(cat "$work/stderr")"
