# What other people's programs may expect of a model in them: no other global symbol, no executable stack, no text
# relocations, no library but libc and libm, a clean bill from the sanitizers, use after fork, use where /tmp may not
# be executed and where there is no /proc, several linkers.
source "$(dirname "$0")/../lib/e2e.sh"

command -v clang-22 >/dev/null || skip "no clang-22"
compile "$smollm2_gguf" "$work/model.o" --emit obj --header "$work/model.h"
compile "$smollm2_gguf" "$work/libmodel.so" --emit shared --header "$work/model.h"
compile "$smollm2_gguf" "$work/libmodel.a" --emit archive --header "$work/model.h"

# ---- Symbols and segments ----
for file in model.o libmodel.a; do
  nm -g --defined-only "$work/$file" | awk 'NF == 3 {print $3}' >"$work/names"
  [ "$(wc -l <"$work/names")" -gt 30 ] || fail "$file defines $(wc -l <"$work/names") symbols"
  ! grep -qv '^model_' "$work/names" || fail "$file defines $(grep -v '^model_' "$work/names" | head -n 3)"
  nm -u "$work/$file" | awk '{print $2}' | sort -u >"$work/wanted"
  ! grep -qE '^_Z|^__cxa|^_Unwind|tls_get|__ehdr_start' "$work/wanted" ||
    fail "$file wants $(grep -E '^_Z|^__cxa|^_Unwind|tls_get|__ehdr' "$work/wanted" | head -n 3)"
done
nm -D --defined-only "$work/libmodel.so" | awk '{print $3}' | diff - "$work/names" >/dev/null ||
  fail "the shared library exports other names than the archive"
# Memory that can be written belongs to handles: nothing in .data or .bss.
for section in .data .bss .tbss .tdata; do
  size="$(readelf -SW "$work/libmodel.so" | sed 's/\[ *//' | awk -v s="$section" '$2 == s {print $6}')"
  [ -z "$size" ] || [ $((16#$size)) = 0 ] || fail "libmodel.so has $section of $((16#$size)) bytes"
done
readelf -lW "$work/libmodel.so" >"$work/segments"
grep -q 'GNU_STACK.* RW ' "$work/segments" || fail "GNU_STACK: $(grep STACK "$work/segments")"
grep -q GNU_RELRO "$work/segments" || fail "no RELRO"
! grep -qE 'LOAD.* RWE ' "$work/segments" || fail "a segment is writable and executable"
readelf -dW "$work/libmodel.so" >"$work/dynamic"
! grep -q TEXTREL "$work/dynamic" || fail "TEXTREL"
grep -q 'FLAGS.*BIND_NOW' "$work/dynamic" || fail "no BIND_NOW"
[ "$(grep NEEDED "$work/dynamic" | sed 's/.*\[//; s/\].*//' | sort | tr '\n' ' ')" = "libc.so.6 libm.so.6 " ] ||
  fail "NEEDED: $(grep NEEDED "$work/dynamic")"
newest="$(readelf -VW "$work/libmodel.so" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)"
[ "$(printf '%s\nGLIBC_2.17\n' "$newest" | sort -V | tail -n 1)" = GLIBC_2.17 ] || fail "wants $newest"
readelf -SW "$work/model.o" >"$work/sections"
grep -q 'lrodata.gc.weights.* Al ' "$work/sections" || fail "the weights are in no large section"
grep -q 'note.GNU-stack' "$work/sections" || fail "model.o says nothing of the stack"
for file in model.o libmodel.so; do
  readelf -SsW "$work/$file" >"$work/sections"
  ! grep -qE '\.comment|\.debug| FILE ' "$work/sections" || fail "$file has .comment, debug information or names of sources"
done
compile "$smollm2_gguf" "$work/model2.o" --emit obj --prefix model --header "$work/model2.h"
same "$work/model.o" "$work/model2.o" "the same model twice"
same "$work/model.h" "$work/model2.h" "its header twice"

# ---- An application: two sessions in threads, a pool of its own, an allocator that counts, a child ----
cat >"$work/app.c" <<'C'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model.h"

static long balance;

static void *get(void *user, size_t bytes, size_t align) {
  void *p = NULL;
  __atomic_fetch_add((long *)user, 1, __ATOMIC_RELAXED);
  return posix_memalign(&p, align < sizeof p ? sizeof p : align, bytes) == 0 ? p : NULL;
}

static void put(void *user, void *p, size_t bytes, size_t align) {
  (void)bytes, (void)align;
  __atomic_fetch_sub((long *)user, 1, __ATOMIC_RELAXED);
  free(p);
}

struct work {
  void (*job)(void *, uint32_t);
  void *context;
  uint32_t worker;
};

static void *work(void *arg) {
  struct work *w = arg;
  w->job(w->context, w->worker);
  return NULL;
}

static void run(void *user, uint32_t workers, void (*job)(void *, uint32_t), void *context) {
  pthread_t threads[8];
  struct work all[8];
  (void)user;
  for (uint32_t i = 1; i < workers; ++i) {
    all[i] = (struct work){job, context, i};
    if (pthread_create(&threads[i], NULL, work, &all[i]) != 0) abort();
  }
  job(context, 0);
  for (uint32_t i = 1; i < workers; ++i) pthread_join(threads[i], NULL);
}

struct user {
  model_session *session;
  char text[1024];
  size_t bytes;
};

static int collect(void *arg, int32_t id, const char *text, size_t n) {
  struct user *u = arg;
  (void)id;
  memcpy(u->text + u->bytes, text, n);
  u->bytes += n;
  return 0;
}

static int32_t ids[256];
static size_t n_ids;

static void *generate(void *arg) {
  struct user *u = arg;
  model_generator_options limits;
  model_sampler_options greedy;
  model_generator *generator = NULL;
  char why[256];
  model_generator_options_init(&limits);
  model_sampler_options_init(NULL, &greedy);
  greedy.temperature = 0;
  limits.max_tokens = 12;
  u->bytes = 0;
  model_truncate(u->session, 0, 0);
  if (model_generator_create(u->session, &greedy, &limits, &generator, why, sizeof why) != MODEL_OK ||
      model_generate(generator, ids, n_ids, collect, u, NULL) != MODEL_OK)
    abort();
  model_generator_free(generator);
  return NULL;
}

int main(int argc, char **argv) {
  const model_allocator allocator = {get, put, &balance};
  const model_pool pool = {run, NULL, 2};
  model_model_options options;
  model_session_options size;
  model_model *model = NULL;
  static struct user a, b;
  char why[256] = "";
  model_model_options_init(&options);
  options.allocator = &allocator;
  if (argc > 2) options.weights = argv[2];
  if (model_model_open(&options, &model, why, sizeof why) != MODEL_OK) {
    fprintf(stderr, "%s\n", why);
    return 1;
  }
  model_session_options_init(&size);
  size.n_ctx = 256;
  size.threads = 2;
  if (model_session_create(model, &size, &a.session, why, sizeof why) != MODEL_OK) abort();
  size.pool = &pool;
  if (model_session_create(model, &size, &b.session, why, sizeof why) != MODEL_OK) abort();
  const model_message message = {"user", "What is the capital of France?"};
  model_chat chat;
  model_chat_init(&chat);
  chat.messages = &message, chat.n_messages = 1;
  if (model_chat_tokens(model, &chat, ids, 256, &n_ids, why, sizeof why) != MODEL_OK) abort();

  pthread_t thread;
  if (pthread_create(&thread, NULL, generate, &b) != 0) abort();
  generate(&a);
  pthread_join(thread, NULL);
  int same = a.bytes == b.bytes && memcmp(a.text, b.text, a.bytes) == 0;
  if (argc > 1 && strcmp(argv[1], "fork") == 0) {
    const pid_t child = fork();
    if (child == 0) {
      generate(&a);
      _exit(a.bytes == b.bytes && memcmp(a.text, b.text, a.bytes) == 0 ? 0 : 1);
    }
    int status = -1;
    same = same && waitpid(child, &status, 0) == child && status == 0;
    generate(&a);
    same = same && a.bytes == b.bytes && memcmp(a.text, b.text, a.bytes) == 0;
  }
  printf("%.*s\n", (int)a.bytes, a.text);
  model_session_free(a.session);
  model_session_free(b.session);
  model_model_close(model);
  if (balance != 0) fprintf(stderr, "%ld blocks are left\n", balance);
  return same && balance == 0 ? 0 : 2;
}
C

# build OUT [flags]: from the object.
build() {
  local out="$1"
  shift
  clang-22 -std=gnu11 -O1 -g -Wall -Wextra -I"$work" "$work/app.c" "$@" -o "$work/$out" -lm -pthread >"$work/log" 2>&1 ||
    fail "$out: $(cat "$work/log")"
}
ran() {
  "$@" >"$work/text" 2>"$work/stderr" || fail "$*: exit code $?: $(tail -n 40 "$work/stderr")"
  [ ! -s "$work/stderr" ] || fail "$*: $(head -n 40 "$work/stderr")"
  [ ! -e "$work/expected" ] || same "$work/expected" "$work/text" "$*"
}
build plain "$work/model.o"
ran "$work/plain" fork
cp "$work/text" "$work/expected"
others="$(ldd "$work/plain" | grep -vE 'linux-vdso|libc\.so|libm\.so|ld-linux' || true)"
[ -z "$others" ] || fail "ldd: $others"
readelf -ldW "$work/plain" >"$work/segments"
grep -q 'GNU_STACK.* RW ' "$work/segments" || fail "the program's stack is executable"
! grep -q TEXTREL "$work/segments" || fail "the program has TEXTREL"

# With an allocator of the caller's, none of libc's is called.
cat >>"$work/app.c" <<'C'
void *__wrap_malloc(size_t bytes) { (void)bytes; abort(); }
void *__wrap_aligned_alloc(size_t align, size_t bytes) { (void)align, (void)bytes; abort(); }
void *__wrap_realloc(void *p, size_t bytes) { (void)p, (void)bytes; abort(); }
C
build wrapped "$work/model.o" -Wl,--wrap=malloc,--wrap=aligned_alloc,--wrap=realloc
ran "$work/wrapped" fork

for sanitizer in address undefined thread; do
  build "san_$sanitizer" "$work/model.o" "-fsanitize=$sanitizer" -fno-sanitize-recover=all
  ran "$work/san_$sanitizer" alone
done
build san_shared -L"$work" -lmodel -fsanitize=address "-Wl,-rpath,$work"
ran "$work/san_shared" alone

# Every linker that is here; a static program, which any glibc's tools make; --gc-sections; an archive by name.
for linker in bfd gold lld; do
  clang-22 "-fuse-ld=$linker" -x c - -o /dev/null >/dev/null 2>&1 <<<'int main(void) { return 0; }' || continue
  build "by_$linker" "$work/model.o" "-fuse-ld=$linker" -Wl,--gc-sections
  ran "$work/by_$linker" fork
  build "archive_by_$linker" -L"$work" -Wl,-Bstatic -lmodel -Wl,-Bdynamic "-fuse-ld=$linker"
  ran "$work/archive_by_$linker" alone
done
build static "$work/model.o" -static
ran "$work/static" fork

# Where the root is empty, without /proc, and where /tmp may not be executed.
if [ "$(id -u)" = 0 ]; then
  mkdir -p "$work/root"
  cp "$work/static" "$work/root/app"
  ran chroot "$work/root" /app fork
  if unshare --mount sh -c "mount -t tmpfs -o noexec none /tmp" 2>/dev/null; then
    mkdir -p "$work/bin"
    ran unshare --mount sh -c "mkdir -p /run/gguf-compile-e2e && mount -t tmpfs none /run/gguf-compile-e2e &&
      cp '$work/plain' /run/gguf-compile-e2e/app && mount -t tmpfs -o noexec none /tmp && cd /tmp &&
      exec /run/gguf-compile-e2e/app fork"
  fi
fi

# ---- Weights in a file of their own: external_weights.sh has what is refused ----
compile "$smollm2_gguf" "$work/small.o" --emit obj --weights external --prefix model --header "$work/model.h"
build beside "$work/small.o"
[ "$(stat -c %s "$work/beside")" -lt 8000000 ] || fail "weights external: $(stat -c %s "$work/beside") bytes"
ran "$work/beside" alone
mkdir "$work/far"
cp "$work/beside" "$work/far/"
ran "$work/far/beside" alone "$work/small.o.weights"
