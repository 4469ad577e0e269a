# --weights external: a program finds its weights beside it and takes no others. Missing, cut off, damaged or another model's:
# each is one line that names the file, with exit code 1 from an executable, and a status and a message from a library.
source "$(dirname "$0")/../lib/e2e.sh"

command -v clang-22 >/dev/null || skip "no clang-22"
zoo make llama-dense "$work/one.gguf" --type Q8_0
# Another model of the same sizes, and one of others.
python - "$work/one.gguf" "$work/two.gguf" <<'PY'
import sys
data = bytearray(open(sys.argv[1], "rb").read())
data[-5] ^= 1  # of the last tensor
open(sys.argv[2], "wb").write(data)
PY
zoo make llama-dense "$work/three.gguf" --type Q4_0
tokens="$(zoo tokens llama-dense)"

# The programs by kind, each in a folder of its own: exe, obj (a C program), shared (ctypes).
cat >"$work/app.c" <<'C'
#include <stdio.h>
#include "model.h"
int main(int argc, char **argv) {
  model_model_options options;
  model_model *model = NULL;
  char why[512] = "";
  model_model_options_init(&options);
  if (argc > 1) options.weights = argv[1];
  const model_status status = model_model_open(&options, &model, why, sizeof why);
  if (status != MODEL_OK) return fprintf(stderr, "%s\n", why), status == MODEL_ERR_IMAGE ? 1 : 2;
  model_model_close(model);
  return 0;
}
C
cat >"$work/app.py" <<'PY'
import ctypes as c, sys
lib, model, why = c.CDLL(sys.argv[1]), c.c_void_p(), c.create_string_buffer(512)
status = lib.model_model_open(None, c.byref(model), why, c.c_size_t(512))
if status != 0:
    sys.stderr.write(why.value.decode() + "\n")
    sys.exit(1 if status == -8 else 2)  # MODEL_ERR_IMAGE
PY
for model in one two three; do
  mkdir -p "$work/$model/exe" "$work/$model/obj" "$work/$model/shared"
  compile "$work/$model.gguf" "$work/$model/exe/model" --weights external --cpu native
  compile "$work/$model.gguf" "$work/$model/obj/model.o" --weights external --emit obj --prefix model \
    --header "$work/$model/obj/model.h"
  compile "$work/$model.gguf" "$work/$model/shared/libmodel.so" --weights external --emit shared --prefix model
done
clang-22 -I"$work/one/obj" "$work/app.c" "$work/one/obj/model.o" -o "$work/one/obj/app" -lm -pthread || fail "linking"

# run KIND [ARGUMENT]: model one's program.
run() {
  local folder="$work/one/$1"
  case "$1" in
    exe) "$folder/model" logits --tokens "$tokens" -o "$work/out.f32" ;;
    obj) "$folder/app" "${@:2}" ;;
    shared) python "$work/app.py" "$folder/libmodel.so" ;;
  esac
}
weights_of() {
  case "$1" in
    exe) echo model.weights ;;
    obj) echo model.o.weights ;;
    shared) echo libmodel.so.weights ;;
  esac
}
# refuses KIND WHAT: model one's program, with whatever lies beside it now.
refuses() {
  local kind="$1" what="$2" code=0 file
  file="$(weights_of "$kind")"
  run "$kind" >"$work/stdout" 2>"$work/stderr" </dev/null || code=$?
  [ "$code" = 1 ] || fail "$kind, $what: exit code $code: $(cat "$work/stderr")"
  [ "$(wc -l <"$work/stderr")" = 1 ] && [ ! -s "$work/stdout" ] || fail "$kind, $what: $(cat "$work/stdout" "$work/stderr")"
  grep -q "the weights in .*/$file: $what" "$work/stderr" || fail "$kind, expected '$what': $(cat "$work/stderr")"
}

for kind in exe obj shared; do
  file="$(weights_of "$kind")" beside="$work/one/$kind/$(weights_of "$kind")"
  run "$kind" 2>"$work/stderr" || fail "$kind: $(cat "$work/stderr")"
  mv "$beside" "$work/kept"
  size="$(stat -c %s "$work/kept")"
  refuses "$kind" "there is no such file"
  cp "$work/two/$kind/$file" "$beside"
  [ "$(stat -c %s "$beside")" = "$size" ] || fail "the other model's weights are of another size"
  refuses "$kind" "they are another model's"
  cp "$work/three/$kind/$file" "$beside"
  refuses "$kind" "[0-9]* bytes, and this model's are $size"
  head -c "$((size - 1))" "$work/kept" >"$beside"
  refuses "$kind" "$((size - 1)) bytes, and this model's are $size"
  : >"$beside"
  refuses "$kind" "0 bytes, and this model's are $size"
  cp "$work/kept" "$beside"
  printf 'x' | dd of="$beside" bs=1 seek=100 conv=notrunc 2>/dev/null
  refuses "$kind" "damaged, or no weights"
  rm "$beside"
  mkfifo "$beside"
  refuses "$kind" "it cannot be read"
  rm "$beside"
  mkdir "$beside"
  refuses "$kind" ""
  rmdir "$beside"
  mv "$work/kept" "$beside"
  run "$kind" 2>"$work/stderr" || fail "$kind again: $(cat "$work/stderr")"
done

# A path that the caller gives; and what only a whole check of the weights finds.
mv "$work/one/obj/model.o.weights" "$work/elsewhere"
run obj "$work/elsewhere" 2>"$work/stderr" || fail "weights elsewhere: $(cat "$work/stderr")"
"$work/one/exe/model" check >"$work/text" 2>&1 && grep -q good "$work/text" || fail "check: $(cat "$work/text")"
printf 'x' | dd of="$work/one/exe/model.weights" bs=1 seek="$((size / 2))" conv=notrunc 2>/dev/null
code=0
"$work/one/exe/model" check >"$work/text" 2>&1 || code=$?
[ "$code" = 1 ] || fail "check of damaged weights: $code: $(cat "$work/text")"
# The program and its weights under other names go together no more.
mkdir "$work/renamed"
cp "$work/two/exe/model" "$work/renamed/other"
cp "$work/two/exe/model.weights" "$work/renamed/"
code=0
"$work/renamed/other" logits --tokens 1 -o "$work/out.f32" 2>"$work/stderr" || code=$?
[ "$code" = 1 ] && grep -q "other.weights: there is no such file" "$work/stderr" || fail "renamed: $(cat "$work/stderr")"
mv "$work/renamed/model.weights" "$work/renamed/other.weights"
"$work/renamed/other" logits --tokens 1 -o "$work/out.f32" || fail "both renamed"
