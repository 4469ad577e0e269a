# States that a file brings along are those it would compute itself: the same answers, from the first turn on, without the
# work; and only where instruction set and KV type match.
source "$(dirname "$0")/../lib/e2e.sh"

# kept FILE: tokens that a completion's timings say came from the cache; 0 without a line.
kept() { sed -n 's/^from cache: *\([0-9]*\) tokens.*/\1/p' "$1" | grep . || echo 0; }

# A chat: the text is the system's message, and the default one.
printf 'You are a %s assistant that answers in one short sentence.\n' "$(printf 'kind and careful and %.0s' $(seq 80))patient" \
  >"$work/system.txt"
compile "$smollm2_gguf" "$work/plain"
compile "$smollm2_gguf" "$work/baked" --prompt-cache-file "$work/system.txt"
"$work/baked" info --json >"$work/info.json"
tokens="$(python -c 'import json, sys; print(json.load(open(sys.argv[1]))["prompt_cache_tokens"])' "$work/info.json")"
[ "$tokens" -gt 200 ] || fail "only $tokens tokens are in the cache"
"$work/baked" info >"$work/text"
grep -q "^prompt cache  $tokens tokens for" "$work/text" || fail "info: $(cat "$work/text")"
printf 'What is the capital of France?\nAnd of Italy?\n' >"$work/questions"
"$work/plain" chat -sysf "$work/system.txt" --temp 0 -n 24 <"$work/questions" >"$work/expected" || fail "the plain chat"
"$work/baked" chat --temp 0 -n 24 -v <"$work/questions" >"$work/answers" 2>"$work/stderr" || fail "the baked chat"
same "$work/expected" "$work/answers" "answers with baked states"
for flags in "-ctk f32" "-sys Be_brief." "-ub 7 -t 1"; do
  system=(-sysf "$work/system.txt")
  case "$flags" in -sys*) system=() ;; esac
  "$work/plain" chat "${system[@]}" $flags --temp 0 -n 16 <"$work/questions" >"$work/expected" || fail "plain: $flags"
  "$work/baked" chat $flags --temp 0 -n 16 <"$work/questions" >"$work/answers" || fail "baked: $flags"
  same "$work/expected" "$work/answers" "baked states and $flags"
done

# A completion, in a file for two instruction sets.
printf 'The history of the city of Paris begins with %s' "$(printf 'a village on an island, and %.0s' $(seq 40))" \
  >"$work/text.txt"
isas=()
while read -r isa; do isas+=("$isa"); done < <("$work/plain" info --json |
  python -c 'import json, sys; print(*[i["name"] for i in json.load(sys.stdin)["isas"] if i["runs_here"]], sep="\n")')
compile "$gemma3_gguf" "$work/plain" --cpu "x86-64-v3,${isas[0]}"
compile "$gemma3_gguf" "$work/baked" --cpu "x86-64-v3,${isas[0]}" --prompt-cache-file "$work/text.txt"
rest=" then Roman soldiers came"
for isa in x86-64-v3 "${isas[0]}"; do
  for program in plain baked; do
    "$work/$program" -p "$(cat "$work/text.txt")$rest" --isa "$isa" --temp 0 -n 16 >"$work/$program.txt" 2>"$work/$program.err" ||
      fail "$program on $isa: $(cat "$work/$program.err")"
  done
  same "$work/plain.txt" "$work/baked.txt" "a completion on $isa"
  [ "$(kept "$work/plain.err")" = 0 ] && [ "$(kept "$work/baked.err")" -gt 200 ] ||
    fail "on $isa $(kept "$work/plain.err") and $(kept "$work/baked.err") tokens were kept"
done
"$work/baked" -p "$(cat "$work/text.txt")$rest" -ctk f32 --temp 0 -n 4 >/dev/null 2>"$work/stderr"
[ "$(kept "$work/stderr")" = 0 ] || fail "states of another KV type were used"
"$work/baked" -p "Something else" --temp 0 -n 4 >/dev/null 2>"$work/stderr"
[ "$(kept "$work/stderr")" = 0 ] || fail "states of another text were used"

compile "$gemma3_gguf" "$work/again" --cpu "x86-64-v3,${isas[0]}" --prompt-cache-file "$work/text.txt"
same "$work/baked" "$work/again" "two compiles"

# refused WHAT FLAGS...
refused() {
  local what="$1" code=0
  shift
  "$compiler" "$smollm2_gguf" -o "$work/none" "$@" 2>"$work/stderr" || code=$?
  [ "$code" = 1 ] && [ "$(grep -c "error: " "$work/stderr")" = 1 ] && [ ! -e "$work/none" ] || fail "$what: $code: $(cat "$work/stderr")"
  [ -z "$(find "$work" -name 'none*')" ] || fail "$what: files were left"
}
: >"$work/empty.txt"
printf 'word %.0s' $(seq 9000) >"$work/long.txt"
refused "no such file" --prompt-cache-file "$work/missing.txt"
refused "too long" --prompt-cache-file "$work/long.txt"
refused "another machine" --prompt-cache-file "$work/system.txt" --target aarch64-linux-gnu
refused "no tokenizer" --prompt-cache-file "$work/system.txt" --no-tokenizer

# The library starts from them too, in its plain calls; and what a session saved goes with the code that computed it.
if command -v clang-22 >/dev/null; then
  cat >"$work/app.c" <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

static unsigned steps;

static void run(void *user, uint32_t workers, void (*job)(void *, uint32_t), void *context) {
  (void)user, (void)workers;
  ++steps;
  job(context, 0);
}

static void *read_all(const char *path, size_t *n) {
  FILE *f = fopen(path, "rb");
  char *text = malloc(1 << 26);
  *n = f ? fread(text, 1, 1 << 26, f) : 0;
  if (f) fclose(f);
  return text;
}

/* app prefill TEXT STATE: the text's logits and the steps they took, its state to a file; app restore STATE KV */
int main(int argc, char **argv) {
  char why[256] = "";
  model_model *model;
  model_session *session;
  model_session_options options;
  const model_pool pool = {run, NULL, 1};
  static int32_t ids[1024];
  size_t n = 0, bytes = 0;
  if (argc < 4 || model_model_open(NULL, &model, why, sizeof why) != MODEL_OK) return puts(why), 2;
  model_session_options_init(&options);
  options.n_ctx = 1024;
  options.n_batch = 32;
  options.pool = &pool;
  void *data = read_all(argv[2], &bytes);
  if (strcmp(argv[1], "restore") == 0) options.kv_type = (uint32_t)atoi(argv[3]);
  if (model_session_create(model, &options, &session, why, sizeof why) != MODEL_OK) return puts(why), 2;
  if (strcmp(argv[1], "restore") == 0) {
    const model_status status = model_restore(session, 0, data, bytes);
    printf("%d %s\n", (int)status, status == MODEL_OK ? "" : model_session_error(session));
    return 0;
  }
  if (model_tokenize(model, data, bytes, MODEL_TEXT_SPECIAL, ids, 1024, &n) != MODEL_OK) return 2;
  for (int again = 0; again < 2; ++again) {
    model_truncate(session, 0, 0);
    steps = 0;
    if (model_prefill(session, 0, ids, n) != MODEL_OK) return puts(model_session_error(session)), 2;
    fprintf(stderr, "%u\n", steps);
  }
  model_model_info info = {.size = sizeof info};
  model_model_get_info(model, &info);
  fwrite(model_logits(session, 0), sizeof(float), info.n_vocab, stdout);
  const uint64_t size = model_saved_bytes(session, 0);
  void *state = malloc(size);
  FILE *f = fopen(argv[3], "wb");
  if (model_save(session, 0, state, size) != MODEL_OK || !f || fwrite(state, 1, size, f) != size) return 2;
  return fclose(f);
}
C
  printf '%s%s' "$(cat "$work/text.txt")" "$rest" >"$work/whole.txt"
  # build NAME FLAGS...: the program with the model compiled so.
  build() {
    local name="$1"
    shift
    compile "$gemma3_gguf" "$work/model.o" --emit obj --header "$work/model.h" "$@"
    clang-22 -std=c99 -O1 -I"$work" "$work/app.c" "$work/model.o" -o "$work/$name" -lm -pthread >"$work/log" 2>&1 ||
      fail "$name: $(cat "$work/log")"
    rm "$work/model.o"
  }
  build without --cpu x86-64-v3
  build with --cpu x86-64-v3 --prompt-cache-file "$work/text.txt"
  for name in without with; do
    "$work/$name" prefill "$work/whole.txt" "$work/$name.state" >"$work/$name.logits" 2>"$work/$name.steps" ||
      fail "$name: $(cat "$work/$name.logits")"
  done
  same "$work/without.logits" "$work/with.logits" "logits after prefill"
  [ "$(sort -u "$work/without.steps" | wc -l)" = 1 ] && [ "$(head -n 1 "$work/without.steps")" -ge 8 ] ||
    fail "without the cache: $(cat "$work/without.steps") steps"
  [ "$(tr '\n' ' ' <"$work/with.steps")" = "1 1 " ] || fail "with the cache: $(cat "$work/with.steps") steps"

  # restores NAME STATE WHAT [KV]
  restores() {
    "$work/$1" restore "$2" "${4:-4}" >"$work/text" || fail "$1: $(cat "$work/text")"
    grep -q "^$3" "$work/text" || fail "$1 of $2, expected '$3': $(cat "$work/text")"
  }
  restores without "$work/without.state" "0 "
  restores with "$work/without.state" "0 " # the same code
  restores without "$work/without.state" "-9 these saved bytes have a KV cache of f16, and this session has f32" 0
  build plainer --cpu x86-64-v3 --disable-pass fuse_glu
  restores plainer "$work/without.state" "-9 these saved bytes were computed by another build of this model"
  if [ "${isas[0]}" != x86-64-v3 ]; then
    build other --cpu "${isas[0]}"
    restores other "$work/without.state" "-9 these saved bytes were computed with x86-64-v3, and this is ${isas[0]}"
  fi
fi
