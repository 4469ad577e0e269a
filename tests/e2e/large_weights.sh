# Weights past 4 GB (llama3.1-8b's shape, 4.9 GB): in an executable, in a shared library, and, as objects have them from
# 2 GB on, in a file beside the program. All give the same tokens.
source "$(dirname "$0")/../lib/e2e.sh"

need=16 # GB: the model and two outputs at a time
have="$(df --output=avail -B 1000000000 "$work" | tail -n 1)"
[ "$have" -ge "$need" ] || skip "llama3.1-8b's shape needs $need GB of disk, and $work has $have"

python "$root/tests/zoo/large.py" llama3.1-8b "$work/model.gguf"
[ "$(stat -c %s "$work/model.gguf")" -gt 4900000000 ] || fail "the model has $(stat -c %s "$work/model.gguf") bytes"
tokens=1,2,3,128255 # the last row of the embedding, too

compile "$work/model.gguf" "$work/model"
[ "$(stat -c %s "$work/model")" -gt 4900000000 ] || fail "the executable has $(stat -c %s "$work/model") bytes"
"$work/model" --tokens "$tokens" -n 3 --temp 0 --ids -c 256 >"$work/expected" 2>"$work/stderr" ||
  fail "the executable: $(cat "$work/stderr")"
rm "$work/model"

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
  model_session_options_init(&options);
  options.n_ctx = 256;
  if (model_model_open(NULL, &model, why, sizeof why) != 0 ||
      model_session_create(model, &options, &session, why, sizeof why) != 0 ||
      model_prefill(session, 0, ids, 4) != 0)
    return puts(why), 1;
  for (int n = 4; n < 7; ++n) {
    const float *logits = model_logits(session, 0);
    int best = 0;
    for (int i = 1; i < 128256; ++i) best = logits[i] > logits[best] ? i : best;
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
clang-22 -O1 -I"$work" "$work/app.c" "$work/model.o" -o "$work/app" -lm -pthread || fail "linking the object"
"$work/app" >"$work/text" || fail "the object's program: $(cat "$work/text")"
same "$work/expected" "$work/text" "executable and object"
